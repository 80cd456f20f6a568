"""The copy of the log: a replay of a member's recording, recorded by the local archive as it arrives.

Theory of operation. The local archive listens on the catch-up endpoint for the stream of one session id and records it,
as a new recording or as an extension of the one that the recording log names. The member's archive replays its log
recording into that stream, never beyond what its member knows to be committed. The agent reads the same stream, before
the archive writes any of it, to find terms that begin in it. Source: Aeron Cluster, live log recording and replay. The
module knows nothing of snapshots and of the member.
"""

import struct
from collections.abc import Callable
from random import Random

from upheaval_node.archive.calls import LateError, PendingCall
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.whole_recordings import describe_recording, stream_session_id
from upheaval_node.backup.log_terms import find_terms
from upheaval_node.counters import RECORDING_POSITION, Counter, Counters
from upheaval_node.errors import PeerError, TimeoutExpired
from upheaval_node.media.api import Image, Media
from upheaval_node.media.parameters import random_session_id
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel, split_endpoint
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import MAX_POSITION, MS, NULL_POSITION, NULL_VALUE, Now

ASK_INTERVAL_NS = 10 * MS
"""The pause before the archive is asked again whether a recording has stopped, in nanoseconds."""


class LogCopy:
    """One attempt to follow the log; `close` ends it for good. `extends` is the recording to extend, -1 for a new one.

    `on_terms(now, recording id, events)` names the terms that begin in the log. The first call comes as soon as the
    recording is worth naming.
    """

    def __init__(
        self,
        media: Media,
        counters: Counters,
        archive: ArchiveClient,
        catchup_endpoint: str,
        random: Random,
        *,
        extends: int,
        on_terms: Callable[[Now, int, list[cm.NewLeadershipTermEvent]], None],
    ) -> None:
        self.session_id = random_session_id(random)
        self.recording_id = NULL_VALUE
        """The live recording, -1 until the archive records."""
        self.start_position: int = NULL_POSITION
        """Where the stream began, once it arrives."""
        self._media = media
        self._counters = counters
        self._archive = archive
        self._endpoint = catchup_endpoint
        self._extends = extends
        self._on_terms = on_terms
        self._counter: Counter | None = None
        self._has_looked = False
        self._is_closed = False
        self._channel: Channel | None = None
        self._record_call: PendingCall | None = None
        self._replay_call: PendingCall | None = None
        self._source: ArchiveClient | None = None
        self._record_steps: Steps[None] | None = None
        self._replay_steps: Steps[None] | None = None
        spy = Channel("tcp", {"session-id": str(self.session_id), "alias": "log"}).as_spy()
        self._view = media.add_subscription(str(spy), LOG_STREAM_ID)

    # --- progress ---

    @property
    def position(self) -> int | None:
        """The recorded position, durable at sync levels 1 and 2; None when nothing is being recorded."""
        if self._counter is None or self._counter.is_closed:
            return None
        return self._counter.get()

    @property
    def is_lost(self) -> bool:
        """Whether the archive has stopped recording."""
        return self._counter is not None and self._counter.is_closed

    # --- recording ---

    def record(self, now: Now) -> bool:
        """Start the recording in the local archive. Returns whether it is ready. Raises `PeerError`,
        `TimeoutExpired`.
        """
        if self._record_steps is None:
            self._record_steps = Steps(self._record())
        return self._record_steps.poll(now)

    def _record(self) -> StepGenerator[None]:
        archive = self._archive
        endpoint = self._endpoint
        if split_endpoint(endpoint)[1] == 0:
            endpoint = yield from self._free_port(endpoint)
        self._channel = channel = Channel("tcp", {"endpoint": endpoint}).with_(
            {"session-id": self.session_id, "rejoin": "false", "alias": "log"}
        )
        if self._extends == NULL_VALUE:
            call = archive.start_recording(str(channel), LOG_STREAM_ID, local=False, auto_stop=True)
        else:
            yield from stopped_at(archive, self._extends)
            call = archive.extend_recording(self._extends, str(channel), LOG_STREAM_ID, local=False, auto_stop=True)
        self._record_call = call
        yield from _answered(call, "the log cannot be recorded")

    def _free_port(self, endpoint: str) -> StepGenerator[str]:
        """A free port for port 0 of the catch-up endpoint. If another process takes it, the round fails."""
        channel = str(Channel("tcp", {"endpoint": endpoint}))
        finder = self._media.add_subscription(channel, LOG_STREAM_ID)
        try:
            while finder.resolved_endpoint is None:
                if finder.error is not None:
                    raise PeerError(f"the catch-up endpoint cannot be used: {finder.error}")
                yield
            return f"{endpoint.rpartition(':')[0]}:{split_endpoint(finder.resolved_endpoint)[1]}"
        finally:
            finder.close()

    # --- replay ---

    def replay(
        self, now: Now, source: ArchiveClient, *, recording_id: int, first_position: int, limit_counter_id: int
    ) -> bool:
        """Make `source` replay its log, bounded by one of its counters. Returns whether it is being recorded here.

        An extended recording continues where it stopped. A new one begins at `first_position`, -1 for the start of the
        source's. Raises `PeerError`, `TimeoutExpired`.
        """
        if self._replay_steps is None:
            self._source = source
            self._replay_steps = Steps(self._replay(source, recording_id, first_position, limit_counter_id))
        return self._replay_steps.poll(now)

    def _replay(
        self, source: ArchiveClient, recording_id: int, first_position: int, limit_counter_id: int
    ) -> StepGenerator[None]:
        while not source.is_connected:
            if source.is_closed:
                raise PeerError(f"no connection to the member's archive: {source.error}")
            yield
        position = first_position
        if self._extends != NULL_VALUE:
            position = yield from stopped_at(self._archive, self._extends)
        assert self._channel is not None
        channel = Channel("tcp", {"endpoint": self._channel.endpoint or ""}).with_(
            {"session-id": self.session_id, "alias": "backup"}
        )
        call = self._replay_call = source.bounded_replay(
            recording_id, position, MAX_POSITION, str(channel), LOG_STREAM_ID, limit_counter_id
        )
        yield from _answered(call, "the log is not replayed")
        if stream_session_id(call.relevant_id) != self.session_id:
            raise PeerError(f"the log is replayed with session id {stream_session_id(call.relevant_id)}")
        while (recording := self._find_counter()) is None:
            yield
        self.recording_id, self._counter = recording

    def on_late_error(self, archive: ArchiveClient, error: LateError) -> None:
        """Take an archive's error about a request that it had accepted. Raises `PeerError` if it is one of
        this copy's.
        """
        for what, call in (("recording", self._record_call), ("replay", self._replay_call)):
            is_ours = archive is (self._archive if what == "recording" else self._source)
            if is_ours and call is not None and call.correlation_id == error.correlation_id:
                raise PeerError(f"{what} of the log: {error.text}")

    def _find_counter(self) -> tuple[int, Counter] | None:
        matches: list[tuple[int, Counter]] = []

        def visit(counter: Counter, type_id: int, key: bytes, _label: str) -> None:
            if type_id == RECORDING_POSITION:
                recording_id, session_id = struct.unpack_from("<qi", key)
                if session_id == self.session_id:
                    matches.append((recording_id, counter))

        self._counters.for_each(visit)
        return matches[0] if matches else None

    # --- terms ---

    def look(self, now: Now) -> int:
        """Read everything that arrived since the last call.

        A new recording is read only once part of it is durable: a name for it must not outlive it in a power cut.
        """
        image: Image | None = self._view.image(self.session_id)
        if image is None:
            return 0
        if self.start_position == NULL_POSITION:
            self.start_position = image.join_position
        recording_id = self._extends
        if recording_id == NULL_VALUE:
            position = self.position
            if position is None or position <= self.start_position:
                return 0
            recording_id = self.recording_id
        work = 0
        events: list[cm.NewLeadershipTermEvent] = []
        while (block := image.next_block()) is not None:
            events += find_terms(block)
            image.consume(block.end)
            work += 1
        if events or not self._has_looked:
            self._has_looked = True
            self._on_terms(now, recording_id, events)
        return work

    # --- the end ---

    def close(self) -> None:
        """End recording and replay, as far as the archives are still reachable."""
        if self._is_closed:
            return
        self._is_closed = True
        for steps in (self._record_steps, self._replay_steps):
            if steps is not None:
                steps.close()
        self._view.close()
        replay, record = self._replay_call, self._record_call
        if self._source is not None and replay is not None and replay.done and replay.error is None:
            self._source.stop_replay(replay.relevant_id)
        if record is None or self._channel is None:
            return
        if record.done and record.error is None:
            self._archive.stop_recording(record.relevant_id)
        elif not record.done:
            # The archive serves this after the unanswered request.
            self._archive.stop_recording_channel(str(self._channel), LOG_STREAM_ID)


def stopped_at(archive: ArchiveClient, recording_id: int) -> StepGenerator[int]:
    """The stop position of a recording of the local archive, once known. Raises `PeerError`, `TimeoutExpired`."""
    deadline_ns: int | None = None
    while True:
        descriptor = yield from describe_recording(archive, recording_id)
        if descriptor.stop_position != NULL_POSITION:
            return descriptor.stop_position
        now = yield
        if deadline_ns is None:
            deadline_ns = now.ns + archive.timeout_ns
        elif now.ns >= deadline_ns:
            raise TimeoutExpired(f"the archive does not stop recording {recording_id}")
        ask_again_ns = now.ns + ASK_INTERVAL_NS
        while now.ns < ask_again_ns:
            now = yield


def _answered(call: PendingCall, what: str) -> StepGenerator[None]:
    while not call.done:
        yield
    if call.error is not None:
        raise PeerError(f"{what}: {call.error}")
