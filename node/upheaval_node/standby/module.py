"""The standby's counterpart of a consensus module: it reads a log that the members agree on, and never writes it.

Theory of operation. The backup agent beside it copies the committed log into a recording of the local archive. This
module replays that recording as it grows, to itself and to the services, with the same code as a member that reads its
log. It tracks sessions, timers and messages of services in the log as any follower does, so a snapshot taken here
equals a member's. It takes the snapshots that the log asks for, including those that members leave to standbys
(ClusterActionRequest of flag 1), and notifies the members of the latter. It takes part in no election, gives no vote
and sends nothing to clients. Source: Aeron Cluster, clients of the log and standby snapshots; Aeron's own standby is
not open.
"""

from collections.abc import Sequence
from typing import Final

from upheaval_node.archive.whole_recordings import WholeRecording, describe_recording
from upheaval_node.bell import Bell
from upheaval_node.cluster.authentication import authenticator_named, authorisation_named
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.log_adapter import LogAdapter
from upheaval_node.cluster.log_recording import LogRecording
from upheaval_node.cluster.log_replay import LocalLogReplay
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_snapshot import ModuleSnapshot
from upheaval_node.cluster.module_snapshots import Snapshots
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.cluster.recovery import newest_snapshot, start_services
from upheaval_node.cluster.replicated_state import ReplicatedState, is_for_all
from upheaval_node.cluster.service_acks import ServiceAcks
from upheaval_node.cluster.service_proxy import ServiceAdapter, ServiceProxy
from upheaval_node.counters import RECORDING_POSITION, recording_key_prefix
from upheaval_node.errors import NodeError, PeerError, StorageError, TerminationError, TimeoutExpired
from upheaval_node.files.recording_log import Entry
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.standby.notices import SnapshotNotices
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import (
    LOG_START,
    MAX_POSITION,
    MS,
    NEVER_NS,
    NOT_YET,
    NULL_POSITION,
    NULL_VALUE,
    MemberId,
    Now,
    Position,
    TermId,
)

STANDBY_FLAG: Final = 1
"""Flag of a ClusterActionRequest: only standbys take this snapshot."""

STEP_INTERVAL_NS: Final = 10 * MS
"""How often to check the counters of other components while something waits for them, in nanoseconds."""

WAIT_INTERVAL_NS: Final = 100 * MS
ASK_INTERVAL_NS: Final = 1000 * MS
"""The pause before the archive is asked again about a recording that does not grow, in nanoseconds."""


def standby_members(consensus: str, catchup: str, archive: str) -> str:
    """The standby alone, as the members of its own module: without an id, and without endpoints for ingress or log."""
    return f"{NULL_VALUE},{consensus},{consensus},{consensus},{catchup},{archive}"


