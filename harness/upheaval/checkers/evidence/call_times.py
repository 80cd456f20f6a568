"""When the log took calls to a custom service, by the clock of the host.

A custom service answers when it likes, so the cluster owes a call only its place in the log. Payload and session
identify a call in the log; a call whose payload occurs twice is left out. The entry's time is that of the leader's
clock, and the leader's trace relates it to the host's. Pure facts; this module knows no promise.
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
    """The times of all calls of a run."""

    entries_ns: Sequence[int] = ()
    """The latest possible time of each call's entry."""
    taken: Mapping[int, TakenCall] = field(default_factory=dict)
    """Calls in the log, by id."""
    missing: frozenset[int] = frozenset()
    """Unanswered calls that the log lacks."""


def call_times(
    calls: Iterable[Operation], entries: Sequence[CallEntry], clocks: Iterable[LeaderClock], time_unit: int
) -> CallTimes | None:
    """None if an entry has no time by the host's clock: its leader has no trace, or its clock was moved."""
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
