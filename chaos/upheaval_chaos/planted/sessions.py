"""Planted bugs of sessions: how long they last, and how they end or go on with a new leader."""

from typing import Final

from upheaval_chaos.planted.bug import Area
from upheaval_chaos.planted.changes import replace_method, replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import MAX_POSITION, NEVER_NS, Now, Position

AREA: Final[Area] = Area("sessions")


@AREA.bug("clients-in-time")
def session_lasts_ten_times_too_long(module: ConsensusModule) -> None:
    """Sessions time out after ten times their time."""
    module._state.sessions._timeout_ns *= 10


@AREA.bug("clients-in-time")
def session_lasts_a_quarter(module: ConsensusModule) -> None:
    """Sessions time out after a quarter of their time."""
    module._state.sessions._timeout_ns //= 4


@AREA.bug("clients-in-time")
def session_never_times_out(module: ConsensusModule) -> None:
    """Sessions do not time out."""
    module._state.sessions._timeout_ns = NEVER_NS


@AREA.bug("sessions-outlive-leaders")
def new_leader_closes_all_sessions(module: ConsensusModule) -> None:
    """A new leader closes all sessions by time-out."""
    become_leader = module._state.sessions.become_leader

    @replacing(module._state.sessions, "become_leader")
    def close_all(now: Now, *, is_startup: bool) -> None:  # noqa: ARG001 - in place of the manager's own
        become_leader(now, is_startup=True)


@AREA.bug("sessions-kept", "snapshot-is-replay", "states-agree")
def session_not_closed_in_replay(module: ConsensusModule) -> None:
    """Only the leader that wrote the end of a session closes it."""
    replace_method(module._state.sessions, "on_log_close", lambda event: None)  # noqa: ARG005


@AREA.bug("sessions-kept", "snapshot-is-replay")
def session_ids_reused(module: ConsensusModule) -> None:
    """A member does not continue from the session ids that it reads."""
    sessions = module._state.sessions
    on_log_open = sessions.on_log_open

    @replacing(sessions, "on_log_open")
    def open_session(now: Now, event: cm.SessionOpenEvent, end_position: int) -> None:
        before = sessions.next_session_id, sessions.next_committed_session_id
        on_log_open(now, event, end_position)
        sessions.next_session_id, sessions.next_committed_session_id = before


@AREA.bug("sessions-kept", "snapshot-is-replay", "clients-in-order", is_rare=True)
def uncommitted_sessions_kept(module: ConsensusModule) -> None:
    """A leader that loses its term keeps changes of sessions that were not committed."""
    sessions = module._state.sessions
    leave_term = sessions.leave_term

    @replacing(sessions, "leave_term")
    def leave_with_all(position: Position) -> None:  # noqa: ARG001 - in place of the manager's own
        leave_term(MAX_POSITION)


@AREA.bug("clients-in-time", "sessions-outlive-leaders")
def keep_alives_ignored(module: ConsensusModule) -> None:
    """A session whose client sends nothing but keep-alives times out."""
    replace_method(module._state.sessions, "on_keep_alive", lambda now, message, image: None)  # noqa: ARG005


@AREA.bug("clients-in-time", "sessions-kept")
def close_requests_ignored(module: ConsensusModule) -> None:
    """A leader leaves a session open that its client has closed."""
    replace_method(module._state.sessions, "on_close_request", lambda now, message: None)  # noqa: ARG005
