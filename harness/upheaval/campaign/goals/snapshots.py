"""Goals about snapshots, and about the ends of a whole cluster."""

from collections import defaultdict
from typing import Final

from upheaval.campaign.goals.followers import CATCHING_UP
from upheaval.campaign.goals.goal import GoalArea
from upheaval.campaign.goals.traced_run import CLOSED, Life, Span, TracedRun
from upheaval_node.trace_kinds import TraceKind

SNAPSHOTS: Final = GoalArea("snapshots")
goal = SNAPSHOTS.goal


def _taken(run: TracedRun) -> list[Span]:
    return [span for span in run.modules if span.state == "SNAPSHOT"]


def _starts(run: TracedRun) -> list[tuple[Life, int, int]]:
    """Each life that began an election, the position of the snapshot that it started from, and the end of its log."""
    lives = [life for lives in run.lives for life in lives]
    starts = [(life, life.start) for life in lives]
    return [
        (life, start.integer("log_position"), start.integer("append_position"))
        for life, start in starts
        if start is not None
    ]


@goal("snapshot-during-catch-up", "a member takes a snapshot while another one catches up")
def _during_catch_up(run: TracedRun) -> bool:
    return _overlap(_taken(run), list(run.in_states(*CATCHING_UP, "FOLLOWER_LOG_REPLICATION")))


@goal("snapshot-during-an-election", "a member takes a snapshot while another one is in an election")
def _during_election(run: TracedRun) -> bool:
    return _overlap(_taken(run), [span for span in run.elections if span.state != CLOSED])


def _overlap(ones: list[Span], others: list[Span]) -> bool:
    return any(one.member_id != other.member_id and one.overlaps(other) for one in ones for other in others)


@goal("snapshot-gives-up", "an election ends the snapshot of a member")
def _gives_up(run: TracedRun) -> bool:
    begins = {(span.member_id, span.begin_ns) for span in run.in_states("INIT")}
    return any(span.next is not None and (span.member_id, span.end_ns) in begins for span in _taken(run))


@goal("dies-in-a-snapshot", "a process ends while it takes a snapshot")
def _dies(run: TracedRun) -> bool:
    return any(span.has_died for span in _taken(run))


@goal("leader-dies-in-a-snapshot", "the leader's process ends while it takes a snapshot")
def _leader_dies(run: TracedRun) -> bool:
    spans = [span for span in _taken(run) if span.has_died]
    return any(
        led.member_id == span.member_id and led.moment.life == span.moment.life and led.overlaps(span)
        for span in spans
        for led in run.leaderships
    )


@goal("start-from-a-snapshot", "a member starts from a snapshot that is the end of its log")
def _from_snapshot(run: TracedRun) -> bool:
    return any(0 < position == end for _, position, end in _starts(run))


@goal("start-from-a-snapshot-and-log", "a member starts from a snapshot with entries after it")
def _from_snapshot_and_log(run: TracedRun) -> bool:
    return any(0 < position < end for _, position, end in _starts(run))


@goal("start-from-the-beginning", "a member with a log starts without a snapshot")
def _from_beginning(run: TracedRun) -> bool:
    return any(position == 0 < end for _, position, end in _starts(run))


@goal("starts-from-different-snapshots", "two members that run at the same time started from different snapshots")
def _different(run: TracedRun) -> bool:
    starts = [(life, position) for life, position, _ in _starts(run) if position]
    return any(
        one.member_id != other.member_id
        and position != other_position
        and one.begin_ns < other.last_ns
        and other.begin_ns < one.last_ns
        for one, position in starts
        for other, other_position in starts
    )


@goal("start-from-an-earlier-snapshot", "a member starts from an earlier snapshot than at its start before")
def _earlier(run: TracedRun) -> bool:
    latest: dict[int, int] = {}
    for life, position, _ in _starts(run):
        if position < latest.get(life.member_id, 0):
            return True
        latest[life.member_id] = position
    return False


@goal("snapshot-of-a-standby", "members note a snapshot that a standby took")
def _of_standby(run: TracedRun) -> bool:
    return bool(run.events.get(TraceKind.STANDBY_SNAPSHOT))


@goal("cluster-ends", "all members end together, as an operator asked")
def _ends(run: TracedRun) -> bool:
    return any(len(members) == run.members for members in _ended(run).values())


@goal("cluster-ends-without-a-member", "members end as an operator asked, and another one does not end with them")
def _ends_without(run: TracedRun) -> bool:
    return any(len(members) < run.members for members in _ended(run).values())


def _ended(run: TracedRun) -> dict[tuple[int, int], set[int]]:
    """The members that ended in order, by the term in which that was asked for, and the position."""
    ended: dict[tuple[int, int], set[int]] = defaultdict(set)
    for moment in run.events.get(TraceKind.CLUSTER_END, ()):
        ended[moment.integer("requested_term_id"), moment.integer("log_position")].add(moment.member_id)
    return ended


@goal("dies-while-terminating", "a process ends before it has ended with its cluster")
def _dies_terminating(run: TracedRun) -> bool:
    ended = {(moment.member_id, moment.life) for moment in run.events.get(TraceKind.CLUSTER_END, ())}
    return any(span.state == "TERMINATING" and (span.member_id, span.moment.life) not in ended for span in run.modules)
