"""The commands of an operator to one member, given through its node control toggle. Leaders and followers take them.

VALIDATE_RECORDING_LOG asks the archive for the recording of every valid snapshot, and invalidates the snapshots whose
recording does not exist. REPLICATE_STANDBY_SNAPSHOT fetches the newest snapshot of a standby. Source: Aeron Cluster,
node control, recording-log validator and standby snapshot replicator. Knows nothing of elections.
"""

from upheaval_node.archive.codes import ErrorCode
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_state import NodeToggle
from upheaval_node.cluster.standby_replicator import replicate_standby_snapshot
from upheaval_node.errors import PeerError
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now


class NodeControl:
    """Takes commands from the node control toggle and carries them out over many ticks."""

    def __init__(self, context: ModuleContext) -> None:
        self._context = context
        self._validation: Steps[int] | None = None
        self._replication: Steps[str] | None = None

    @property
    def needs_ticks(self) -> bool:
        """Whether a command waits for the archive, whose answers are not signalled."""
        return self._validation is not None or self._replication is not None

    def check_toggle(self) -> int:
        """Take a command from the toggle. To be called only on an active member outside of elections."""
        toggle = self._context.published.node_toggle
        value = toggle.get()
        if value == NodeToggle.VALIDATE_RECORDING_LOG:
            if self._validation is None:
                self._validation = Steps(self._validate())
        elif value == NodeToggle.REPLICATE_STANDBY_SNAPSHOT:
            if self._replication is None:
                self._replication = Steps(self.replicate_standby_snapshot())
        else:
            return 0
        toggle.set(NodeToggle.NEUTRAL)
        return 1

    def poll(self, now: Now) -> int:
        """Advance the commands."""
        return self._poll_validation(now) + self._poll_replication(now)

    def close(self) -> None:
        """Abandon a replication."""
        if self._replication is not None:
            self._replication.close()
            self._replication = None

    def replicate_standby_snapshot(self) -> StepGenerator[str]:
        """Fetch the newest snapshot of a standby, see `standby_replicator`."""
        return replicate_standby_snapshot(self._context, self._context.recording_log, self._context.new_archive_client)

    def _poll_replication(self, now: Now) -> int:
        if self._replication is None:
            return 0
        try:
            if not self._replication.poll(now):
                return 0
        except PeerError as error:
            self._context.report(now, "node control", f"no standby snapshot is replicated: {error}")
        else:
            self._context.tracer.emit(now, TraceKind.STANDBY_SNAPSHOT_REPLICATED, endpoint=self._replication.result)
        self._replication = None
        return 1

    def _poll_validation(self, now: Now) -> int:
        if self._validation is None:
            return 0
        try:
            if not self._validation.poll(now):
                return 0
        except PeerError as error:
            self._context.report(now, "node control", f"the recording log is not validated: {error}")
        else:
            self._context.tracer.emit(now, TraceKind.RECORDING_LOG_VALIDATED, invalid=self._validation.result)
        self._validation = None
        return 1

    def _validate(self) -> StepGenerator[int]:
        """The number of entries that became invalid. Raises `PeerError`, with no entry changed, when the
        archive fails.
        """
        log = self._context.recording_log
        unknown: set[int] = set()
        for recording_id in sorted({entry.recording_id for entry in log.entries if entry.is_valid_snapshot}):
            call = self._context.archive.start_position(recording_id)
            while not call.done:
                yield
            if call.error is None:
                continue
            if call.error_code != ErrorCode.UNKNOWN_RECORDING:
                raise PeerError(f"recording {recording_id}: {call.error}")
            unknown.add(recording_id)
        lost = [entry for entry in log.entries if entry.is_valid_snapshot and entry.recording_id in unknown]
        for entry in lost:
            log.invalidate_entry(entry.entry_index)
        return len(lost)