class StandbyModule:
    """Implements `ports.Agent`. `commit_position` is the position up to which it has read; `state` is INIT until its
    services run.

    `do_work` raises `TerminationError` when the standby must end: its archive is gone, a service acts out of turn, or
    the log or snapshot is of another kind. This module and its services read only what is recorded, and all of that is
    committed.
    """

    def __init__(self, context: ModuleContext, notices: SnapshotNotices) -> None:
        """`context` is the standby's own; the backup agent writes its recording log too."""
        self._context = context
        self.counters: Final = context.published
        self.recording_log: Final = context.recording_log
        cluster = context.settings
        self._acks = ServiceAcks(cluster.service_count)
        self._services = ServiceProxy(context, self._acks, is_standby=True)
        standing = self._standing = Standing(context)
        self._state = ReplicatedState(
            context,
            standing,
            self._services,
            authenticator_named(""),
            authorisation_named(""),
            self._on_term_event,
            self._on_snapshot_request,
        )
        self._recording = LogRecording(context)
        self._reader = LogAdapter(self._state, max_block_length=cluster.log_fragment_limit * cluster.log_mtu)
        self._snapshots = Snapshots(
            context,
            standing,
            self._state,
            self._acks,
            base_of_term=self._base_of_term,
            on_recorded=self._on_snapshot_recorded,
        )
        self.bell: Bell | None = None
        self._news = notices
        self._service_adapter = ServiceAdapter(context, self._state, self._acks, self._snapshots.on_service_ack)
        self._starting: Steps[ModuleSnapshot | None] = Steps(self._start())
        self._waiting: Steps[None] | None = None
        self._replay: LocalLogReplay | None = None
        self._ended: list[LocalLogReplay] = []
        self._position = LOG_START
        self._term_base = NULL_POSITION
        self._is_for_members = False
        self._deadline_ns = 0
        self._now = NOT_YET
        self.counters.election_state.set(ElectionState.CLOSED)

    # --- queries ---

    @property
    def state(self) -> ModuleState:
        """The state of the module."""
        return self._standing.state

    @property
    def leadership_term_id(self) -> TermId:
        """The present term of the log."""
        return self._standing.leadership_term_id

    @property
    def leader_member_id(self) -> MemberId:
        """The leader of that term."""
        return self._standing.leader_member_id

    @property
    def commit_position(self) -> Position:
        """The position up to which the log was read."""
        return Position(self.counters.commit_position.get())

    @property
    def is_taking_snapshot(self) -> bool:
        """Whether a snapshot is being taken, during which the log must not be read."""
        return self._standing.is_taking_snapshot

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Continue start, log and snapshots. Errors that do not end the standby are reported."""
        if self.state is ModuleState.CLOSED:
            return 0
        self._now = now
        try:
            work = self._tick(now)
        except (TerminationError, StorageError) as end:
            self._context.report(now, "termination", str(end))
            self._services.send(cm.ServiceTerminationPosition(log_position=LOG_START, ack_required=True))
            self._release_streams(now)
            raise
        except NodeError as error:
            self._context.report(now, "standby", str(error))
            work = 0
        self._deadline_ns = self._next_deadline(now)
        return work

    def next_deadline_ns(self) -> int:
        """When the log, the archive or a snapshot is checked next."""
        return self._deadline_ns

    def _tick(self, now: Now) -> int:
        work = self._context.archive.do_work(now)
        if self._context.archive.is_closed:
            raise TerminationError(f"local archive is not connected: {self._context.archive.error}", expected=False)
        # The backup agent hears of the recording by itself; a replay that fails ends its stream.
        self._context.archive.signals.clear()
        self._context.archive.late_errors.clear()
        work += self._service_adapter.poll(now)
        if self.state is ModuleState.INIT:
            return work + self._poll_start(now)
        work += self._follow(now)
        work += self._snapshots.poll(now, self.commit_position)
        return work + self._news.do_work(now)

    def _next_deadline(self, now: Now) -> int:
        deadline = min(self._context.archive.next_deadline_ns(), self._news.next_deadline_ns())
        is_stepping = self.state in (ModuleState.INIT, ModuleState.SNAPSHOT) or self._services.is_joining
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
            self._state.load(now, snapshot)
            self._standing.enter_term(snapshot.leadership_term_id)
        self.counters.commit_position.set_max(self._position)
        self._standing.enter(now, ModuleState.ACTIVE)
        return 1

    def _start(self) -> StepGenerator[ModuleSnapshot | None]:
        """Start. Ends when the services are at the position from which the log is to be read.

        A standby that has copied nothing yet waits until there is a log, and until the log has reached the snapshot.
        """
        context, recording_log = self._context, self.recording_log
        while not context.archive.is_connected or recording_log.find_last_term() is None:
            yield
        recording_id = recording_log.find_last_term_recording_id()
        self._recording.recording_id = recording_id
        descriptor = yield from describe_recording(context.archive, recording_id)
        # `newest_snapshot` invalidates unreadable sets and takes the one before.
        while heads := recording_log.latest_snapshot_set():
            yield from self._await_log(heads[0].log_position)
            snapshot = yield from newest_snapshot(context, heads[0].log_position)
            entries = recording_log.latest_snapshot_set()
            if snapshot is not None and entries[:1] == heads[:1]:
                self._position, self._term_base = snapshot.log_position, heads[0].term_base_log_position
                yield from start_services(context, self._acks, tuple(entries))
                return snapshot
        if descriptor.start_position != 0:
            text = f"the log begins at {descriptor.start_position}, and there is no snapshot to begin with"
            raise TerminationError(text, expected=False)
        yield from start_services(context, self._acks, ())
        return None

    # --- reading the log ---

    def _await_log(self, position: int) -> StepGenerator[None]:
        """Wait until the recording has reached `position`, whether it is active or has stopped there."""
        now = yield
        ask_ns: int = now.ns
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
        before = self._reader.position
        try:
            return self._replay.do_work(now)
        except (PeerError, TimeoutExpired) as error:
            # The recording was stopped: the agent follows another member, or reconnects to the same one.
            is_paused = self._reader.is_attached and self._reader.is_image_closed
            self._context.tracer.emit(now, TraceKind.STANDBY_REPLAY_ENDED, log_position=before, reason=str(error))
            if not is_paused:
                self._context.report(now, "standby", str(error))
            self._position = self._replay.position
            self._replay.close()
            self._ended.append(self._replay)
            self._replay = None
            return 1

    def _release_ended(self) -> None:
        if not self._services.is_joining:
            self._ended = [replay for replay in self._ended if not replay.release()]

    def _begin_replay(self, now: Now) -> int:
        """Once there is more of the log, begin a replay that follows the recording."""
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
            self._standing,
            self._services,
            self._reader,
            recording_id=self._recording.recording_id,
            start_position=self._position,
            stop_position=MAX_POSITION,
        )
        return 1

    def _settle_and_wait(self, now: Now) -> StepGenerator[None]:
        yield from self._services.settle(now)
        while self._ended:
            yield
        yield from self._await_log(self._position + 1)

    # --- events of the log ---

    def _on_term_event(self, _now: Now, event: cm.NewLeadershipTermEvent) -> None:
        """The log alone names the leader."""
        self._standing.enter_term(event.leadership_term_id, event.leader_member_id)
        self._term_base = event.term_base_log_position

    def _on_snapshot_request(self, now: Now, request: cm.ClusterActionRequest) -> None:
        """Take a snapshot as a member does, and also those that members leave to standbys."""
        self._is_for_members = request.flags == STANDBY_FLAG
        if self._is_for_members or is_for_all(request):
            self._snapshots.begin(now, request.log_position, is_timed=self._is_for_members)

    # --- snapshots ---

    def _base_of_term(self, leadership_term_id: TermId) -> Position:
        """The base of the log's term, or of the snapshot's: the copy of a log need not name every term."""
        assert leadership_term_id == self.leadership_term_id
        return self._term_base

    def _on_snapshot_recorded(self, named: Sequence[tuple[WholeRecording, Entry]]) -> None:
        """Notify the members. If the backup agent has meanwhile named the copy of a member's snapshot, that is
        as good.
        """
        for recording, entry in named:
            if entry.recording_id != recording.recording_id:
                self._context.archive.purge_recording(recording.recording_id)
        if self._is_for_members:
            entries = self.recording_log.entries
            taken = [
                entry for entry in entries if entry.is_valid_snapshot and entry.log_position == self._snapshots.position
            ]
            self._news.notify(
                tuple(
                    cm.StandbySnapshotSnapshot(
                        recording_id=entry.recording_id,
                        leadership_term_id=entry.leadership_term_id,
                        term_base_log_position=entry.term_base_log_position,
                        log_position=entry.log_position,
                        timestamp=entry.timestamp,
                        service_id=entry.service_id,
                        archive_endpoint=self._context.own.endpoints.archive,
                    )
                    for entry in sorted(taken, key=lambda entry: entry.service_id)
                )
            )

    # --- end ---

    def close(self) -> None:
        """Close in order: the services are informed of the end."""
        if self.state is not ModuleState.CLOSED:
            message = cm.ServiceTerminationPosition(log_position=self.commit_position, ack_required=False)
            self._services.send(message)
            self._release_streams(self._now)

    def _release_streams(self, now: Now) -> None:
        self._standing.enter(now, ModuleState.CLOSED)
        self._deadline_ns = NEVER_NS
        for steps in (self._starting, self._waiting):
            if steps is not None:
                steps.close()
        self._snapshots.close()
        if self._replay is not None:
            self._replay.close()
        self._reader.detach()
        self._news.close()
        self._service_adapter.close()
        self._services.close()
        self._context.archive.close()
        self._context.close()
