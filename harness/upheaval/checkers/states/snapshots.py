"""The promises about snapshots and service states, judged by the snapshots that members recorded.

What a service writes in `on_take_snapshot` is its state at a known log position; the SHA-256 of these messages is the
state hash. Equal logs must give equal hashes on every member, whether it replayed the whole log or started from an
earlier snapshot. The state of shipped services is also computed again from the log alone. `snapshot_fields` judges the
rest of a snapshot. This module knows recordings; it needs no cluster.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.recordings import LogMissing, RecordedLog, snapshot_entries
from upheaval.checkers.own.explanation import RecordedState, explain
from upheaval.checkers.own.java_service import JavaReplay, no_java
from upheaval.checkers.own.own_replay import OwnReplay, replay_own
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Rule, Signature
from upheaval.checkers.states import snapshot_fields
from upheaval.checkers.states.divergence import first_divergence
from upheaval.checkers.states.java_states import judge_java
from upheaval.checkers.states.own_states import judge_own
from upheaval.checkers.states.replay import ExpectedState, LoggedMessage, can_replay, expected_states, state_hash
from upheaval.checkers.states.snapshot_fields import REPLAYED_SERVICE, Content, Origin, Place
from upheaval.checkers.states.state_diff import state_difference
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict, with_all
from upheaval.records import (
    OWN_SYSTEM,
    STANDBY,
    Manifest,
    MemberFolder,
    Payloads,
    RunFolder,
    companion_folders,
    read_origin,
)
from upheaval_node.errors import DecodeError

_MODULE_ID: Final = -1
_SHOWN_DIGITS: Final = 12
_NO_SNAPSHOT: Final = "no recording log names a snapshot"


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """The snapshot of one service of a member or companion, `owner`. Its state, which may be large, is not kept."""

    owner: str
    member_id: int
    """-1 for a companion."""
    position: int
    service_id: int
    content: Content
    hash: str
    """The state hash: the SHA-256 of the messages of the state."""
    is_empty: bool
    """Whether the service wrote nothing."""
    recording: tuple[MemberFolder, int]
    """The recording of the snapshot: its folder, and its id there."""

    @property
    def state(self) -> tuple[bytes, ...]:
        """The messages of the state. Reads the recording each time."""
        return _read_service(*self.recording)[1]


@dataclass(frozen=True, slots=True)
class ModuleSnapshot:
    """The snapshot of the consensus module of a member or companion, `owner`."""

    owner: str
    member_id: int
    position: int
    content: Content


@dataclass(frozen=True, slots=True)
class Snapshots:
    """All snapshots in the recording logs, and why the first unreadable one could not be read."""

    services: tuple[ServiceSnapshot, ...]
    modules: tuple[ModuleSnapshot, ...]
    unreadable: str = ""


def check_snapshots(
    run: RunFolder, manifest: Manifest, log_member: int, log_end: int, java: Callable[[], JavaReplay] = no_java
) -> list[Result]:
    """Judge both promises. The log of `log_member`, up to `log_end`, is the witness. `java` replays a service in
    Java.
    """
    snapshots = read_snapshots(run, manifest)
    is_java = manifest.system != OWN_SYSTEM and not can_replay(manifest.service or "")
    can_run = can_replay(manifest.service or "")
    own = None if can_run or is_java else _Own(run, manifest, log_member, log_end, snapshots.services)
    if not snapshots.services and not snapshots.modules and not snapshots.unreadable:
        valid = Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.VALID, _NO_SNAPSHOT)
        if is_java:
            replayed_alone = judge_java((), java(), valid)
        elif own is not None and not own.replay.why_not:
            replayed_alone = judge_own((), own.replay, valid, own.explained)
        else:
            replayed_alone = NotApplicable(Promise.SNAPSHOT_IS_REPLAY, _NO_SNAPSHOT)
        return [NotApplicable(Promise.STATES_AGREE, _NO_SNAPSHOT), replayed_alone]
    recorded = RecordedLog(run.member(log_member))
    log = [LoggedMessage(*message, recorded.term_length) for message in recorded.messages()]
    expected = {state.position: state for state in expected_states(manifest.service, log)} if can_run else {}
    agree = _states_agree(snapshots, expected, log, manifest.service, own, Payloads.of(run))
    asked = {place.position: place for place in snapshot_fields.places(log)}
    is_copied = read_origin(run.path) is not None or len(_folders(run, manifest.members)) > manifest.members
    replayed = _equal_replay(snapshots, _Given(asked, expected, log_end, is_copied))
    if is_java and replayed.verdict is Verdict.VALID:
        return [agree, judge_java(snapshots.services, java(), replayed)]
    if own is not None and replayed.verdict is Verdict.VALID:
        is_explained = isinstance(agree, Finding) and agree.explanation is not None
        explained = None if is_explained else own.explained
        return [agree, judge_own(snapshots.services, own.replay, replayed, explained)]
    return [agree, replayed]


@dataclass
class _Own:
    """A user's service. Its code runs only when a result is needed."""

    run: RunFolder
    manifest: Manifest
    log_member: int
    log_end: int
    services: tuple[ServiceSnapshot, ...]

    @cached_property
    def replay(self) -> OwnReplay:
        """The replay of the whole log."""
        states = [service for service in self.services if service.service_id == REPLAYED_SERVICE]
        return replay_own(self.run, self.manifest, self.log_member, self.log_end, states)

    def explained(self, finding: Finding, *, of_requests: bool = False) -> Finding:
        """The finding with the reason why states differ at its position, or what replays offer and schedule."""
        assert finding.position is not None
        if of_requests:
            return replace(finding, explanation=explain(self.replay, finding.position, compares_requests=True))
        states = [service for service in self.services if service.service_id == REPLAYED_SERVICE]
        recorded = [
            RecordedState(state.owner, state.member_id, self.replay.form(state.hash), state.state)
            for state in states
            if state.position == finding.position
        ]
        snapshots = {state.position for state in states}
        return replace(finding, explanation=explain(self.replay, finding.position, recorded, snapshots))


