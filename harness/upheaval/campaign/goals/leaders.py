"""Goals about leaders and their terms."""

from collections import defaultdict
from itertools import pairwise
from typing import Final

from upheaval.campaign.goals.goal import GoalArea, died_in
from upheaval.campaign.goals.traced_run import CLOSED, Span, TracedRun
from upheaval_node.trace_kinds import ElectionCause
from upheaval_node.types import S

LEADERS: Final = GoalArea("leaders")
add, goal = LEADERS.add, LEADERS.goal

LEADERLESS_NS: Final = 10 * S
ELECT: Final = ("LEADER_LOG_REPLICATION", "LEADER_REPLAY", "LEADER_INIT", "LEADER_READY")
"""The states of a member that won the votes and does not lead yet."""


def _begins_with(run: TracedRun, cause: ElectionCause) -> bool:
    return any(span.moment.fields.get("reason") == cause for span in run.in_states("INIT"))


def _terms(run: TracedRun) -> list[tuple[int, int]]:
    """Each term in which a member led, and that member, by term."""
    return sorted({(span.term, span.member_id) for span in run.leaderships})


@goal("leader-silent", "a follower begins an election because it does not hear its leader")
def _silent(run: TracedRun) -> bool:
    return _begins_with(run, ElectionCause.LEADER_SILENT)


@goal("leader-disconnected", "a follower begins an election because its connection to the leader is lost")
def _disconnected(run: TracedRun) -> bool:
    return _begins_with(run, ElectionCause.LEADER_DISCONNECTED)


@goal("leader-without-followers", "a leader gives up its term because it does not hear a quorum")
def _without_followers(run: TracedRun) -> bool:
    return _begins_with(run, ElectionCause.FOLLOWERS_SILENT)


@goal("leaders-at-once", "two members take themselves for the leader at the same moment, in different terms")
def _at_once(run: TracedRun) -> bool:
    spans = run.leaderships
    return any(one.member_id != other.member_id and one.overlaps(other) for one in spans for other in spans)


@goal("leader-superseded", "a leader hears of a leader of a later term")
def _superseded(run: TracedRun) -> bool:
    spans = ((moment, run.election_at(moment)) for moment in run.received("NewLeadershipTerm"))
    return any(
        span is not None and span.leads and span.term < moment.integer("leadership_term_id") for moment, span in spans
    )


@goal("leader-passed-over", "a leader loses its term, takes part in the next election, and another member wins it")
def _passed_over(run: TracedRun) -> bool:
    return any(
        old.next is not None and old.member_id != new.member_id and not _has_restarted(run, old, new)
        for old, new in pairwise(run.leaderships)
    )


def _has_restarted(run: TracedRun, old: Span, new: Span) -> bool:
    lives = run.lives[old.member_id]
    return any(life.number > old.moment.life and life.begin_ns < new.begin_ns for life in lives)


@goal("leader-returns-in-place", "a leader loses its term without a restart, and wins the next one")
def _returns_in_place(run: TracedRun) -> bool:
    return any(
        old.member_id == new.member_id and old.moment.life == new.moment.life for old, new in pairwise(run.leaderships)
    )


@goal("leader-returns-after-a-restart", "a leader restarts, and wins the next term")
def _returns_restarted(run: TracedRun) -> bool:
    return any(
        old.member_id == new.member_id and old.moment.life < new.moment.life for old, new in pairwise(run.leaderships)
    )


@goal("leadership-goes-back", "a member leads, another one does, and the first leads again")
def _goes_back(run: TracedRun) -> bool:
    ids = [member_id for _, member_id in _terms(run)]
    changes = [new for old, new in pairwise([-1, *ids]) if old != new]
    return any(first == third for first, third in zip(changes, changes[2:], strict=False))


@goal("leader-of-each-member", "each of several members leads in turn")
def _all_lead(run: TracedRun) -> bool:
    return 1 < run.members == len({member_id for _, member_id in _terms(run)})


add("leader-alone", "the only member of a cluster leads", lambda run: run.members == 1 and bool(run.leaderships))


