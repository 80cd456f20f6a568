"""The promise that an ordered snapshot is taken by every member that runs, at one position, and of every service.

From the commands of the run, the recording logs, and what the traces say of the members' processes. What a snapshot
holds is judged by `snapshots`. This module needs no recording.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.checkers.evidence.recordings import SnapshotRecord, snapshot_records
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import OWN_SYSTEM, STANDBY, AdminCommand, ControlRecord, MemberFolder, companion_folders
from upheaval_node.types import MS

_MODULE_ID: Final = -1


@dataclass(frozen=True, slots=True)
class OrderedSnapshot:
    """A command that holds: when it was given, and where the members were seen to have the snapshot."""

    line: int
    what: str
    begin_ns: int
    end_ns: int
    seen: Mapping[int, int]
    """Positions by member."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A member or a standby (then `member_id` is -1), its processes, and what its recording log names."""

    name: str
    member_id: int
    records: Sequence[SnapshotRecord]
    lives: Sequence[ProcessLife] = ()
    failed_ns: int | None = None
    """When its trace says first that a snapshot failed."""

    def ran_through(self, order: OrderedSnapshot) -> bool:
        """Whether one process with its module has lines from before the command and from after it."""
        return any(
            life.component in OF_MODULE and life.begin_ns <= order.begin_ns and life.last_ns >= order.end_ns
            for life in self.lives
        )

    def has_failed(self, order: OrderedSnapshot) -> bool:
        """A process says only the first time that a snapshot failed."""
        return self.failed_ns is not None and self.failed_ns <= order.end_ns

    def has(self, position: int) -> bool:
        """Whether it names a snapshot there, its own or that of a standby."""
        return any(record.position == position for record in self.records)


def ordered_snapshots(controls: Iterable[ControlRecord], what: AdminCommand, field: str) -> list[OrderedSnapshot]:
    """The commands of that kind that hold; `field` has the position that was seen of a member."""
    found = []
    for line, control in enumerate(controls, 1):
        if control.what != what or not control.proof.holds:
            continue
        positions = {
            int(member): position
            for member, seen in control.members.items()
            if member.isdigit() and isinstance(seen, dict) and type(position := seen.get(field)) is int
        }
        found.append(OrderedSnapshot(line, control.what, control.begin_ns, control.end_ns, positions))
    return found


def require_by_all(order: OrderedSnapshot, members: Iterable[Holder]) -> None:
    """Every member that ran while the command was carried out has it, or its trace says why not. Raises `Broken`."""
    which = f"the {order.what} of controls.jsonl:{order.line}"
    if not order.seen:
        raise Broken(Verdict.UNKNOWN, f"{which} holds, and says of no member where it was taken")
    positions = sorted(set(order.seen.values()))
    if len(positions) > 1:
        detail = f"{which} was seen at positions {', '.join(map(str, positions))}"
        raise Broken(Verdict.INVALID, detail, members=tuple(sorted(order.seen)), position=positions[0])
    (position,) = positions
    for member in members:
        if member.has(position) or member.has_failed(order) or not member.ran_through(order):
            continue
        detail = (
            f"member {member.member_id} does not have {which}, which is at position {position} on members "
            f"{', '.join(map(str, sorted(order.seen)))}: it ran from {order.begin_ns // MS} to {order.end_ns // MS} "
            "ms, and its trace tells of no snapshot that failed"
        )
        raise Broken(Verdict.INVALID, detail, members=(member.member_id,), position=position)


def require_whole(name: str, member_id: int, records: Iterable[SnapshotRecord], services: int) -> int:
    """Every snapshot of a module is there with those of all its services; how many there are. Raises `Broken`.

    The module's is named last, so that no death between two leaves it without them.
    """
    ids: dict[int, set[int]] = {}
    valid: set[int] = set()
    for record in records:
        if not record.is_of_standby:
            ids.setdefault(record.position, set()).add(record.service_id)
            if record.service_id == _MODULE_ID and record.is_valid:
                valid.add(record.position)
    for position in sorted(valid):
        lacking = sorted(set(range(services)) - ids[position])
        if lacking:
            detail = (
                f"{name}/cluster/recording.log has the snapshot of the consensus module at position {position}, and "
                f"none of service {lacking[0]} there"
            )
            members = () if member_id < 0 else (member_id,)
            raise Broken(Verdict.INVALID, detail, members=members, position=position)
    return len(valid)


def judge_taken(orders: Sequence[OrderedSnapshot], holders: Sequence[Holder], services: int) -> Result:
    """`services` is how many a member has; 0: their order in a recording log says nothing."""
    if not orders and not any(holder.records for holder in holders):
        return NotApplicable(Promise.SNAPSHOTS_TAKEN, "no snapshot was ordered, and no recording log names one")
    members = [holder for holder in holders if holder.member_id >= 0]
    try:
        for order in orders:
            require_by_all(order, members)
        sets = 0
        for holder in holders if services else ():
            sets += require_whole(holder.name, holder.member_id, holder.records, services)
    except Broken as broken:
        return broken.finding(Promise.SNAPSHOTS_TAKEN)
    detail = f"{len(orders)} ordered snapshots are on every member that ran, {sets} sets have every service"
    return Finding(Promise.SNAPSHOTS_TAKEN, Verdict.VALID, detail)


def holder_of(folder: MemberFolder, facts: TraceFacts | None = None) -> Holder:
    """From its recording log, and of a member from its trace."""
    records = snapshot_records(folder.recording_log)
    if facts is None:
        return Holder(folder.path.name, folder.member_id, records)
    failures = [error.ns for error in facts.errors if "snapshot" in error.kind]
    return Holder(folder.path.name, folder.member_id, records, facts.lives, min(failures, default=None))


def members_of(evidence: Evidence) -> list[Holder]:
    """The members, but for those that may have lost what they had."""
    lossy = losses_of(evidence.run, evidence.manifest).members
    return [
        holder_of(evidence.run.member(facts.member_id), facts)
        for facts in evidence.traces
        if facts.member_id not in lossy
    ]


def standbys_of(evidence: Evidence) -> list[Holder]:
    """The standbys whose folders are there."""
    paths = [path for path in companion_folders(evidence.run.path) if path.name.startswith(STANDBY)]
    return [holder_of(MemberFolder(path, -1, path.name)) for path in paths]


def _check(evidence: Evidence) -> Iterable[Result]:
    manifest = evidence.manifest
    orders = ordered_snapshots(evidence.controls, AdminCommand.SNAPSHOT, "snapshot_position")
    # Aeron names the module's snapshot first.
    services = 1 + len(manifest.more_services) if manifest.system == OWN_SYSTEM else 0
    return [judge_taken(orders, [*members_of(evidence), *standbys_of(evidence)], services)]


TAKEN_SNAPSHOTS: Final = Checker(
    "taken snapshots",
    (Promise.SNAPSHOTS_TAKEN,),
    frozenset((Source.CONTROLS, Source.TRACES, Source.FAULTS, Source.CLUSTER, Source.COMPANIONS)),
    _check,
)
