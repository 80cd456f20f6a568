"""When faults and admin commands may have delayed members, and how long a cluster may take by its time-outs.

Facts and bounds; this module knows no promise.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import AdminCommand, Manifest, RunFolder
from upheaval_node.errors import UsageError as NodeUsageError
from upheaval_node.member_config import apply_overrides
from upheaval_node.settings import ClusterTimeouts, profile_settings
from upheaval_node.types import NEVER_NS, S

BALLOTS: Final = 4
"""How many ballots an election may take: two members may ask for votes at the same time, and again."""

MARGIN_NS: Final = S
"""Added for what has no time-out of its own: messages, files, the log of the new term."""

_HARMLESS: Final = frozenset(
    {AdminCommand.SNAPSHOT, AdminCommand.STANDBY_SNAPSHOT, AdminCommand.REPLICATE_STANDBY_SNAPSHOT}
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """An interval in which the named members had a fault, or, with none named, all members may have been affected."""

    begin_ns: int
    end_ns: int
    members: tuple[int, ...] = ()

    def is_within(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it overlaps an interval."""
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns

    def hits(self, member_id: int, begin_ns: int, end_ns: int) -> bool:
        """Whether it affected a member in an interval."""
        return self.is_within(begin_ns, end_ns) and (not self.members or member_id in self.members)


def timeouts_of(manifest: Manifest) -> ClusterTimeouts:
    """The members' configured time-outs. Raises `UsageError` for values that no member can have."""
    of_profile = profile_settings(manifest.profile).cluster.timeouts
    try:
        return apply_overrides(of_profile, manifest.timeouts, "timeouts")
    except NodeUsageError as error:
        raise UsageError(f"the manifest: {error}") from None


def failover_ns(timeouts: ClusterTimeouts) -> int:
    """How long a quorum that is well may take from the last word of a leader to the next leader."""
    # Each ballot begins after a random delay of half its own time-out.
    return timeouts.leader_heartbeat_ns + BALLOTS * timeouts.election_ns * 3 // 2 + MARGIN_NS


def troubles(run: RunFolder) -> Iterator[Trouble]:
    """All faults and commands of the run."""
    for fault in run.read_faults():
        end_ns = NEVER_NS if fault.heal_end_ns is None else fault.heal_end_ns
        yield Trouble(fault.inject_begin_ns, end_ns, fault.members)
    for control in run.read_controls():
        if control.what not in _HARMLESS:
            yield Trouble(control.begin_ns, control.end_ns)


def calm_times(
    troubles: Iterable[Trouble], member_id: int, begin_ns: int, end_ns: int, recovery_ns: int
) -> Iterator[tuple[int, int]]:
    """The parts of an interval in which a member had no fault, and had recovered from earlier ones."""
    since_ns = begin_ns
    for trouble in sorted(troubles, key=lambda trouble: trouble.begin_ns):
        if trouble.hits(member_id, since_ns - recovery_ns, end_ns):
            if trouble.begin_ns > since_ns:
                yield since_ns, trouble.begin_ns
            since_ns = max(since_ns, trouble.end_ns + recovery_ns)
    if since_ns < end_ns:
        yield since_ns, end_ns


def same_quorum(
    well: Sequence[tuple[int, int, int]], quorum: int, begin_ns: int, end_ns: int
) -> Iterator[tuple[int, int, list[int]]]:
    """The parts of an interval in which one quorum was well all the time, with all members that were.

    `well` has a member and an interval each. From each moment at which a member became well, the quorum counts that
    was well the longest.
    """
    times = [(max(since, begin_ns), min(until, end_ns), member_id) for member_id, since, until in well]
    for since_ns in sorted({since for since, _, _ in times}):
        lasting = sorted((until, member_id) for since, until, member_id in times if since <= since_ns < until)
        if len(lasting) >= quorum:
            until_ns = lasting[-quorum][0]
            yield since_ns, until_ns, sorted(member_id for until, member_id in lasting if until >= until_ns)
