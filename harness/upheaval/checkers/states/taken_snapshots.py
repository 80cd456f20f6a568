"""The promise that every running member takes an ordered snapshot, at one position and of every service.

Judged by the commands of the run, the recording logs, and the members' processes in the traces. `snapshots` judges what
a snapshot holds. This module needs no recording.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.recordings import SnapshotRecord, snapshot_records
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts, has_failed, ran_through
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import OWN_SYSTEM, STANDBY, AdminCommand, ControlRecord, MemberFolder, companion_folders
from upheaval_node.types import MS

_MODULE_ID: Final = -1


@dataclass(frozen=True, slots=True)
class OrderedSnapshot:
    """A command with proof: when it was given, and at which positions the members had the snapshot."""

    line: int
    what: str
    begin_ns: int
    end_ns: int
    seen: Mapping[int, int]
    """Positions by member."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A member or a standby (`member_id` -1), its processes, and the snapshots in its recording log."""

    name: str
    member_id: int
    records: Sequence[SnapshotRecord]
    lives: Sequence[ProcessLife] = ()
    failures: Sequence[int] = ()
    """The times of the failed snapshots in its trace."""
    taken_ns: Mapping[int, int] = field(default_factory=dict)
    """By position, when its trace ends a snapshot."""
    lost_ns: int = -1
    """Until when it may have lost files; -1 if it lost none."""
    lost_power: bool = False
    """Whether it lost power before what it wrote was synced: then parts of a set may be gone."""

    def took(self, order: OrderedSnapshot) -> bool:
        """Whether one process with its consensus module ran through the command, and had no failed snapshot by then."""
        begin_ns, end_ns = order.begin_ns, order.end_ns
        return any(
            ran_through(life, begin_ns, end_ns) and not has_failed(life, self.failures, end_ns) for life in self.lives
        )

    def intact(self, written_ns: Mapping[int, int]) -> list[SnapshotRecord]:
        """The records of which no power cut may have taken a part. `written_ns`: by position, when it wrote them."""
        return [
            record
            for record in self.records
            if not self.lost_power or written_ns.get(record.position, self.lost_ns) > self.lost_ns
        ]

    def has(self, position: int) -> bool:
        """Whether its recording log names a snapshot at the position, its own or a standby's."""
        return any(record.position == position for record in self.records)


def ordered_snapshots(controls: Iterable[ControlRecord], what: AdminCommand, field: str) -> list[OrderedSnapshot]:
    """The proved commands of that kind. `field` is the field of a member's position in the record."""
    ordered = []
    for line, control in enumerate(controls, 1):
        if control.what != what or not control.proof.holds:
            continue
        positions = {
            int(member): position
            for member, seen in control.members.items()
            if member.isdigit() and isinstance(seen, dict) and type(position := seen.get(field)) is int
        }
        ordered.append(OrderedSnapshot(line, control.what, control.begin_ns, control.end_ns, positions))
    return ordered


def require_by_all(order: OrderedSnapshot, members: Iterable[Holder]) -> None:
    """Check that every member that ran throughout the command has the snapshot or traced a failure. Raises `Broken`."""
    which = f"the {order.what} of controls.jsonl:{order.line}"
    if not order.seen:
        raise Broken(Verdict.UNKNOWN, f"{which} took effect, but names no member's position")
    positions = sorted(set(order.seen.values()))
    if len(positions) > 1:
        detail = f"{which} was seen at positions {', '.join(map(str, positions))}"
        raise Broken(Verdict.INVALID, detail, members=tuple(sorted(order.seen)), position=positions[0])
    (position,) = positions
    for member in members:
        if member.has(position) or order.begin_ns <= member.lost_ns or not member.took(order):
            continue
        detail = (
            f"member {member.member_id} does not have {which}, which is at position {position} on members "
            f"{', '.join(map(str, sorted(order.seen)))}: it ran from {order.begin_ns // MS} to {order.end_ns // MS} "
            "ms, and its trace has no failed snapshot"
        )
        raise Broken(Verdict.INVALID, detail, members=(member.member_id,), position=position)


def require_whole(name: str, member_id: int, records: Iterable[SnapshotRecord], services: int) -> int:
    """Check that each module snapshot comes with those of all its services. Returns how many there are. Raises
    `Broken`.

    The module's snapshot is recorded last. So if a process dies in between, its incomplete set has no module snapshot.
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
    """Judge the ordered snapshots. `services` is the number per member; 0 if their order in a recording log proves
    nothing.
    """
    if not orders and not any(holder.records for holder in holders):
        return NotApplicable(Promise.SNAPSHOTS_TAKEN, "no snapshot was ordered, and no recording log names one")
    members = [holder for holder in holders if holder.member_id >= 0]
    try:
        for order in orders:
            require_by_all(order, members)
        sets = 0
        for holder in holders if services else ():
            sets += require_whole(holder.name, holder.member_id, holder.intact(holder.taken_ns), services)
    except Broken as broken:
        return broken.finding(Promise.SNAPSHOTS_TAKEN)
    detail = f"{len(orders)} ordered snapshots are on every member that ran, {sets} sets have every service"
    return Finding(Promise.SNAPSHOTS_TAKEN, Verdict.VALID, detail)


def holder_of(folder: MemberFolder, facts: TraceFacts | None = None) -> Holder:
    """Make a `Holder` from a recording log and, for a member, its trace."""
    records = snapshot_records(folder.recording_log)
    if facts is None:
        return Holder(folder.path.name, folder.member_id, records)
    taken_ns = {position: event.ns for position, event in facts.snapshots.items()}
    return Holder(folder.path.name, folder.member_id, records, facts.lives, facts.snapshot_failures, taken_ns)


def members_of(evidence: Evidence) -> list[Holder]:
    """The members, with the times until which they may have lost files."""
    losses = losses_of(evidence.run, evidence.manifest)
    return [
        replace(
            holder_of(evidence.run.member(facts.member_id), facts),
            lost_ns=losses.until_ns.get(facts.member_id, -1),
            lost_power=facts.member_id in losses.powerless,
        )
        for facts in evidence.traces
    ]


def standbys_of(evidence: Evidence) -> list[Holder]:
    """The standbys with a folder."""
    paths = [path for path in companion_folders(evidence.run.path) if path.name.startswith(STANDBY)]
    return [holder_of(MemberFolder(path, -1, path.name)) for path in paths]


def _check(evidence: Evidence) -> Iterable[Result]:
    manifest = evidence.manifest
    orders = ordered_snapshots(evidence.controls, AdminCommand.SNAPSHOT, "snapshot_position")
    # Aeron records the module's snapshot first.
    services = 1 + len(manifest.more_services) if manifest.system == OWN_SYSTEM else 0
    return [judge_taken(orders, [*members_of(evidence), *standbys_of(evidence)], services)]


TAKEN_SNAPSHOTS: Final = Checker(
    "taken snapshots",
    (Promise.SNAPSHOTS_TAKEN,),
    frozenset({Source.CONTROLS, Source.TRACES, Source.FAULTS, Source.CLUSTER, Source.COMPANIONS}),
    _check,
)
