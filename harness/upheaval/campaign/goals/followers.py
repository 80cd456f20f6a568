"""Goals about followers: truncation, replication of missed terms, replay and catch-up."""

from typing import Final

from upheaval.campaign.goals.goal import GoalArea, died_in, moved
from upheaval.campaign.goals.traced_run import CLOSED, Span, TracedRun

FOLLOWERS: Final = GoalArea("followers")
add, goal = FOLLOWERS.add, FOLLOWERS.goal

CATCHING_UP: Final = ("FOLLOWER_CATCHUP_INIT", "FOLLOWER_CATCHUP_AWAIT", "FOLLOWER_CATCHUP")


def _truncations(run: TracedRun) -> list[Span]:
    """The INIT states in which a member cut its log: the next state begins with a shorter one.

    The first INIT of an election cuts nothing, so there is a state of the same election before it.
    """
    return [
        span
        for span in run.in_states("INIT")
        if span.previous is not None
        and span.previous.state != CLOSED
        and span.next is not None
        and span.next.moment.integer("append_position") < span.moment.integer("append_position")
    ]


def _log_term(span: Span | None) -> int:
    return -1 if span is None else span.moment.integer("log_leadership_term_id")


@goal("follower-truncates", "a member cuts entries from its log that the new leader does not have")
def _truncates(run: TracedRun) -> bool:
    return bool(_truncations(run))


@goal("follower-truncates-a-term", "a member cuts all entries of a term from its log")
def _truncates_term(run: TracedRun) -> bool:
    bases = {
        span.moment.integer("leadership_term_id"): span.moment.integer("append_position")
        for span in run.in_states("LEADER_LOG_REPLICATION")
    }
    return any(
        span.next is not None and span.next.moment.integer("append_position") <= bases.get(_log_term(span), -1)
        for span in _truncations(run)
    )


@goal("former-leader-truncates", "a member cuts entries that it appended as the leader")
def _former_leader(run: TracedRun) -> bool:
    return any(
        led.member_id == span.member_id and led.begin_ns < span.begin_ns and led.term == _log_term(span)
        for span in _truncations(run)
        for led in run.leaderships
    )


@goal("follower-truncates-twice", "a member cuts its log, and once more in the same run")
def _truncates_twice(run: TracedRun) -> bool:
    members = [span.member_id for span in _truncations(run)]
    return len(members) > len(set(members))


@goal("follower-replicates", "a member copies a term that it missed from the leader's archive")
def _replicates(run: TracedRun) -> bool:
    return any(True for _ in run.in_states("FOLLOWER_LOG_REPLICATION"))


@goal("follower-replicates-terms", "a member copies two missed terms one after the other")
def _replicates_several(run: TracedRun) -> bool:
    for lives in run.lives:
        for life in lives:
            count = 0
            for span in life.elections:
                count = 0 if span.state == CLOSED else count + (span.state == "FOLLOWER_LOG_REPLICATION")
                if count == 2:
                    return True
    return False


add("replication-gives-up", "the copy of a missed term is abandoned", moved("FOLLOWER_LOG_REPLICATION", "INIT"))
add("dies-in-replication", "a process ends while it copies a missed term", died_in("FOLLOWER_LOG_REPLICATION"))


@goal("follower-catches-up", "a member reads a replay of the leader's log, up to the live log")
def _catches_up(run: TracedRun) -> bool:
    return run.moved("FOLLOWER_CATCHUP", "FOLLOWER_LOG_INIT")


@goal("followers-catch-up-at-once", "two members catch up at the same moment")
def _catch_up_at_once(run: TracedRun) -> bool:
    spans = list(run.in_states(*CATCHING_UP))
    return any(one.member_id < other.member_id and one.overlaps(other) for one in spans for other in spans)


add("catch-up-gives-up", "a catch-up is abandoned while it reads", moved("FOLLOWER_CATCHUP", "INIT"))


@goal("catch-up-without-a-replay", "a member that asked for a replay to catch up does not get it")
def _catch_up_unanswered(run: TracedRun) -> bool:
    return run.moved("FOLLOWER_CATCHUP_AWAIT", "INIT")


add("dies-in-catch-up", "a process ends while it catches up", died_in(*CATCHING_UP))


@goal("leader-lost-in-catch-up", "a leader dies or loses its term while another member catches up")
def _leader_lost(run: TracedRun) -> bool:
    ends = [led.end_ns for led in run.leaderships if led.has_died or led.next is not None]
    return any(span.begin_ns < end_ns < span.end_ns for span in run.in_states(*CATCHING_UP) for end_ns in ends)


@goal("log-not-joined", "a member that replayed its log does not get the leader's live log")
def _not_joined(run: TracedRun) -> bool:
    return run.moved("FOLLOWER_LOG_AWAIT", "INIT")


@goal("replay-of-a-part", "a member can replay only a part of its log, since the rest is not committed yet")
def _replay_of_part(run: TracedRun) -> bool:
    return run.moved("FOLLOWER_REPLAY", "CANVASS")


add("replay-gives-up", "a follower's replay is abandoned", moved("FOLLOWER_REPLAY", "INIT"))
add("dies-in-replay", "a follower's process ends before it has replayed its log", died_in("FOLLOWER_REPLAY"))


@goal("follower-misses-a-term", "a member takes part in no moment of a term that another one led")
def _misses_term(run: TracedRun) -> bool:
    terms = {span.term for span in run.leaderships}
    for lives in run.lives:
        own = {span.term for life in lives for span in life.elections if span.state == CLOSED}
        if own and any(min(own) < term < max(own) for term in terms - own):
            return True
    return False


@goal("follower-ahead-of-leader", "a member hears of a leader whose log is shorter than its own")
def _ahead(run: TracedRun) -> bool:
    spans = ((moment, run.election_at(moment)) for moment in run.received("NewLeadershipTerm"))
    return any(
        span is not None
        and span.state != CLOSED
        and moment.integer("leader_member_id") != moment.member_id
        and span.moment.integer("append_position") > moment.integer("log_position")
        for moment, span in spans
    )


@goal("follower-dies-on-joining", "a process ends after it replayed or caught up, before it has joined the live log")
def _dies_joining(run: TracedRun) -> bool:
    return any(span.has_died for span in run.in_states("FOLLOWER_LOG_INIT", "FOLLOWER_LOG_AWAIT", "FOLLOWER_READY"))