@goal("leader-withstands-a-candidate", "a leader is asked for a vote in a later term and leads on")
def _withstands(run: TracedRun) -> bool:
    spans = ((moment, run.election_at(moment)) for moment in run.received("RequestVote"))
    return any(
        span is not None
        and span.leads
        and moment.integer("candidate_term_id") > span.term
        and span.end_ns > moment.ns + S
        for moment, span in spans
    )


@goal("term-without-entries", "a member wins the votes of a term, and the term begins on no member")
def _without_entries(run: TracedRun) -> bool:
    won = {span.term for span in run.in_states(ELECT[0])}
    return bool(won - {span.term for span in run.by_state[CLOSED]})


@goal("term-of-one-member", "a term begins on its leader, and on no other of several members")
def _one_member(run: TracedRun) -> bool:
    members: dict[int, set[int]] = defaultdict(set)
    for span in run.by_state[CLOSED]:
        members[span.term].add(span.member_id)
    return run.members > 1 and any(members[span.term] == {span.member_id} for span in run.leaderships)


@goal("term-skipped", "a leader's term is not the one after the leader's before it")
def _skipped(run: TracedRun) -> bool:
    return any(new > old + 1 for (old, _), (new, _) in pairwise(_terms(run)))


@goal("terms-skipped", "five terms or more are used up between two leaders")
def _several_skipped(run: TracedRun) -> bool:
    return any(new > old + 5 for (old, _), (new, _) in pairwise(_terms(run)))


@goal("elected-with-all-votes", "a candidate of several members has the votes of all")
def _all_votes(run: TracedRun) -> bool:
    return any(_votes(run, span) == run.members > 1 for span in run.in_states(ELECT[0]))


@goal("elected-without-a-member", "a candidate wins without the vote of one member")
def _some_votes(run: TracedRun) -> bool:
    return any(_votes(run, span) < run.members for span in run.in_states(ELECT[0]))


def _votes(run: TracedRun, span: Span) -> int:
    term = span.moment.integer("candidate_term_id")
    voters = {
        vote.integer("follower_member_id")
        for vote in run.received("Vote")
        if vote.member_id == span.member_id
        and vote.fields.get("vote") is True
        and vote.integer("candidate_term_id") == term
        and vote.ns <= span.begin_ns
    }
    return len(voters | {span.member_id})


add("elect-dies", "a process ends after it won the votes, before it leads", died_in(*ELECT))


@goal("elect-gives-up", "a member that won the votes begins another election before it leads")
def _elect_gives_up(run: TracedRun) -> bool:
    return any(run.moved(state, "INIT") for state in ELECT)


@goal("elect-replays", "a member that won the votes replays entries before it leads")
def _elect_replays(run: TracedRun) -> bool:
    spans = run.in_states("LEADER_REPLAY")
    return any(span.moment.integer("log_position") < span.moment.integer("append_position") for span in spans)


@goal("elect-inherits-entries", "a member that won the votes has entries that it did not know to be committed")
def _elect_inherits(run: TracedRun) -> bool:
    return any(
        span.moment.integer("log_position") < span.moment.integer("append_position")
        for lives in run.lives
        for life in lives
        for index, span in enumerate(life.elections)
        if span.state == ELECT[0] and any(before.state == CLOSED for before in life.elections[:index])
    )


add("leader-dies", "a process ends while it leads", lambda run: any(span.has_died for span in run.leaderships))


@goal("leader-dies-within-a-second", "a process ends within a second of its election")
def _dies_soon(run: TracedRun) -> bool:
    return any(span.has_died and span.end_ns < span.begin_ns + S for span in run.leaderships)


@goal("leaderless", "no member leads for ten seconds, between two leaders")
def _leaderless(run: TracedRun) -> bool:
    end_ns = 0
    for span in run.leaderships:
        if 0 < end_ns < span.begin_ns - LEADERLESS_NS:
            return True
        end_ns = max(end_ns, span.end_ns)
    return False
