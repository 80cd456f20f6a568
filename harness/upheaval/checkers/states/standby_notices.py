"""The promise that members record the snapshots of standbys correctly: each reference matches a standby's snapshot.

When the log asks standbys for a snapshot, the standby sends every member a notice, and the member writes a reference
into its recording log. Judged by these, the standbys' own recording logs, the traces and the commands of the run.
`snapshots` judges what the snapshots hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.recordings import SnapshotRecord
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import facts_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.taken_snapshots import (
    Holder,
    OrderedSnapshot,
    holder_of,
    members_of,
    ordered_snapshots,
    require_by_all,
)
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.records import STANDBY, AdminCommand, MemberFolder, companion_folders, read_origin
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, S

NOTICE_NS: Final = 20 * S
"""How long a standby must run after a snapshot before its notice must have reached some member."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A trace line of a member that recorded a notice."""

    line: int
    ns: int
    position: int


@dataclass(frozen=True, slots=True)
class Informed:
    """A member, and the notices in its trace."""

    holder: Holder
    noted: Sequence[Noted] = ()

    @property
    def records(self) -> list[SnapshotRecord]:
        """Its references to snapshots of standbys."""
        return [record for record in self.holder.records if record.is_of_standby]

    @property
    def intact(self) -> list[SnapshotRecord]:
        """The references of which no power cut may have taken a part."""
        records = self.holder.intact({noted.position: noted.ns for noted in self.noted})
        return [record for record in records if record.is_of_standby]

    @property
    def known(self) -> set[int]:
        """The positions of the snapshots of standbys that it knows or knew."""
        return {record.position for record in self.records} | {noted.position for noted in self.noted}


@dataclass(frozen=True, slots=True)
class Standby:
    """A standby, and how long it ran after each of its snapshots."""

    holder: Holder
    ran_ns: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By position of the snapshot, when it was taken, and the standby's end or its next snapshot."""


def judge_notices(
    members: Sequence[Informed],
    standbys: Sequence[Standby],
    orders: Sequence[OrderedSnapshot],
    asked: Iterable[int],
    services: int,
    restored: int = -1,
) -> Result:
    """Judge the references. `asked` are the positions at which the log asks only standbys for a snapshot.

    References up to position `restored` came with a restored run.
    """
    if not orders and not standbys and not any(member.records or member.noted for member in members):
        return NotApplicable(Promise.STANDBYS_KNOWN, "there was no standby")
    try:
        compared = 0
        for member in members:
            _require_written(member, services)
            compared += _require_same(member, standbys, restored)
        for order in orders:
            require_by_all(order, [replace(member.holder, records=member.records) for member in members])
        announced = _require_announced(members, standbys, asked)
    except Broken as broken:
        return broken.finding(Promise.STANDBYS_KNOWN)
    detail = f"{compared} references of members name what standbys have, of {announced} announced snapshots"
    return Finding(Promise.STANDBYS_KNOWN, Verdict.VALID, detail)


def _require_written(member: Informed, services: int) -> None:
    """Check that the recording log has each notice in the trace, for every service."""
    who = member.holder
    places = {record.place for record in member.records}
    for noted in (noted for noted in member.noted if noted.ns > who.lost_ns):
        lacking = [service_id for service_id in range(-1, services) if (noted.position, service_id) not in places]
        if lacking:
            what = "the consensus module" if lacking[0] < 0 else f"service {lacking[0]}"
            detail = (
                f"{who.name}/cluster/recording.log does not have the standby's snapshot of {what} at position "
                f"{noted.position}, which was written down by {noted.ns // MS} ms ({who.name}/trace.jsonl:{noted.line})"
            )
            when_ns = (noted.ns, noted.ns)
            raise Broken(Verdict.INVALID, detail, members=(who.member_id,), position=noted.position, when_ns=when_ns)


