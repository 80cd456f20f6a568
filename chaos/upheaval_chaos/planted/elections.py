"""Planted bugs of elections: canvass, votes, and when a member takes its leader or its followers for lost."""

from typing import Final

from upheaval_chaos.planted.bug import INVARIANTS, Area
from upheaval_chaos.planted.changes import in_elections, replace_method, replacing
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_states import ElectionState, Role
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values
from upheaval_node.types import LOG_START, NULL_TERM_ID, Now, Position, TermId

AREA: Final[Area] = Area("elections")
FAR_AHEAD: Final = 1 << 40


@AREA.bug(INVARIANTS, "votes-kept", "commits-kept")
def shorter_log_elected(module: ConsensusModule) -> None:
    """Members stand for election and vote without comparing logs."""

    @in_elections(module)
    def generous(election: Election) -> None:
        judge, hear = election.on_request_vote, election.on_canvass_position

        def on_request_vote(now: Now, message: cm.RequestVote) -> None:
            judge(now, with_values(message, log_leadership_term_id=TermId(FAR_AHEAD), log_position=Position(FAR_AHEAD)))

        def on_canvass_position(now: Now, message: cm.CanvassPosition) -> None:
            hear(now, with_values(message, log_leadership_term_id=NULL_TERM_ID, log_position=LOG_START))

        replace_method(election, "on_request_vote", on_request_vote)
        replace_method(election, "on_canvass_position", on_canvass_position)


@AREA.bug(INVARIANTS, "votes-kept", "commits-kept", "logs-equal", is_rare=True)
def votes_compare_positions_alone(module: ConsensusModule) -> None:
    """Candidates and voters compare the positions of logs, and not their terms."""

    @in_elections(module)
    def compare(election: Election) -> None:
        judge, hear = election.on_request_vote, election.on_canvass_position

        def on_request_vote(now: Now, message: cm.RequestVote) -> None:
            judge(now, with_values(message, log_leadership_term_id=election.named_term_id))

        def on_canvass_position(now: Now, message: cm.CanvassPosition) -> None:
            is_asked = election.role is not Role.LEADER
            term = election.log_leadership_term_id if is_asked else message.log_leadership_term_id
            hear(now, with_values(message, log_leadership_term_id=term))

        replace_method(election, "on_request_vote", on_request_vote)
        replace_method(election, "on_canvass_position", on_canvass_position)


@AREA.bug(INVARIANTS, "votes-kept", "one-leader-a-term")
def second_vote_in_a_term(module: ConsensusModule) -> None:
    """A member that voted in a term grants its vote to the next candidate of that term too."""

    @in_elections(module)
    def generous(election: Election) -> None:
        judge = election.on_request_vote

        @replacing(election, "on_request_vote")
        def on_request_vote(now: Now, message: cm.RequestVote) -> None:
            is_same_term = message.candidate_term_id == election.candidate_term_id
            if is_same_term and election.state is not ElectionState.INIT:
                election._send_vote(now, message, granted=True)
            else:
                judge(now, message)


@AREA.bug(INVARIANTS, "votes-kept", "one-leader-a-term")
def refused_vote_counts(module: ConsensusModule) -> None:
    """A candidate counts each answer of a member as a granted vote."""

    @in_elections(module)
    def deaf(election: Election) -> None:
        count = election.on_vote
        replace_method(election, "on_vote", lambda now, message: count(now, with_values(message, vote=True)))


@AREA.bug(INVARIANTS, "votes-kept", "one-leader-a-term")
def silence_counts_as_a_vote(module: ConsensusModule) -> None:
    """A candidate counts members that do not answer as votes for it."""

    @in_elections(module)
    def hasty(election: Election) -> None:
        turn = election.do_work

        @replacing(election, "do_work")
        def do_work(now: Now) -> int:
            if election.state is ElectionState.CANDIDATE_BALLOT:
                for member in election._membership.all:
                    if member.vote is None:
                        member.vote, member.candidate_term_id = True, election.candidate_term_id
            return turn(now)


@AREA.bug(INVARIANTS, "votes-kept", "commits-kept", is_rare=True)
def vote_does_not_bind(module: ConsensusModule) -> None:
    """A member that voted in a term follows the leader of an earlier one."""

    @in_elections(module)
    def forgetful(election: Election) -> None:
        hear = election.on_new_leadership_term

        @replacing(election, "on_new_leadership_term")
        def on_new_leadership_term(now: Now, message: cm.NewLeadershipTerm) -> None:
            election._promised_term_id = NULL_TERM_ID
            hear(now, message)


@AREA.bug("members-join")
def canvass_not_answered(module: ConsensusModule) -> None:
    """A leader does not name its term to a member that canvasses."""
    replace_method(module._messages, "_answer_canvass", lambda now, follower_id, term_id, position: None)  # noqa: ARG005


@AREA.bug("bounds-kept", "leader-found", "progress")
def leader_ignores_lost_quorum(module: ConsensusModule) -> None:
    """A leader that hears of no quorum stays the leader."""
    replace_method(module.membership, "has_active_quorum", lambda now: True)  # noqa: ARG005


@AREA.bug("bounds-kept", "leader-found")
def leader_missed_ten_times_too_late(module: ConsensusModule) -> None:
    """A follower waits for ten heartbeat time-outs before it gives up its leader."""
    heard = module._leader.heard
    patience_ns = 9 * module._context.settings.timeouts.leader_heartbeat_ns

    @replacing(module._leader, "heard")
    def hear(now: Now) -> None:
        heard(now)
        module._leader.heard_ns += patience_ns
