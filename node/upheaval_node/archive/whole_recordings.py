"""Lists of messages that are each stored as a recording, written once and read back whole: the form of snapshots.

Nothing blocks: writing and reading are sequences of steps. A recording counts as written when it has stopped at the end
of its last message, so a process that receives its id can rely on all of it. This module knows no message.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import unpack_from
from typing import Final

from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.counters import RECORDING_POSITION, Counter, Counters
from upheaval_node.errors import PeerError, TimeoutExpired
from upheaval_node.media.api import BACK_PRESSURED, Image, Media, Message, Publication
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.channel import Channel
from upheaval_node.steps import StepGenerator
from upheaval_node.types import MS, NULL_POSITION, NULL_VALUE, Now

ASK_INTERVAL_NS: Final = 5 * MS
"""The pause before the archive is asked again whether a recording has stopped, in nanoseconds."""

FRAGMENT_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class WholeRecording:
    """A completed recording: its id, and its length in bytes of frames."""

    recording_id: int
    length: int


def stream_session_id(replay_session_id: int) -> int:
    """The low 32 bits of a replay session id, signed: the session id of its stream."""
    low = replay_session_id & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def write_recording(
    media: Media,
    counters: Counters,
    archive: ArchiveClient,
    channel: str,
    stream_id: int,
    messages: Iterable[bytes],
) -> StepGenerator[WholeRecording]:
    """Record exactly these messages in order.

    Raises `PeerError` when the archive refuses them, `TimeoutExpired` when it does not answer.
    """
    publication = media.add_publication(channel, stream_id)
    try:
        local = str(Channel("ipc", {"session-id": str(publication.session_id)}))
        call = archive.start_recording(local, stream_id, local=True, auto_stop=True)
        yield from _answered(call, "recording is not started")
        recording_id, counter = yield from _position_counter(counters, archive, publication.session_id)
        yield from _connected(publication, counter, archive.timeout_ns)
        yield from _offer_all(publication, counter, messages, archive.timeout_ns)
        end = publication.position
        yield from _recorded(counter, end, archive.timeout_ns)
    finally:
        publication.close()
    descriptor = yield from _stopped(archive, recording_id)
    if descriptor.stop_position != end:
        raise PeerError(f"recording {recording_id} stopped at {descriptor.stop_position} instead of {end}")
    return WholeRecording(recording_id, end - descriptor.start_position)


def read_recording(
    media: Media, archive: ArchiveClient, recording_id: int, stream_id: int
) -> StepGenerator[tuple[list[bytes], int]]:
    """All messages of a stopped recording, and its length.

    Raises `PeerError` when not all of it can be read, `TimeoutExpired` when the archive does not answer.
    """
    descriptor = yield from describe_recording(archive, recording_id)
    start, stop = descriptor.start_position, descriptor.stop_position
    if stop == NULL_POSITION:
        raise PeerError(f"recording {recording_id} was never stopped")
    messages: list[bytes] = []
    if stop == start:
        return messages, 0
    call = archive.replay(recording_id, start, stop - start, str(Channel("ipc", {"alias": "snapshot"})), stream_id)
    yield from _answered(call, f"recording {recording_id} is not replayed")
    session_id = stream_session_id(call.relevant_id)
    subscription = media.add_subscription(str(Channel("ipc", {"session-id": str(session_id)})), stream_id)

    def take(message: Message) -> None:
        messages.append(bytes(message.payload))

    try:
        image: Image | None
        now = yield
        deadline_ns = now.ns + archive.timeout_ns
        while (image := subscription.image(session_id)) is None:
            _check(now, deadline_ns, f"no image of the replay of recording {recording_id}")
            now = yield
        while image.position < stop:
            if image.poll(take, FRAGMENT_LIMIT):
                deadline_ns = now.ns + archive.timeout_ns
                continue
            if image.is_closed:
                raise PeerError(f"the replay of recording {recording_id} ended at {image.position} before {stop}")
            _check(now, deadline_ns, f"the replay of recording {recording_id} does not go on")
            now = yield
    finally:
        subscription.close()
    return messages, stop - start


def describe_recording(archive: ArchiveClient, recording_id: int) -> StepGenerator[am.RecordingDescriptor]:
    """The archive's descriptor of a recording. Raises `PeerError` for a recording that it does not have."""
    call = archive.list_recording(recording_id)
    yield from _answered(call, f"recording {recording_id} is not known")
    if not call.descriptors:
        raise PeerError(f"the archive has no recording {recording_id}")
    return call.descriptors[0]