def _require_same(member: Informed, standbys: Iterable[Standby], restored: int) -> int:
    """Check that each reference equals a snapshot of a standby in every field. Returns how many were compared."""
    own = [record for standby in standbys for record in standby.holder.records if not record.is_of_standby]
    by_id = {(record.recording_id, record.service_id): record for record in own}
    compared = 0
    for record in (record for record in member.intact if record.position > restored):
        where = (
            f"{member.holder.name}/cluster/recording.log names recording {record.recording_id} of a standby for the "
            f"snapshot of service {record.service_id} at position {record.position}"
        )
        who = (member.holder.member_id,)
        if not own:
            detail = f"{where}, and no standby left its recording log"
            raise Broken(Verdict.UNKNOWN, detail, members=who, position=record.position)
        there = by_id.get((record.recording_id, record.service_id))
        if there is None:
            raise Broken(Verdict.INVALID, f"{where}, which no standby has", members=who, position=record.position)
        for name in ("position", "term_id", "term_base", "timestamp"):
            noted, actual = getattr(record, name), getattr(there, name)
            if noted != actual:
                detail = f"{where}, with {name.replace('_', ' ')} {noted}: the standby has {actual}"
                raise Broken(Verdict.INVALID, detail, members=who, position=record.position)
        compared += 1
    return compared


def _require_announced(members: Sequence[Informed], standbys: Iterable[Standby], asked: Iterable[int]) -> int:
    """Check that some member knows each requested snapshot whose standby ran long enough afterwards, beside a member
    that lost nothing. Returns their number.
    """
    asked = set(asked)
    known = {position for member in members for position in member.known}
    whole_ns = min((member.holder.lost_ns for member in members), default=-1)
    count = 0
    for standby in standbys:
        for position in sorted(asked & {record.position for record in standby.holder.records}):
            count += 1
            begin_ns, end_ns = standby.ran_ns.get(position, (0, 0))
            lived_ns = end_ns - max(begin_ns, whole_ns)
            if position not in known and lived_ns >= NOTICE_NS:
                detail = (
                    f"no member knows of the snapshot that {standby.holder.name} took at position {position}, "
                    f"although it ran for another {lived_ns // MS} ms"
                )
                who = tuple(member.holder.member_id for member in members)
                raise Broken(Verdict.INVALID, detail, members=who, position=position)
    return count


# --- from a run folder ---


def _informed(evidence: Evidence, holder: Holder) -> Informed:
    noted: list[Noted] = []
    folder = evidence.run.member(holder.member_id)
    for event in folder.traced():
        position = event.fields.get("log_position")
        if event.event == TraceKind.STANDBY_SNAPSHOT and type(position) is int:
            noted.append(Noted(event.line, event.ns, position))
    return Informed(holder, noted)


def _standby(folder: MemberFolder) -> Standby:
    """Make a `Standby`. It ran until the last line of its process or its next snapshot."""
    events = {event.line: event for event in folder.traced()}
    last_ns = {event.fields.get("pid"): event.ns for event in events.values()}
    taken = sorted((event.ns, position, event.line) for position, event in facts_of(folder).snapshots.items())
    ran: dict[int, tuple[int, int]] = {}
    for (ns, position, line), (next_ns, _, _) in pairwise([*taken, (NEVER_NS, -1, -1)]):
        ran[position] = ns, min(last_ns[events[line].fields.get("pid")], next_ns)
    return Standby(holder_of(folder), ran)


def _check(evidence: Evidence) -> Iterable[Result]:
    run, manifest = evidence.run, evidence.manifest
    paths = [path for path in companion_folders(run.path) if path.name.startswith(STANDBY)]
    standbys = [_standby(MemberFolder(path, -1, path.name, at_rest=True)) for path in paths]
    members = [_informed(evidence, holder) for holder in members_of(evidence)]
    orders = ordered_snapshots(evidence.controls, AdminCommand.STANDBY_SNAPSHOT, "standby_position")
    log = evidence.whole_log
    asked = () if log is None else log.events.standby_snapshots
    origin = read_origin(run.path)
    restored = -1 if origin is None else origin.position
    return [judge_notices(members, standbys, orders, asked, 1 + len(manifest.more_services), restored)]


STANDBY_NOTICES: Final = Checker(
    "standby notices", (Promise.STANDBYS_KNOWN,), OF_LOG | {Source.COMPANIONS, Source.ORIGIN, Source.CONTROLS}, _check
)
