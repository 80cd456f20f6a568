"""When the log took calls to a custom service, by the clock of the host.

A custom service answers when it likes, so what a cluster owes a call in time is its place in the log. A call is in the
log by its payload and session; one whose payload its session or the log has twice is left out. The time of an entry is
that of the leader's clock, which the leader's trace relates to the host's. Pure facts; this module knows no promise.
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
from upheaval_node.types import MS

_MOVED_MAX_MS: Final = 100
"""The clock of a leader that was moved further gives no times to judge by."""


@dataclass(frozen=True, slots=True)
class TakenCall:
    """A call in the log: where its entry ends, and between which times it was taken."""

    call: Operation
    position: int
    earliest_ns: int
    latest_ns: int
    member_id: int
    ready_ns: int = -1
    """When the leader that took it had begun to serve clients."""
    busy: tuple[tuple[int, int], ...] = ()
    """From when to when that leader took nothing of clients."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Of all calls of a run."""

    entries_ns: Sequence[int] = ()
    """The latest time of each entry of a call."""
    taken: Mapping[int, TakenCall] = field(default_factory=dict)
    """By the id of the call."""
    missing: frozenset[int] = frozenset()
    """The unanswered calls that are not in the log."""


def call_times(
    calls: Iterable[Operation], entries: Sequence[CallEntry], clocks: Iterable[LeaderClock], time_unit: int
) -> CallTimes | None:
    """None where an entry has no time by the host's clock: no trace of its leader, or a clock that was moved."""
    by_term, unit = clocks_by_term(clocks), units_of_ms(time_unit)
    times = array("q")
    placed: dict[tuple[str, int | None], tuple[CallEntry, int, int]] = {}
    for entry in entries:
        clock = by_term.get(entry.term)
        if clock is None or clock.moved_ms > _MOVED_MAX_MS:
            return None
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
        elif call.outcome is Outcome.UNKNOWN:
            missing.add(call.id)
    return CallTimes(times, taken, frozenset(missing))