# --- reading ---


def read_snapshots(run: RunFolder, manifest: Manifest) -> Snapshots:
    """Read the snapshots that the recording logs of members and standbys name, and backups' copies of others."""
    services: list[ServiceSnapshot] = []
    modules: list[ModuleSnapshot] = []
    unreadable = ""
    for folder, recording_id, position, service_id in _named(run, manifest):
        try:
            if service_id == _MODULE_ID:
                content = snapshot_fields.module_content(_recorded(folder, recording_id))
                modules.append(ModuleSnapshot(folder.name, folder.member_id, position, content))
            else:
                services.append(_service_snapshot(folder, recording_id, position, service_id))
        except (LogMissing, DecodeError) as error:
            what = "consensus module" if service_id == _MODULE_ID else f"service {service_id}"
            unreadable = unreadable or f"{folder.name}, {what} at position {position}: {error}"
    return Snapshots(tuple(services), tuple(modules), unreadable)


def _named(run: RunFolder, manifest: Manifest) -> Iterator[tuple[MemberFolder, int, int, int]]:
    """Yield the node, recording id, position and service of each snapshot.

    Another promise compares a backup's copy with the original. One without an original has to be as the log gives it,
    unless a power cut at sync level 0 may have changed the log.
    """
    takers = _folders(run, manifest.members)
    taken: set[tuple[int, int]] = set()
    for folder in takers:
        for recording_id, position, service_id in snapshot_entries(folder.recording_log):
            taken.add((position, service_id))
            yield folder, recording_id, position, service_id
    if losses_of(run, manifest).powerless:
        return
    for name in sorted({path.name for path in companion_folders(run.path)} - {folder.name for folder in takers}):
        folder = MemberFolder(run.path / name, -1, name)
        for recording_id, position, service_id in snapshot_entries(folder.recording_log):
            if (position, service_id) not in taken:
                yield folder, recording_id, position, service_id


def _service_snapshot(folder: MemberFolder, recording_id: int, position: int, service_id: int) -> ServiceSnapshot:
    content, state = _read_service(folder, recording_id)
    return ServiceSnapshot(
        folder.name,
        folder.member_id,
        position,
        service_id,
        content,
        state_hash(state),
        not state,
        (folder, recording_id),
    )


def _read_service(folder: MemberFolder, recording_id: int) -> tuple[Content, tuple[bytes, ...]]:
    content, state = snapshot_fields.service_content(_recorded(folder, recording_id))
    return content, tuple(state)


def _recorded(folder: MemberFolder, recording_id: int) -> list[bytes]:
    return [message for _, message in RecordedLog(folder, recording_id).messages()]


def _folders(run: RunFolder, members: int) -> list[MemberFolder]:
    """The folders of members and standbys, which take snapshots."""
    standbys = [path for path in companion_folders(run.path) if path.name.startswith(STANDBY)]
    return [run.member(member) for member in range(members)] + [MemberFolder(path, -1, path.name) for path in standbys]


# --- judging ---


