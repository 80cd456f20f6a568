"""Which members may have lost files, and until when. What contradicts lost files proves nothing about the cluster."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from upheaval.records import Manifest, RunFolder
from upheaval_chaos.file_faults import LOSING, FileFaultKind
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.log_purge import purged_to
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import NEVER_NS

_CUTS_POWER: Final = (HostFaultKind.POWER_CUT, HostFaultKind.POWER_LOST_IN_CHANGE)
_REPLACED: Final = "replaced-*"
"""The files of a member's former host, which nothing reads."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Member ids by kind of loss, and the end of the last loss of each."""

    moved: frozenset[int]
    """Members that moved to another host. No record says when."""
    replaced: frozenset[int]
    """Those, and members whose files were damaged or wiped while they did not run."""
    powerless: frozenset[int]
    """Members that lost power before anything they wrote was synced."""
    until_ns: Mapping[int, int]
    """By member, the end of the last fault that took files; `NEVER_NS` for those that moved."""

    @property
    def members(self) -> frozenset[int]:
        """All members that may have lost something."""
        return self.replaced | self.powerless

    def may_include(self, member_id: int, written_ns: int) -> bool:
        """Whether the member may have lost what it wrote at that time. What it wrote after its last loss is there."""
        until_ns = self.until_ns.get(member_id)
        return until_ns is not None and written_ns <= until_ns


def losses_of(run: RunFolder, manifest: Manifest) -> Losses:
    """From the folders of the members and the faults of the run."""
    moved = _moved(run, manifest.members)
    faults = list(run.read_faults())
    cuts = [] if manifest.sync_level > 0 else [fault for fault in faults if fault.what in _CUTS_POWER]
    of_files = [fault for fault in faults if fault.what in LOSING]
    until_ns: dict[int, int] = {}
    for fault in (*of_files, *cuts):
        for member_id in fault.members:
            until_ns[member_id] = max(_end_ns(fault), until_ns.get(member_id, -1))
    until_ns |= dict.fromkeys(moved, NEVER_NS)
    return Losses(moved, moved | _members_of(of_files), _members_of(cuts), until_ns)


def purged_starts(run: RunFolder, members: int) -> Mapping[int, Set[int]]:
    """Where the log of each member may begin: where a proved purge let it begin, if that was the last change of its
    files by a fault. A member that moved may have a copy of any log that was purged.
    """
    starts: dict[int, Set[int]] = {}
    copied: set[int] = set()
    for fault in sorted(run.read_faults(), key=lambda fault: fault.inject_begin_ns):
        if fault.what == FileFaultKind.PURGE and fault.inject_proof is not None and fault.inject_proof.holds:
            for member_id, position in purged_to(fault.inject_proof.evidence):
                starts[member_id] = {position}
                copied.add(position)
        elif fault.what == FileFaultKind.WIPE:
            for member_id in fault.members:
                starts.pop(member_id, None)
    return starts | dict.fromkeys(_moved(run, members), copied)


def _moved(run: RunFolder, members: int) -> frozenset[int]:
    return frozenset(member_id for member_id in range(members) if any(run.member(member_id).path.glob(_REPLACED)))


def _end_ns(fault: FaultRecord) -> int:
    """When the member had no more to lose."""
    if fault.heal_end_ns is not None:
        # Forwarders may see a vote after its sender has ended, but not after its next process runs.
        return fault.heal_end_ns
    # This one is armed at its injection, and hits at a later change of files.
    return NEVER_NS if fault.what == HostFaultKind.POWER_LOST_IN_CHANGE else fault.inject_end_ns


def _members_of(faults: Iterable[FaultRecord]) -> frozenset[int]:
    return frozenset(member_id for fault in faults for member_id in fault.members)
