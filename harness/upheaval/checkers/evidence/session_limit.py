"""When the cluster had as many sessions as it may have, by its log and its leaders' clocks.

A leader refuses further clients then (Aeron Cluster: `MAX_CONCURRENT_SESSIONS`). This module knows no promise.
"""

from collections.abc import Iterable, Iterator, Mapping

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
    """When the number of sessions grew or fell, and by how much.

    A session counts for as long as the clocks allow, and without limit where no clock shows when it opened or closed.
    """
    unit = units_of_ms(events.time_unit)
    for facts in events.sessions.values():
        if facts.open_term is None:
            continue
        clock = clocks.get(facts.open_term)
        yield (0 if clock is None else clock.ns_of(facts.open_time, unit) - clock.slack_ns), 1
        if facts.ended is not None and (clock := clocks.get(facts.ended[0])) is not None:
            yield clock.ns_of(facts.ended[1], unit) + clock.slack_ns, -1
