"""When faults and admin commands may have held members up, and how long a cluster may then take, by its time-outs.

Facts and bounds; this module knows no promise.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import AdminCommand, Manifest, RunFolder
from upheaval_node.errors import UsageError as NodeUsageError
from upheaval_node.member_config import apply_overrides
from upheaval_node.settings import ClusterTimeouts, profile_settings
from upheaval_node.types import NEVER_NS, S

BALLOTS: Final = 4
"""Ballots that an election may take: two members may ask for votes at the same time, and again."""

MARGIN_NS: Final = S
"""For all that has no time-out of its own: messages, files, the log of the new term."""

_HARMLESS: Final = frozenset(
    {AdminCommand.SNAPSHOT, AdminCommand.STANDBY_SNAPSHOT, AdminCommand.REPLICATE_STANDBY_SNAPSHOT}
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """From when to when members had a fault, or all had something; none is named then."""

    begin_ns: int
    end_ns: int
    members: tuple[int, ...] = ()

    def is_within(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it was there at any time of these."""
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns

    def hits(self, member_id: int, begin_ns: int, end_ns: int) -> bool:
        """Whether a member had it in that time."""
        return self.is_within(begin_ns, end_ns) and (not self.members or member_id in self.members)


def timeouts_of(manifest: Manifest) -> ClusterTimeouts:
    """What the members were configured with. Raises `UsageError` for what no member can be."""
    of_profile = profile_settings(manifest.profile).cluster.timeouts
    try:
        return apply_overrides(of_profile, manifest.timeouts, "timeouts")
    except NodeUsageError as error:
        raise UsageError(f"the manifest: {error}") from None


def failover_ns(timeouts: ClusterTimeouts) -> int:
    """From when the members heard last of a leader to when the next one leads, of a quorum that is well."""
    # Each ballot comes after a random delay of half its own time-out.
    return timeouts.leader_heartbeat_ns + BALLOTS * timeouts.election_ns * 3 // 2 + MARGIN_NS


def troubles(run: RunFolder) -> Iterator[Trouble]:
    """All that was done to the cluster of the run."""
    for fault in run.read_faults():
        end_ns = NEVER_NS if fault.heal_end_ns is None else fault.heal_end_ns
        yield Trouble(fault.inject_begin_ns, end_ns, fault.members)
    for control in run.read_controls():
        if control.what not in _HARMLESS:
            yield Trouble(control.begin_ns, control.end_ns)
