"""Which members may have lost files: what contradicts those says nothing about the cluster."""

from dataclasses import dataclass
from typing import Final

from upheaval.records import Manifest, RunFolder
from upheaval_chaos.host_faults import HostFaultKind

_CUTS_POWER: Final = (HostFaultKind.POWER_CUT, HostFaultKind.POWER_LOST_IN_CHANGE)
_REPLACED: Final = "replaced-*"
"""What a member had on the host before the one that it has now: nothing reads it."""


@dataclass(frozen=True, slots=True)
class Losses:
    """By the ids of members."""

    replaced: frozenset[int]
    """Members with another host than at first."""
    powerless: frozenset[int]
    """Members that lost power while nothing of what they wrote was synced."""

    @property
    def members(self) -> frozenset[int]:
        """All that may have lost something."""
        return self.replaced | self.powerless


def losses_of(run: RunFolder, manifest: Manifest) -> Losses:
    """From the folders of the members and the faults of the run."""
    replaced = frozenset(each for each in range(manifest.members) if any(run.member(each).path.glob(_REPLACED)))
    faults = [] if manifest.sync_level > 0 else [fault for fault in run.read_faults() if fault.what in _CUTS_POWER]
    return Losses(replaced, frozenset(member_id for fault in faults for member_id in fault.members))
