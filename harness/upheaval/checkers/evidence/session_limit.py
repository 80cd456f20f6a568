"""When the cluster had as many sessions as it may have, by its log and its leaders' clocks.

A leader refuses further clients then (Aeron Cluster: `MAX_CONCURRENT_SESSIONS`). This module knows no promise.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from upheaval.checkers.evidence.events import LogEvents, units_of_ms
from upheaval.checkers.evidence.leader_clocks import LeaderClock, clocks_by_term
from upheaval.records import Manifest
from upheaval_node.settings import profile_settings
from upheaval_node.types import NEVER_NS


def session_limit(manifest: Manifest) -> int:
    """The highest number of sessions that the members admit."""
    return manifest.max_sessions or profile_settings(manifest.profile).cluster.max_sessions


def full_times(limit: int, events: LogEvents, clocks: Iterable[LeaderClock]) -> Iterator[tuple[int, int]]:
    """The intervals with `limit` sessions or more, by the host's clock, in order."""
    number, since_ns = 0, 0
    for ns, change in sorted(_changes(events, clocks_by_term(clocks))):
        was_full, number = number >= limit, number + change
        if was_full and number < limit:
            yield since_ns, ns
        elif not was_full and number >= limit:
            since_ns = ns
    if number >= limit:
        yield since_ns, NEVER_NS


def _changes(events: LogEvents, clocks: Mapping[int, LeaderClock]) -> Iterator[tuple[int, int]]:
    """When the number of sessions grew or fell, and by how much. A session counts for as long as the clocks allow."""
    unit = units_of_ms(events.time_unit)
    with_entries = [clock for term, clock in clocks.items() if term in events.times]
    for facts in events.sessions.values():
        if facts.open_term is None:
            continue
        yield _written_ns(facts.open_term, facts.open_time, unit, clocks, with_entries)[0], 1
        if facts.ended is not None:
            yield _written_ns(*facts.ended, unit, clocks, with_entries)[1], -1


def _written_ns(
    term: int,
    timestamp: int,
    units_per_ms: int,
    clocks: Mapping[int, LeaderClock],
    with_entries: Sequence[LeaderClock],
) -> tuple[int, int]:
    """The earliest and latest time at which an entry of a term can have been written, by the host's clock.

    Where the term has no clock, terms `with_entries` beside it bound the time: a leader of a later one had the entry
    when it began to lead. A term without entries bounds nothing: its leader may have lacked them.
    """
    if (clock := clocks.get(term)) is not None:
        ns = clock.ns_of(timestamp, units_per_ms)
        return ns - clock.slack_ns, ns + clock.slack_ns
    before = (clock.begin_ns - clock.slack_ns for clock in with_entries if clock.leadership_term_id < term)
    after = (clock.begin_ns + clock.slack_ns for clock in with_entries if clock.leadership_term_id > term)
    return max(before, default=0), min(after, default=NEVER_NS)
