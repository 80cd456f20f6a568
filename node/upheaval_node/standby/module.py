"""What stands in the place of a consensus module on a standby: it reads a log that others agree on, and never writes.

Theory of operation. The backup agent beside it copies the committed log into a recording of the own archive; this
module replays that recording as it grows, to itself and to the services, with the same code as a member that reads its
log. What the log says about sessions, timers and messages of services is tracked as on any follower, so a snapshot
taken here is the one that a member would take. It takes those that the log asks for, also those that members leave to
standbys (ClusterActionRequest of flag 1), and tells the members of these. It knows no election, gives no vote and sends
nothing to clients. Source: Aeron Cluster, clients of the log and standby snapshots; Aeron's own standby is not open.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from upheaval_node.archive.whole_recordings import WholeRecording, describe_recording
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.log_replay import LocalLogReplay
from upheaval_node.cluster.module_log import LogSide
from upheaval_node.cluster.module_snapshot import ModuleSnapshot
from upheaval_node.cluster.module_state import READS_LOG, ModuleState
from upheaval_node.cluster.recovery import newest_snapshot, start_services
from upheaval_node.cluster.service_proxy import ServiceAdapter
from upheaval_node.counters import RECORDING_POSITION, Counters, recording_key_prefix
from upheaval_node.errors import NodeError, PeerError, StorageError, TerminationError, TimeoutExpired
from upheaval_node.files.recording_log import Entry, RecordingLog
from upheaval_node.media.api import Media
from upheaval_node.ports import Bell, ErrorSink, Storage, Tracer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import MemberSettings
from upheaval_node.standby.notices import SnapshotNotices
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MAX_POSITION, MS, NULL_POSITION, NULL_VALUE, Now

STANDBY_FLAG: Final = 1
"""Flag of a ClusterActionRequest: only standbys take this snapshot."""

STEP_INTERVAL_NS: Final = 10 * MS
"""How often to look at what other components show in counters, while something waits for it."""

WAIT_INTERVAL_NS: Final = 100 * MS
ASK_INTERVAL_NS: Final = 1000 * MS
"""Pause before the archive is asked again for a recording that nobody extends."""


def standby_members(consensus: str, catchup: str, archive: str) -> str:
    """The standby alone, as its own module sees the members: no id, and no place for ingress or a log."""
    return f"{NULL_VALUE},{consensus},{consensus},{consensus},{catchup},{archive}"


class StandbyModule(LogSide):
    """Implements `ports.Agent`.

    `do_work` raises `TerminationError` when the standby must end: its archive is gone, a service acts out of turn, the
    log or the snapshot is of another kind. `commit_position` is what it has read, `state` is INIT until its services
    run. Services, and this module, see what the recording has, and that is committed.
    """

    is_standby = True

    def __init__(
        self,
        media: Media,
        storage: Storage,
        counters: Counters,
        settings: MemberSettings,
        members: str,
        recording_log: RecordingLog,
        notices: SnapshotNotices,
        tracer: Tracer,
        random: Random,
        errors: ErrorSink,
    ) -> None:
        """`recording_log` is written by the backup agent too; `members` is what `standby_members` makes."""
        super().__init__(
            media, storage, counters, settings, members, NULL_VALUE, tracer, random, errors, recording_log=recording_log
        )
        self.bell: Bell | None = None
        self._archive_endpoint = self._context.own.endpoints.archive
        self._news = notices
        self._service_adapter = ServiceAdapter(self._context, self, self._acks)
        self._starting: Steps[ModuleSnapshot | None] = Steps(self._start())
        self._waiting: Steps[None] | None = None
        self._replay: LocalLogReplay | None = None
        self._position = 0
        self._term_base = NULL_POSITION
        self._is_for_members = False
        self._deadline_ns = 0
        self._now = Now(0, 0)
        self.counters.election_state.set(ElectionState.CLOSED)

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Go on with start, log and snapshots; what does not end the standby is reported."""
        if self._state is ModuleState.CLOSED:
            return 0
        self._now = now
        try:
            work = self._tick(now)
        except (TerminationError, StorageError) as error:
            self._context.report(now, "termination", str(error))
            self._services.send(cm.ServiceTerminationPosition(log_position=0, ack_required=True))
            self._release_streams(now)
            raise
        except NodeError as error:
            self._context.report(now, "standby", str(error))
            work = 0
        self._deadline_ns = self._next_deadline(now)
        return work

    def next_deadline_ns(self) -> int:
        """When the log, the archive or a snapshot is looked at next."""
        return self._deadline_ns

    def _tick(self, now: Now) -> int:
        work = self._archive.do_work(now)
        if self._archive.is_closed:
            raise TerminationError(f"local archive is not connected: {self._archive.error}", expected=False)
        # The backup agent hears of the recording by itself; a replay that fails ends its stream.
        self._archive.signals.clear()
        self._archive.late_errors.clear()
        work += self._service_adapter.poll(now)
        if self._state is ModuleState.INIT:
            return work + self._poll_start(now)
        work += self._follow(now)
        work += self._poll_snapshot(now)
        return work + self._news.do_work(now)

    def _next_deadline(self, now: Now) -> int:
        deadline = min(self._archive.next_deadline_ns(), self._news.next_deadline_ns())
        is_stepping = self._state in (ModuleState.INIT, ModuleState.SNAPSHOT) or self._services.is_joining
        if is_stepping:
            deadline = min(deadline, now.ns + STEP_INTERVAL_NS)
        elif self._replay is None:
            deadline = min(deadline, now.ns + WAIT_INTERVAL_NS)
        return max(deadline, now.ns + MS)

    # --- start ---

    def _poll_start(self, now: Now) -> int:
        try:
            if not self._starting.poll(now):
                return 0
        except (PeerError, TimeoutExpired) as error:
            raise TerminationError(f"cannot start from what is there: {error}", expected=False) from error
        snapshot = self._starting.result
        if snapshot is not None:
            self._load_snapshot(now, snapshot)
            self.leadership_term_id = snapshot.leadership_term_id
        self.counters.commit_position.set_max(self._position)
        self._enter(now, ModuleState.ACTIVE)
        return 1

    def _start(self) -> StepGenerator[ModuleSnapshot | None]:
        """Ends when the services stand where the log is to be read from.

        A standby that has copied nothing yet waits until there is a log, and until that has come to the snapshot.
        """
        context, recording_log = self._context, self.recording_log
        while not context.archive.is_connected or recording_log.find_last_term() is None:
            yield
        recording_id = recording_log.find_last_term_recording_id()
        self._recording.recording_id = recording_id
        descriptor = yield from describe_recording(context.archive, recording_id)
        # `newest_snapshot` makes sets invalid that cannot be read, and takes the one before.
        while heads := recording_log.latest_snapshot_set():
            yield from self._await_log(heads[0].log_position)
            snapshot = yield from newest_snapshot(context, recording_log, heads[0].log_position, self._time)
            entries = recording_log.latest_snapshot_set()
            if snapshot is not None and entries[:1] == heads[:1]:
                self._position, self._term_base = snapshot.log_position, heads[0].term_base_log_position
                yield from start_services(context, self._acks, recording_log, tuple(entries))
                return snapshot
        if descriptor.start_position != 0:
            text = f"the log begins at {descriptor.start_position}, and there is no snapshot to begin with"
            raise TerminationError(text, expected=False)
        yield from start_services(context, self._acks, recording_log, ())
        return None

    # --- reading the log ---

    def _await_log(self, position: int) -> StepGenerator[None]:
        """Wait until the recording has come to `position`, whether it grows or has stopped there."""
        now = yield
        ask_ns = now.ns
        prefix = recording_key_prefix(self._recording.recording_id)
        while True:
            counter = self._context.counters.find(RECORDING_POSITION, prefix)
            if counter is not None:
                if counter.get() >= position:
                    return
            elif now.ns >= ask_ns:
                descriptor = yield from describe_recording(self._context.archive, self._recording.recording_id)
                if descriptor.stop_position >= position:
                    return
                ask_ns = now.ns + ASK_INTERVAL_NS
            now = yield

    def _follow(self, now: Now) -> int:
        self._release_ended()
        if self._replay is None:
            return self._begin_replay(now)
        before = self._log.position
        try:
            return self._replay.do_work(now)
        except (PeerError, TimeoutExpired) as error:
            # The recording was stopped: the agent follows another member, or the same one anew.
            is_paused = self._log.is_attached and self._log.is_image_closed
            self._context.tracer.emit(now, TraceKind.STANDBY_REPLAY_ENDED, log_position=before, reason=str(error))
            if not is_paused:
                self._context.report(now, "standby", str(error))
            self._position = self._replay.position
            self._replay.close()
            self._replays.append(self._replay)
            self._replay = None
            return 1

    def _release_ended(self) -> None:
        if not self._services.is_joining:
            self._replays = [each for each in self._replays if not each.release()]

    def _begin_replay(self, now: Now) -> int:
        """Once there is more of the log: a replay of it that goes on for as long as it is recorded."""
        if self._waiting is None:
            self._waiting = Steps(self._settle_and_wait(now))
        try:
            if not self._waiting.poll(now):
                return 0
        except NodeError:
            self._waiting = None
            raise
        self._waiting = None
        self._replay = LocalLogReplay(
            self._context,
            self._services,
            self._log,
            recording_id=self._recording.recording_id,
            start_position=self._position,
            stop_position=MAX_POSITION,
            may_read=lambda: self._state in READS_LOG,
            is_taking_snapshot=lambda: self.is_taking_snapshot,
            on_position=self._on_position,
            timeout_ns=self._archive_timeout_ns,
        )
        return 1

    def _settle_and_wait(self, now: Now) -> StepGenerator[None]:
        yield from self._services.settle(now)
        while self._replays:
            yield
        yield from self._await_log(self._position + 1)

    def _on_position(self, position: int) -> None:
        self.counters.commit_position.set_max(position)

    # --- what the log says ---

    def _on_new_leadership_term_event(self, now: Now, event: cm.NewLeadershipTermEvent) -> None:
        super()._on_new_leadership_term_event(now, event)
        self.leader_member_id = event.leader_member_id
        self._term_base = event.term_base_log_position

    def _on_cluster_action(self, now: Now, request: cm.ClusterActionRequest) -> None:
        """As on a member; what those leave to standbys is taken as well."""
        is_of_term = request.leadership_term_id == self._term_id
        if is_of_term and request.action == cm.ClusterAction.SNAPSHOT and request.flags == STANDBY_FLAG:
            self._is_for_members = True
            self._durations.begin(now)
            self._begin_snapshot(now, request.log_position)
            return
        super()._on_cluster_action(now, request)

    # --- snapshots ---

    def _base_of_term(self, leadership_term_id: int) -> int:
        """That of the log, or of the snapshot that was started from: the copy of a log need not name every term."""
        assert leadership_term_id == self._term_id
        return self._term_base

    def _record_snapshot(
        self, state: ModuleSnapshot, recording_ids: Sequence[int], timestamp: int
    ) -> StepGenerator[None]:
        yield from super()._record_snapshot(state, recording_ids, timestamp)
        if self._is_for_members:
            taken = [
                entry
                for entry in self.recording_log.entries
                if entry.is_valid_snapshot and entry.log_position == state.log_position
            ]
            self._news.tell(
                tuple(
                    cm.StandbySnapshotSnapshot(
                        recording_id=entry.recording_id,
                        leadership_term_id=entry.leadership_term_id,
                        term_base_log_position=entry.term_base_log_position,
                        log_position=entry.log_position,
                        timestamp=entry.timestamp,
                        service_id=entry.service_id,
                        archive_endpoint=self._archive_endpoint,
                    )
                    for entry in sorted(taken, key=lambda entry: entry.service_id)
                )
            )

    def _append_snapshot(
        self, service_id: int, recording: WholeRecording, state: ModuleSnapshot, term_base: int, timestamp: int
    ) -> Entry:
        """The backup agent may have named the copy of a member's snapshot meanwhile, which is as good."""
        entry = super()._append_snapshot(service_id, recording, state, term_base, timestamp)
        if entry.recording_id != recording.recording_id:
            self._archive.purge_recording(recording.recording_id)
        return entry

    def _end_snapshot(self, now: Now) -> None:
        self._is_for_members = False
        super()._end_snapshot(now)

    # --- end ---

    def close(self) -> None:
        """End in good order: the services are told."""
        if self._state is not ModuleState.CLOSED:
            message = cm.ServiceTerminationPosition(log_position=self.commit_position, ack_required=False)
            self._services.send(message)
            self._release_streams(self._now)

    def _release_streams(self, now: Now) -> None:
        self._enter(now, ModuleState.CLOSED)
        self._deadline_ns = MAX_POSITION
        for steps in (self._starting, self._waiting, self._snapshot):
            if steps is not None:
                steps.close()
        if self._replay is not None:
            self._replay.close()
        self._log.detach()
        self._news.close()
        self._publisher.close()
        self._service_adapter.close()
        self._services.close()
        self._archive.close()
        self.counters.close()
        self._latency.close()
        self._durations.close()
        self.node_state.close()
