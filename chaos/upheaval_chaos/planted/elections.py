"""Planted bugs of votes, terms and of what a member does to its log for a new leader. Knows the consensus module."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from upheaval_node.archive.archive import Archive
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election import Election
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.member import MemberAgent
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.types import NULL_VALUE, Now

FAR_AHEAD = 1 << 40


def modules(agents: Sequence[MemberAgent]) -> Iterator[ConsensusModule]:
    return (agent for agent in agents if isinstance(agent, ConsensusModule))


def vote_not_persisted(agents: Sequence[MemberAgent]) -> None:
    """The term of a vote is kept in memory only."""
    for module in modules(agents):
        _keep_in_memory(module.node_state)


def _keep_in_memory(state: NodeState) -> None:
    def keep(term: int, log_position: int, timestamp_ms: int) -> None:
        state._candidate_term_id = term
        state._log_position = log_position
        state._timestamp = timestamp_ms

    state._store = keep  # type: ignore[method-assign]


def term_reused_after_restart(agents: Sequence[MemberAgent]) -> None:
    """What was voted for before the start is forgotten."""
    for module in modules(agents):
        module.node_state._candidate_term_id = NULL_VALUE


def votes_for_a_shorter_log(agents: Sequence[MemberAgent]) -> None:
    """Every candidate's log counts as better than the own one."""

    def generous(election: Election) -> None:
        judge = election.on_request_vote

        def on_request_vote(now: Now, message: cm.RequestVote) -> None:
            judge(now, replace(message, log_leadership_term_id=FAR_AHEAD, log_position=FAR_AHEAD))

        election.on_request_vote = on_request_vote  # type: ignore[method-assign]

    _in_each_election(agents, generous)


def stale_leader_accepted(agents: Sequence[MemberAgent]) -> None:
    """A commit position counts whatever leader of whatever term it is from."""
    for module in modules(agents):
        module._is_from_leader = lambda term_id, leader_id: True  # type: ignore[method-assign]  # noqa: ARG005


def tail_not_truncated(agents: Sequence[MemberAgent]) -> None:
    """A log that is to be cut for a new leader stays as it is."""
    for module in modules(agents):
        module.truncate_log = lambda now, position: True  # type: ignore[method-assign]  # noqa: ARG005


def terms_not_cut(agents: Sequence[MemberAgent]) -> None:
    """A member whose log was cut still names the term that was cut off as its last one."""
    for module in modules(agents):
        _keep_terms(module.recording_log)


def _keep_terms(log: RecordingLog) -> None:
    def keep(position: int) -> int:  # noqa: ARG001 - nothing is cut
        last = log.find_last_term()
        return NULL_VALUE if last is None else last.leadership_term_id

    log.cut_terms = keep  # type: ignore[method-assign]


def commit_position_goes_back(agents: Sequence[MemberAgent]) -> None:
    """A new leader begins at what it knows to be recorded by all, and not at what it has committed."""

    def forgetful(election: Election) -> None:
        election.log_position = max(election.log_position - 4096, 0)

    _in_each_election(agents, forgetful)


def ack_before_the_write(agents: Sequence[MemberAgent]) -> None:
    """The archive says that it has recorded what no disk has."""
    for agent in agents:
        if isinstance(agent, Archive):
            agent._recorder._settings = replace(agent._recorder._settings, file_sync_level=0)


def _in_each_election(agents: Sequence[MemberAgent], change: Callable[[Election], None]) -> None:
    for module in modules(agents):
        _change_elections(module, change)


def _change_elections(module: ConsensusModule, change: Callable[[Election], None]) -> None:
    start = module._start_election

    def start_election(now: Now, *, is_node_startup: bool, graceful_leader_id: int, reason: str) -> None:
        start(now, is_node_startup=is_node_startup, graceful_leader_id=graceful_leader_id, reason=reason)
        assert module._election is not None
        change(module._election)

    module._start_election = start_election  # type: ignore[method-assign]
