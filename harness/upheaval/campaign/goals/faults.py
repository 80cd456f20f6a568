"""Goals about members that are down, faults in critical moments, clients, and nodes beside the members."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from upheaval.campaign.goals.goal import GoalArea, died_in
from upheaval.campaign.goals.traced_run import CLOSED, Span, TracedRun
from upheaval.records.companions import BACKING_UP
from upheaval.records.session_ends import SessionCause
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NEVER_NS

FAULTS: Final = GoalArea("faults")
add, goal = FAULTS.add, FAULTS.goal


def _most_down(run: TracedRun) -> int:
    """The largest number of members that were down at one moment."""
    changes = [
        change
        for lives in run.lives
        for old, new in pairwise(lives)
        for change in ((old.last_ns, 1), (new.begin_ns, -1))
    ]
    down = most = 0
    for _, change in sorted(changes):
        down += change
        most = max(most, down)
    return most


@goal("all-members-down", "all of several members are down at the same moment")
def _all_down(run: TracedRun) -> bool:
    return 1 < run.members == _most_down(run)


@goal("quorum-down", "too few of several members run for a quorum, but one does")
def _quorum_down(run: TracedRun) -> bool:
    return run.members - run.members // 2 <= _most_down(run) < run.members


@goal("start-refused", "a member refuses to start on its files, because durable bytes changed")
def _refused(run: TracedRun) -> bool:
    return any(life.status not in (None, 0) and not life.elections for lives in run.lives for life in lives)


add("dies-in-canvass", "a process ends while it canvasses", died_in("CANVASS"))


@goal("restart-within-a-term", "a follower restarts, and joins the term that it was in")
def _within_term(run: TracedRun) -> bool:
    return any(
        old.elections and old.elections[-1].state == CLOSED and old.elections[-1].term in _joined(new.elections)
        for lives in run.lives
        for old, new in pairwise(lives)
    )


def _joined(spans: list[Span]) -> set[int]:
    return {span.term for span in spans if span.state == CLOSED}


def _in_time(fault: FaultRecord, span: Span) -> bool:
    return span.is_within(fault.inject_begin_ns, fault.heal_begin_ns or NEVER_NS)


def _of_leaders(run: TracedRun, *kinds: str) -> Iterator[tuple[FaultRecord, Span]]:
    """The faults of these kinds, with the leaders that they hit."""
    for fault in run.faults:
        for span in run.leaderships:
            if fault.what in kinds and span.member_id in fault.members and _in_time(fault, span):
                yield fault, span


@goal("fault-in-an-election", "a fault begins while all running members are in an election")
def _in_election(run: TracedRun) -> bool:
    closed = run.by_state[CLOSED]
    first_ns = min((span.begin_ns for span in closed), default=NEVER_NS)
    begins = [fault.inject_begin_ns for fault in run.faults if fault.inject_begin_ns > first_ns]
    return any(not any(span.begin_ns <= ns < span.end_ns for span in closed) for ns in begins)


@goal("faults-at-once", "two faults of different members last at the same moment")
def _at_once(run: TracedRun) -> bool:
    faults = [fault for fault in run.faults if fault.members and fault.heal_begin_ns is not None]
    return any(
        not set(one.members) & set(other.members)
        and one.inject_begin_ns <= other.inject_begin_ns < (one.heal_begin_ns or 0)
        for one in faults
        for other in faults
    )


@goal("clock-of-a-leader-jumps", "the wall clock of a leader jumps")
def _clock(run: TracedRun) -> bool:
    return any(True for _ in _of_leaders(run, HostFaultKind.CLOCK_JUMP))


@goal("disk-of-a-leader-full", "the disk of a leader is full")
def _full(run: TracedRun) -> bool:
    return any(True for _ in _of_leaders(run, HostFaultKind.DISK_FULL))


@goal("disk-of-a-leader-slow", "the disk of a leader is slow to sync")
def _slow(run: TracedRun) -> bool:
    return any(True for _ in _of_leaders(run, HostFaultKind.DISK_SLOW))


@goal("leader-paused-and-replaced", "a leader is stopped, another member is elected, and the first continues")
def _replaced(run: TracedRun) -> bool:
    return any(
        other.member_id != span.member_id and fault.inject_begin_ns < other.begin_ns < (fault.heal_begin_ns or 0)
        for fault, span in _of_leaders(run, MemberFaultKind.PAUSE)
        for other in run.leaderships
    )


@goal("dies-in-a-change", "a process ends within a change of its files, and starts again from them")
def _in_change(run: TracedRun) -> bool:
    kinds = (HostFaultKind.DIE_IN_CHANGE, HostFaultKind.POWER_LOST_IN_CHANGE)
    return any(fault.what in kinds and fault.is_proved for fault in run.faults)


@goal("session-outlives-its-term", "a client's session continues under a later leader")
def _outlives(run: TracedRun) -> bool:
    return any((end.followed_term_id or 0) > end.leadership_term_id for end in run.session_ends)


@goal("session-lost", "a client gives up a session because it does not find a leader")
def _lost(run: TracedRun) -> bool:
    return any(end.cause is SessionCause.LOST for end in run.session_ends)


@goal("session-closed-by-the-cluster", "the cluster closes the session of a client that runs")
def _closed(run: TracedRun) -> bool:
    return any(end.cause is SessionCause.CLUSTER for end in run.session_ends)


@goal("companion-changes-its-source", "a backup or standby copies from another member than before")
def _changes(run: TracedRun) -> bool:
    suppliers = (
        [event.fields.get("supplier_id") for event in trace if event.fields.get("state") == BACKING_UP]
        for trace in run.companions
    )
    return any(len(set(ids)) > 1 for ids in suppliers)


@goal("companion-starts-over", "a backup or standby that had caught up begins its copy again, in the same process")
def _starts_over(run: TracedRun) -> bool:
    for trace in run.companions:
        following: dict[object, bool] = {}
        for event in trace:
            if event.event == TraceKind.BACKUP_STATE:
                pid, state = event.fields.get("pid"), event.fields.get("state")
                if state == "RESET_BACKUP" and following.get(pid):
                    return True
                following[pid] = following.get(pid, False) or state == BACKING_UP
    return False


@goal("companion-copies-a-snapshot", "a backup or standby copies a snapshot")
def _copies(run: TracedRun) -> bool:
    return any(event.fields.get("state") == "SNAPSHOT_RETRIEVE" for trace in run.companions for event in trace)


@goal("standby-replays-again", "a standby's services begin their replay of the log again")
def _replays_again(run: TracedRun) -> bool:
    return any(event.event == TraceKind.STANDBY_REPLAY_ENDED for trace in run.companions for event in trace)
