"""Applies the log entries other than session messages: sessions, timers, leadership terms and cluster actions.

Each entry sets the cluster time before it reaches the service. Knows nothing of images and acks; the container takes
the snapshots.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.errors import NodeError, PeerError, TerminationError
from upheaval_node.media.shared_publications import SharedPublications
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.protocol.message import Message
from upheaval_node.service.api import ClusteredService, ClusterRole
from upheaval_node.service.cluster_view import ClusterView
from upheaval_node.service.session import ContainerSession

STANDBY_SNAPSHOT_FLAG: Final = 1
"""ClusterActionRequest.flags of a snapshot that only standby members take (Aeron Cluster)."""

Report = Callable[[str, str], None]
"""Takes the kind and the text of an error that does not end the container."""


def versions_are_compatible(first: int, second: int) -> bool:
    """Whether two semantic versions (major << 16 | minor << 8 | patch) have the same major part."""
    return first >> 16 == second >> 16


class EntryApplier:
    """Applies entries to the view and the service of one container, in the order of the log."""

    def __init__(
        self,
        publications: SharedPublications,
        service: ClusteredService,
        view: ClusterView,
        *,
        app_version: int,
        is_responding: bool,
        on_snapshot: Callable[[cm.ClusterActionRequest], None],
        report: Report,
    ) -> None:
        self.is_standby = False
        self._publications = publications
        self._service = service
        self._view = view
        self._app_version = app_version
        self._is_responding = is_responding
        self._on_snapshot = on_snapshot
        self._report = report

    def apply(self, entry: Message, position: int) -> None:
        """Apply one entry. Raises `PeerError` for an invalid entry, and lets exceptions of the service's callback
        through.
        """
        view = self._view
        match entry:
            case cm.SessionOpenEvent():
                view.time = entry.timestamp
                self._open_session(entry)
            case cm.SessionCloseEvent():
                view.time = entry.timestamp
                self._close_session(entry)
            case cm.TimerEvent():
                view.time = entry.timestamp
                view.end_timer(entry.correlation_id, entry.timestamp)
                self._service.on_timer_event(entry.correlation_id, entry.timestamp)
            case cm.ClusterActionRequest():
                view.time = entry.timestamp
                if entry.action == cm.ClusterAction.SNAPSHOT and self._is_snapshot_for_me(entry.flags):
                    self._on_snapshot(entry)
            case cm.NewLeadershipTermEvent():
                view.time = entry.timestamp
                self._new_term(entry)
            case _:
                assert position > 0, "other entries are not for services"

    def connect(self, session: ContainerSession) -> None:
        """Open the egress of a session. An unusable channel of the client is reported and leaves the session
        unconnected.
        """
        if self._is_responding and not session.is_connected:
            try:
                session.connect(self._publications)
            except NodeError as error:
                self._report("egress", f"session {session.id}: {error}")

    def _is_snapshot_for_me(self, flags: int) -> bool:
        return flags in (0, NULL_INT32) or (self.is_standby and bool(flags & STANDBY_SNAPSHOT_FLAG))

    def _open_session(self, entry: cm.SessionOpenEvent) -> None:
        view = self._view
        if entry.cluster_session_id in view.sessions:
            raise PeerError(f"the log opens session {entry.cluster_session_id}, which is open")
        session = ContainerSession(
            view, entry.cluster_session_id, entry.response_stream_id, entry.response_channel, entry.encoded_principal
        )
        if view.role is ClusterRole.LEADER:
            self.connect(session)
        view.sessions[session.id] = session
        self._service.on_session_open(session, entry.timestamp)

    def _close_session(self, entry: cm.SessionCloseEvent) -> None:
        session = self._view.sessions.pop(entry.cluster_session_id, None)
        if session is None:
            raise PeerError(f"the log closes session {entry.cluster_session_id}, which is not open")
        session.disconnect()
        self._service.on_session_close(session, entry.timestamp, cm.CloseReason(entry.close_reason))

    def _new_term(self, entry: cm.NewLeadershipTermEvent) -> None:
        if not versions_are_compatible(self._app_version, entry.app_version):
            text = f"application version {self._app_version:#08x} cannot follow a log of {entry.app_version:#08x}"
            raise TerminationError(text, expected=False)
        view = self._view
        view.leadership_term_id = entry.leadership_term_id
        # A log from before there were time units counts in milliseconds (Aeron Cluster).
        no_unit = entry.time_unit == NULL_INT32
        view.time_unit = cm.ClusterTimeUnit.MILLIS if no_unit else cm.ClusterTimeUnit(entry.time_unit)
        self._service.on_new_leadership_term_event(
            leadership_term_id=entry.leadership_term_id,
            log_position=entry.log_position,
            timestamp=entry.timestamp,
            term_base_log_position=entry.term_base_log_position,
            leader_member_id=entry.leader_member_id,
            log_session_id=entry.log_session_id,
            time_unit=view.time_unit,
            app_version=entry.app_version,
        )
