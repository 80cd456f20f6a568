"""Planted bugs of sessions: how long they last, and what a new leader does with them. Knows the consensus module."""

from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.types import NEVER_NS, Now


def session_lasts_ten_times_too_long(module: ConsensusModule) -> None:
    """A leader waits ten time-outs for a word of a client."""
    module._state.sessions._timeout_ns *= 10


def session_lasts_a_quarter(module: ConsensusModule) -> None:
    """A leader waits a quarter of the time-out for a word of a client."""
    module._state.sessions._timeout_ns //= 4


def session_never_times_out(module: ConsensusModule) -> None:
    """A leader waits for a word of a client for ever."""
    module._state.sessions._timeout_ns = NEVER_NS


def new_leader_closes_all_sessions(module: ConsensusModule) -> None:
    """Each new leader does what one does that was just started: it closes all sessions by time-out."""
    become_leader = module._state.sessions.become_leader

    def close_all(now: Now, *, is_startup: bool) -> None:  # noqa: ARG001 - in place of the manager's own
        become_leader(now, is_startup=True)

    module._state.sessions.become_leader = close_all  # type: ignore[method-assign]


def new_leader_says_nothing(module: ConsensusModule) -> None:
    """No client hears of a new leader."""
    egress = module._state.sessions._egress
    egress.send_new_leader = lambda session, term_id, leader_id: True  # type: ignore[method-assign]  # noqa: ARG005