def _states_agree(
    snapshots: Snapshots,
    expected: Mapping[int, ExpectedState],
    log: Sequence[LoggedMessage],
    service: str,
    own: _Own | None,
    payloads: Payloads,
) -> Result:
    groups: dict[tuple[int, int], list[ServiceSnapshot]] = {}
    for snapshot in snapshots.services:
        groups.setdefault((snapshot.position, snapshot.service_id), []).append(snapshot)
    agreed = -1
    for (position, service_id), group in sorted(groups.items()):
        hashes = {snapshot.hash for snapshot in group}
        is_own = own is not None and service_id == REPLAYED_SERVICE
        if len(hashes) == 1 or (is_own and own is not None and len(set(map(own.replay.form, hashes))) == 1):
            agreed = max(agreed, position)
            continue
        shown = ", ".join(f"{snapshot.owner} has {snapshot.hash[:_SHOWN_DIGITS]}" for snapshot in group)
        right = expected.get(position) if service_id == REPLAYED_SERVICE else None
        right_hash = "" if right is None else state_hash(right.messages)
        wrong = next((snapshot for snapshot in group if right is not None and snapshot.hash != right_hash), group[-1])
        where = f"; their last equal state was at position {agreed}" if agreed >= 0 else ""
        where += f"; {_compared(group, payloads)}"
        if right is not None:
            where = f"; {first_divergence(service, log, expected.get(agreed), right, wrong.state, wrong.owner)}"
        detail = f"service {service_id} at position {position}: {shown}{where}"
        broken = Finding(Promise.STATES_AGREE, Verdict.INVALID, detail, members=_members(group), position=position)
        return own.explained(broken) if is_own and own is not None else broken
    differ = _modules_differ(snapshots.modules)
    if differ is not None:
        return differ
    if snapshots.unreadable:
        return Finding(Promise.STATES_AGREE, Verdict.UNKNOWN, f"a snapshot cannot be read: {snapshots.unreadable}")
    compared = [(where, group) for where, group in sorted(groups.items()) if len(group) > 1]
    if not compared:
        return NotApplicable(Promise.STATES_AGREE, "no position at which two members have a snapshot")
    if all(snapshot.is_empty for snapshot in snapshots.services):
        why = "no service wrote anything into a snapshot: there is no state to compare"
        return NotApplicable(Promise.STATES_AGREE, why)
    (position, service_id), group = compared[-1]
    last = f"the last one {group[0].hash[:_SHOWN_DIGITS]} of service {service_id} at position {position}"
    return Finding(Promise.STATES_AGREE, Verdict.VALID, f"{len(compared)} states of {len(group)} members each, {last}")


def _modules_differ(modules: Iterable[ModuleSnapshot]) -> Finding | None:
    """The finding on the first position at which the modules of two owners differ; None if none do."""
    first: dict[int, ModuleSnapshot] = {}
    for module in sorted(modules, key=lambda module: module.position):
        other = first.setdefault(module.position, module)
        broken = snapshot_fields.members_difference(module.content, other.content, other.owner)
        if broken:
            members = _members([other, module])
            what = f"{_where(module)} {broken}"
            entry = snapshot_fields.differing_field(module.content, other.content)
            return Finding(
                Promise.STATES_AGREE,
                Verdict.INVALID,
                what,
                members=members,
                position=module.position,
                signature=Signature(Rule.MODULES_DIFFER, entry=entry),
            )
    return None


def _compared(group: Sequence[ServiceSnapshot], payloads: Payloads) -> str:
    """Compare a snapshot of the majority with the first one that differs."""
    counts = Counter(snapshot.hash for snapshot in group)
    usual = max(group, key=lambda snapshot: counts[snapshot.hash])
    other = next(snapshot for snapshot in group if snapshot.hash != usual.hash)
    return state_difference(usual.state, other.state, (usual.owner, other.owner), payloads)


def _members(owners: Iterable[ServiceSnapshot | ModuleSnapshot]) -> tuple[int, ...]:
    return tuple(owner.member_id for owner in owners if owner.member_id >= 0)


@dataclass(frozen=True, slots=True)
class _Given:
    """What the log gives: the places where it asks for snapshots, the replayed states there, and its end.

    `is_copied`: members may have started from snapshots of others.
    """

    asked: Mapping[int, Place]
    expected: Mapping[int, ExpectedState]
    log_end: int
    is_copied: bool


