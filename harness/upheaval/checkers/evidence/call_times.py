"""When the log took calls to a custom service, by the clock of the host.

A custom service answers when it likes, so the cluster owes a call only its place in the log. Payload and session
identify a call in the log; a call whose payload occurs twice is left out. The entry's time is that of the leader's
clock, and the leader's trace relates it to the host's. Calls of a term whose leader left no trace, or whose clock was
moved, have no time. Pure facts; this module knows no promise.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.evidence.events import units_of_ms
from upheaval.checkers.evidence.leader_clocks import ROUNDING_MS, LeaderClock, clocks_by_term
from upheaval.checkers.history.calls import CallEntry
from upheaval.records import Operation, Outcome
from upheaval_node.types import MS, NEVER_NS

_MOVED_MAX_MS: Final = 100
"""If a leader's clock moved further than this, its times are not used."""


@dataclass(frozen=True, slots=True)
class TakenCall:
    """A call in the log: the end of its entry, and the bounds of the time at which the leader took it."""

    call: Operation
    position: int
    earliest_ns: int
    latest_ns: int
    member_id: int
    ready_ns: int = -1
    """When the leader began to serve clients."""
    busy: tuple[tuple[int, int], ...] = ()
    """When the leader accepted no requests."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """The times of the calls of a run."""

    entries_ns: Sequence[int] = ()
    """The latest possible time of each call's entry that has a time."""
    untimed: Sequence[tuple[int, int]] = ()
    """When the entries without a time may have been written."""
    taken: Mapping[int, TakenCall] = field(default_factory=dict)
    """Calls in the log with a time, by id."""
    missing: frozenset[int] = frozenset()
    """Unanswered calls that the log lacks."""


def call_times(
    calls: Iterable[Operation], entries: Sequence[CallEntry], clocks: Iterable[LeaderClock], time_unit: int
) -> CallTimes:
    """The times by the host's clock."""
    by_term, unit = clocks_by_term(clocks), units_of_ms(time_unit)
    times = array("q")
    untimed: set[int] = set()
    placed: dict[tuple[str, int | None], tuple[CallEntry, int, int]] = {}
    for entry in entries:
        clock = by_term.get(entry.term)
        if clock is None or clock.moved_ms > _MOVED_MAX_MS:
            untimed.add(entry.term)
            continue
        at_ns = entry.timestamp * MS // unit - clock.offset_ms * MS
        slack_ns = (clock.moved_ms + ROUNDING_MS) * MS
        times.append(at_ns + slack_ns)
        placed[entry.digest, entry.session] = entry, at_ns - slack_ns, at_ns + slack_ns
    sent = [call for call in calls if call.outcome is not Outcome.FAIL and call.session is not None]
    counts = Counter((str(call.value), call.session) for call in sent)
    in_log: Counter[tuple[str, int | None]] = Counter((entry.digest, entry.session) for entry in entries)
    taken: dict[int, TakenCall] = {}
    missing: set[int] = set()
    for call in sent:
        key = str(call.value), call.session
        if counts[key] > 1 or in_log[key] > 1:
            continue
        if key in placed:
            entry, earliest_ns, latest_ns = placed[key]
            clock = by_term[entry.term]
            taken[call.id] = TakenCall(
                call, entry.position, earliest_ns, latest_ns, clock.member_id, clock.ready_ns, clock.busy
            )
        elif call.outcome is Outcome.UNKNOWN and key not in in_log:
            missing.add(call.id)
    return CallTimes(times, [_span_of(term, by_term) for term in sorted(untimed)], taken, frozenset(missing))


def _span_of(term: int, by_term: Mapping[int, LeaderClock]) -> tuple[int, int]:
    """When the entries of a term may have been written: between the known terms around it, if it is not known."""
    clock = by_term.get(term)
    if clock is not None:
        moved_ns = clock.moved_ms * MS
        return clock.begin_ns - moved_ns, clock.end_ns + moved_ns
    before = (other.begin_ns for number, other in by_term.items() if number < term)
    after = (other.end_ns for number, other in by_term.items() if number > term)
    return max(before, default=0), min(after, default=NEVER_NS)
