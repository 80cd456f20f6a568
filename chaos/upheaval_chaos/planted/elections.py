"""Planted bugs of votes, commit positions and recordings. Knows the consensus module and the archive."""

from collections.abc import Callable
from dataclasses import replace

from upheaval_node.archive.archive import Archive
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election import Election
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values
from upheaval_node.types import LOG_START, NULL_TERM_ID, MemberId, Now, Position, TermId

FAR_AHEAD = 1 << 40


def vote_not_persisted(module: ConsensusModule) -> None:
    """The term of a vote is kept in memory only."""
    state = module.node_state

    def keep(term: TermId, log_position: Position, timestamp_ms: int) -> None:
        state._candidate_term_id = term
        state._log_position = log_position
        state._timestamp = timestamp_ms

    state._store = keep  # type: ignore[method-assign]


def shorter_log_elected(module: ConsensusModule) -> None:
    """Logs are not compared: a member is a candidate whatever the others have, and votes for the first that asks."""

    def generous(election: Election) -> None:
        judge, hear = election.on_request_vote, election.on_canvass_position

        def on_request_vote(now: Now, message: cm.RequestVote) -> None:
            judge(now, with_values(message, log_leadership_term_id=TermId(FAR_AHEAD), log_position=Position(FAR_AHEAD)))

        def on_canvass_position(now: Now, message: cm.CanvassPosition) -> None:
            hear(now, with_values(message, log_leadership_term_id=NULL_TERM_ID, log_position=LOG_START))

        election.on_request_vote = on_request_vote  # type: ignore[method-assign]
        election.on_canvass_position = on_canvass_position  # type: ignore[method-assign]

    _change_elections(module, generous)


def commit_position_goes_back(module: ConsensusModule) -> None:
    """A new leader begins at what it knows to be recorded by all, and not at what it has committed."""

    def forgetful(election: Election) -> None:
        election.log_position = Position(max(election.log_position - 4096, 0))

    _change_elections(module, forgetful)


def ack_before_the_write(archive: Archive) -> None:
    """The archive says that it has recorded what no disk has."""
    context = archive._recorder._context
    archive._recorder._context = replace(context, settings=replace(context.settings, file_sync_level=0))


def _change_elections(module: ConsensusModule, change: Callable[[Election], None]) -> None:
    elections = module._elections
    start = elections.start

    def start_election(now: Now, *, is_node_startup: bool, absent_leader_id: MemberId, reason: str) -> None:
        start(now, is_node_startup=is_node_startup, absent_leader_id=absent_leader_id, reason=reason)
        assert module.election is not None
        change(module.election)

    elections.start = start_election  # type: ignore[method-assign]
