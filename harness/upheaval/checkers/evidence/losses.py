"""Which members may have lost files. What contradicts lost files proves nothing about the cluster."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from upheaval.records import Manifest, RunFolder
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.record import FaultRecord

_CUTS_POWER: Final = (HostFaultKind.POWER_CUT, HostFaultKind.POWER_LOST_IN_CHANGE)
_REPLACED: Final = "replaced-*"
"""The files of a member's former host, which nothing reads."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Member ids by kind of loss."""

    replaced: frozenset[int]
    """Members that moved to another host, or whose files were damaged or wiped while they did not run."""
    powerless: frozenset[int]
    """Members that lost power before anything they wrote was synced."""

    @property
    def members(self) -> frozenset[int]:
        """All members that may have lost something."""
        return self.replaced | self.powerless


def losses_of(run: RunFolder, manifest: Manifest) -> Losses:
    """From the folders of the members and the faults of the run."""
    replaced = frozenset(
        member_id for member_id in range(manifest.members) if any(run.member(member_id).path.glob(_REPLACED))
    )
    faults = list(run.read_faults())
    cuts = [] if manifest.sync_level > 0 else [fault for fault in faults if fault.what in _CUTS_POWER]
    return Losses(
        replaced | _members_of(fault for fault in faults if fault.what in list(FileFaultKind)), _members_of(cuts)
    )


def _members_of(faults: Iterable[FaultRecord]) -> frozenset[int]:
    return frozenset(member_id for fault in faults for member_id in fault.members)
