"""Takes a snapshot of one service: first its state at one log entry, then, over many duty cycles, its recording.

Until both are done, nothing after the entry may be delivered. Of acks, it knows only the position and recording id.
"""

from collections.abc import Callable
from dataclasses import dataclass

from upheaval_node.errors import NodeError, StorageError, TerminationError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import ClusteredService
from upheaval_node.service.cluster_view import ClusterView
from upheaval_node.service.snapshots import ServiceSnapshot, SessionState, SnapshotStore, StateWriter, longest_message
from upheaval_node.settings import ClusterSettings
from upheaval_node.steps import Steps
from upheaval_node.types import NULL_POSITION, NULL_VALUE, Now, Position


@dataclass(frozen=True, slots=True)
class Taken:
    """A finished snapshot: its log position and its recording id, -1 if it failed."""

    log_position: Position
    recording_id: int


class SnapshotTaker:
    """Takes one snapshot at a time: idle, recording, finished."""

    def __init__(
        self,
        service: ClusteredService,
        view: ClusterView,
        store: SnapshotStore,
        settings: ClusterSettings,
        report: Callable[[str, Exception], None],
        on_raised: Callable[[Exception], None],
    ) -> None:
        self._service = service
        self._view = view
        self._store = store
        self._settings = settings
        self._report = report
        self._on_raised = on_raised
        self._position = NULL_POSITION
        self._steps: Steps[int] | None = None
        self.taken: Taken | None = None
        """Set when a snapshot is finished. The owner resets it to free the taker."""

    @property
    def is_active(self) -> bool:
        """Whether a snapshot has begun whose result in `taken` was not collected yet."""
        return self._steps is not None or self.taken is not None

    def begin(self, entry: cm.ClusterActionRequest) -> None:
        """Take the state now. A failure of the service is reported, and the snapshot ends without a recording.

        A service that raises `TerminationError` or `StorageError` ends its member.
        """
        view = self._view
        self._position = entry.log_position
        state = StateWriter(longest_message(self._settings))
        try:
            with view.during("on_take_snapshot"):
                self._service.on_take_snapshot(state)
        except (TerminationError, StorageError):
            raise
        except Exception as error:  # noqa: BLE001 - the service's failure is reported, to the module too
            self._on_raised(error)
            self._fail(error)
            return
        snapshot = ServiceSnapshot(
            log_position=entry.log_position,
            leadership_term_id=entry.leadership_term_id,
            time_unit=view.time_unit,
            app_version=self._settings.app_version,
            sessions=tuple(
                SessionState(
                    session.id, session.response_stream_id, session.response_channel, session.encoded_principal
                )
                for session in view.sessions.values()
            ),
            state=tuple(state.messages),
        )
        self._steps = Steps(self._store.write(snapshot))

    def do_work(self, now: Now) -> int:
        """Advance the recording. A failure of the archive is reported and ends the snapshot."""
        work = self._store.do_work(now)
        if self._steps is None:
            return work
        try:
            if not self._steps.poll(now):
                return work
        except NodeError as error:
            self._fail(error)
        else:
            self.taken = Taken(self._position, self._steps.result)
        self._steps = None
        return work + 1

    def close(self) -> None:
        """Abandon a recording in progress."""
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _fail(self, error: Exception) -> None:
        self._report(f"failed to take snapshot at {self._position}", error)
        self.taken = Taken(self._position, NULL_VALUE)