def _answered(call: PendingCall, what: str) -> StepGenerator[None]:
    while not call.done:
        yield
    if call.error is not None:
        text = f"{what}: {call.error}"
        # A time-out does not show whether the recording exists.
        raise TimeoutExpired(text) if call.error_code == NULL_VALUE else PeerError(text)


def _position_counter(
    counters: Counters, archive: ArchiveClient, session_id: int
) -> StepGenerator[tuple[int, Counter]]:
    matches: list[tuple[int, Counter]] = []

    def visit(counter: Counter, type_id: int, key: bytes, _label: str) -> None:
        if type_id == RECORDING_POSITION and unpack_from("<i", key, 8)[0] == session_id:
            matches.append((unpack_from("<q", key)[0], counter))

    deadline_ns = NULL_VALUE
    while True:
        counters.for_each(visit)
        if matches:
            return matches[0]
        now = yield
        if deadline_ns == NULL_VALUE:
            deadline_ns = now.ns + archive.timeout_ns
        _check(now, deadline_ns, "the archive does not begin to record")


def _connected(publication: Publication, counter: Counter, timeout_ns: int) -> StepGenerator[None]:
    """Wait until the publication knows of its recorder.

    Counters are shared memory, but a publication outside the driver's process learns it from a message, which may
    come later than the archive's counter.
    """
    deadline_ns = NULL_VALUE
    while not publication.is_connected:
        if publication.is_closed or counter.is_closed:
            raise PeerError("the recording ended before its stream began")
        now = yield
        if deadline_ns == NULL_VALUE:
            deadline_ns = now.ns + timeout_ns
        _check(now, deadline_ns, "the recorded stream is not connected")


def _offer_all(
    publication: Publication, counter: Counter, messages: Iterable[bytes], timeout_ns: int
) -> StepGenerator[None]:
    deadline_ns = NULL_VALUE
    for message in messages:
        while (result := publication.offer(message)) <= 0:
            if result != BACK_PRESSURED or counter.is_closed:
                raise PeerError(f"the recorded stream ended at {publication.position}: result {result}")
            now = yield
            if deadline_ns == NULL_VALUE:
                deadline_ns = now.ns + timeout_ns
            _check(now, deadline_ns, "the archive does not take what is to be recorded")
        deadline_ns = NULL_VALUE


def _recorded(counter: Counter, end: int, timeout_ns: int) -> StepGenerator[None]:
    deadline_ns = NULL_VALUE
    while True:
        if counter.is_closed:
            raise PeerError(f"the recording ended before {end}")
        if counter.get() >= end:
            return
        now = yield
        if deadline_ns == NULL_VALUE:
            deadline_ns = now.ns + timeout_ns
        _check(now, deadline_ns, f"the archive does not record up to {end}")


def _stopped(archive: ArchiveClient, recording_id: int) -> StepGenerator[am.RecordingDescriptor]:
    now = yield
    deadline_ns = now.ns + archive.timeout_ns
    while True:
        descriptor = yield from describe_recording(archive, recording_id)
        if descriptor.stop_position != NULL_POSITION:
            return descriptor
        now = yield
        _check(now, deadline_ns, f"the archive does not stop recording {recording_id}")
        ask_again_ns = now.ns + ASK_INTERVAL_NS
        while now.ns < ask_again_ns:
            now = yield


def _check(now: Now, deadline_ns: int, text: str) -> None:
    if now.ns >= deadline_ns:
        raise TimeoutExpired(text)