def _equal_replay(snapshots: Snapshots, given: _Given) -> Finding:
    every: list[ServiceSnapshot | ModuleSnapshot] = [*snapshots.services, *snapshots.modules]
    for position in sorted({snapshot.position for snapshot in every}):
        broken = list(_broken_at(position, [snapshot for snapshot in every if snapshot.position == position], given))
        if broken:
            # Whatever differs later may follow from this.
            return with_all(broken)
    if snapshots.unreadable:
        return Finding(
            Promise.SNAPSHOT_IS_REPLAY, Verdict.UNKNOWN, f"a snapshot cannot be read: {snapshots.unreadable}"
        )
    whole = [service for service in snapshots.services if given.expected and service.service_id == REPLAYED_SERVICE]
    how = "sessions, terms, timers, messages and states" if whole else "sessions and terms"
    others = len(snapshots.services) - len(whole) if whole else 0
    count = len(snapshots.services) + len(snapshots.modules) - others
    rest = f", of {others} recordings of other services the sessions" if others else ""
    return Finding(
        Promise.SNAPSHOT_IS_REPLAY, Verdict.VALID, f"{how} of {count} recordings are as the log gives them{rest}"
    )


def _broken_at(position: int, group: Sequence[ServiceSnapshot | ModuleSnapshot], given: _Given) -> Iterator[Finding]:
    """The violations at one position: the first of each snapshot."""
    unasked = ""
    if position > given.log_end:
        unasked = f"there is a snapshot at position {position}, but the log ends at {given.log_end}"
    elif position not in given.asked:
        unasked = f"there is a snapshot at position {position}, where the log asks for none"
    if unasked:
        yield Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, unasked, position=position)
        return
    for snapshot in group:
        of_owner = [other for other in group if other.owner == snapshot.owner]
        broken = _difference(snapshot, of_owner, given)
        if broken:
            what, who = f"{_where(snapshot)} {broken}", _members([snapshot])
            finding = Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, what, members=who, position=position)
            yield _with_signature(finding, snapshot, of_owner, given)


def _with_signature(
    finding: Finding,
    snapshot: ServiceSnapshot | ModuleSnapshot,
    group: Sequence[ServiceSnapshot | ModuleSnapshot],
    given: _Given,
) -> Finding:
    place, expected = given.asked[snapshot.position], given.expected.get(snapshot.position)
    if isinstance(snapshot, ModuleSnapshot):
        entry = snapshot_fields.field_not_of_log(snapshot.content, place, expected, _origin(snapshot, group, given))
        return replace(finding, signature=Signature(Rule.MODULE_NOT_OF_LOG, entry=entry))
    missing = snapshot_fields.missing_sessions(snapshot.content, place)
    if not missing:
        return finding
    opened = min(position for position, event in place.sessions if event.cluster_session_id in missing)
    return replace(finding, signature=Signature(Rule.SESSION_UNKNOWN, entry="ClientSession"), since=opened)


def _origin(snapshot: ModuleSnapshot, group: Sequence[ServiceSnapshot | ModuleSnapshot], given: _Given) -> Origin:
    services = [other.service_id for other in group if isinstance(other, ServiceSnapshot)]
    is_copied = given.is_copied or snapshot.member_id < 0
    return Origin(snapshot.member_id, is_copied, 1 + max(services, default=-1))


def _where(snapshot: ServiceSnapshot | ModuleSnapshot) -> str:
    whose = f"service {snapshot.service_id}" if isinstance(snapshot, ServiceSnapshot) else "the consensus module"
    return f"the snapshot of {whose} of {snapshot.owner} at position {snapshot.position}"


def _difference(
    snapshot: ServiceSnapshot | ModuleSnapshot, group: Sequence[ServiceSnapshot | ModuleSnapshot], given: _Given
) -> str:
    """How a snapshot differs from the log; empty if it does not. `group` holds all snapshots of its owner at that
    position.
    """
    place, expected = given.asked[snapshot.position], given.expected.get(snapshot.position)
    if isinstance(snapshot, ModuleSnapshot):
        origin = _origin(snapshot, group, given)
        broken = snapshot_fields.module_difference(snapshot.content, place, expected, origin)
    else:
        broken = snapshot_fields.service_difference(snapshot.content, place)
    if broken:
        return broken
    version, first = snapshot_fields.app_version(snapshot.content), snapshot_fields.app_version(group[0].content)
    if version != first:
        return f"is of app version {version}, others of the same place of {first}"
    if expected is None or isinstance(snapshot, ModuleSnapshot) or snapshot.service_id != REPLAYED_SERVICE:
        return ""
    replayed = state_hash(expected.messages)
    if snapshot.hash == replayed:
        return ""
    return f"has state {snapshot.hash[:_SHOWN_DIGITS]}, the replay {replayed[:_SHOWN_DIGITS]}"


SNAPSHOTS: Final = by_log(
    "snapshots",
    (Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY),
    lambda evidence, log: check_snapshots(
        evidence.run, evidence.manifest, log.member_id, log.end_position, evidence.java_replay
    ),
    {Source.ORIGIN, Source.CODE, Source.CONFIGURATIONS, Source.COMPANIONS},
)
