"""The promises about snapshots and about the state of services, from the snapshots that the members recorded.

What a service writes in `on_take_snapshot` is its state at a known position of the log, on every member: the SHA-256 of
these messages is its state hash. Equal logs must give equal hashes, whether a member replayed all of its log or began
with an earlier snapshot. Of shipped services the state is also made again from the log alone. This module knows
recordings and the snapshots' layout (Aeron Cluster: streams 106 and 107); it needs no cluster.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.divergence import first_divergence
from upheaval.checkers.events import LogEvents
from upheaval.checkers.promises import Promise
from upheaval.checkers.recordings import LogMissing, RecordedLog, snapshot_entries
from upheaval.checkers.replay import ExpectedState, LoggedMessage, can_replay, expected_states
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import STANDBY, Manifest, MemberFolder, RunFolder, companion_folders
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm

_MODULE_ID: Final = -1
_REPLAYED_SERVICE: Final = 0
"""The service that a run's manifest names; others of a member are compared between members only."""
_SHOWN_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class ServiceSnapshot:
    """What one member, or one standby, recorded of one service; `owner` says which."""

    owner: str
    member_id: int
    """-1 of a standby."""
    position: int
    service_id: int
    sessions: tuple[int, ...]
    state: tuple[bytes, ...]

    @property
    def hash(self) -> str:
        """The state hash: SHA-256 of the messages of the state."""
        return state_hash(self.state)


@dataclass(frozen=True, slots=True)
class ModuleSnapshot:
    """What one of them recorded of its module. `next_message` is by service: the number after its last one."""

    owner: str
    member_id: int
    position: int
    sessions: tuple[int, ...]
    timers: tuple[tuple[int, int], ...]
    next_message: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """All that the members' recording logs name, and why one of them could not be read."""

    services: tuple[ServiceSnapshot, ...]
    modules: tuple[ModuleSnapshot, ...]
    unreadable: str = ""


def state_hash(state: Sequence[bytes]) -> str:
    """Of the messages that a service wrote, each with its length before it."""
    whole = hashlib.sha256()
    for message in state:
        whole.update(len(message).to_bytes(8, "little") + message)
    return whole.hexdigest()


def check_snapshots(
    run: RunFolder, manifest: Manifest, events: LogEvents, log_member: int, log_end: int
) -> list[Finding]:
    """A finding for each of the two promises; none for a run without snapshots.

    `log_member` is whose log is the witness, up to `log_end`.
    """
    found = read_snapshots(run, manifest)
    if not found.services and not found.modules and not found.unreadable:
        return []
    log = [LoggedMessage(*each) for each in RecordedLog(run.member(log_member)).messages()]
    can_run = can_replay(manifest.service or "")
    expected = {state.position: state for state in expected_states(manifest.service, log)} if can_run else {}
    agree = _states_agree(found, expected, log, manifest.service)
    return [agree, _equal_replay(found, events, expected, log_end)]


# --- reading ---


def read_snapshots(run: RunFolder, manifest: Manifest) -> Snapshots:
    """The snapshots that the recording logs of members and standbys name, with what cannot be read."""
    services: list[ServiceSnapshot] = []
    modules: list[ModuleSnapshot] = []
    unreadable = ""
    for folder in _folders(run, manifest.members):
        for recording_id, position, service_id in snapshot_entries(folder.recording_log):
            try:
                content = [message for _, message in RecordedLog(folder, recording_id).messages()]
                if service_id == _MODULE_ID:
                    modules.append(_module_snapshot(folder, position, content))
                else:
                    services.append(_service_snapshot(folder, position, service_id, content))
            except (LogMissing, DecodeError) as error:
                what = "consensus module" if service_id == _MODULE_ID else f"service {service_id}"
                unreadable = unreadable or f"{folder.name}, {what} at position {position}: {error}"
    return Snapshots(tuple(services), tuple(modules), unreadable)


def _folders(run: RunFolder, members: int) -> list[MemberFolder]:
    """Whoever took snapshots: the members, and the standbys beside them."""
    standbys = [path for path in companion_folders(run.path) if path.name.startswith(STANDBY)]
    return [run.member(each) for each in range(members)] + [MemberFolder(path, -1, path.name) for path in standbys]


def has_snapshots(run: RunFolder, manifest: Manifest) -> bool:
    """Whether a recording log names a snapshot at all."""
    return any(snapshot_entries(folder.recording_log) for folder in _folders(run, manifest.members))


def _service_snapshot(owner: MemberFolder, position: int, service_id: int, content: Sequence[bytes]) -> ServiceSnapshot:
    """Marker, sessions, marker, then whatever the service wrote."""
    sessions: list[int] = []
    marks = 0
    for index, message in enumerate(content):
        decoded = cm.SCHEMA.decode(message)
        marks += isinstance(decoded, cm.SnapshotMarker)
        if isinstance(decoded, cm.ClientSession):
            sessions.append(decoded.cluster_session_id)
        if marks == 2:
            state = tuple(content[index + 1 :])
            open_ones = tuple(sorted(sessions))
            return ServiceSnapshot(owner.name, owner.member_id, position, service_id, open_ones, state)
    raise DecodeError("the snapshot of the service has no end")


def _module_snapshot(owner: MemberFolder, position: int, content: Sequence[bytes]) -> ModuleSnapshot:
    sessions: list[int] = []
    timers: list[tuple[int, int]] = []
    next_message: dict[int, int] = {}
    for message in content:
        decoded = cm.SCHEMA.decode(message)
        match decoded:
            case cm.ClusterSession():
                sessions.append(decoded.cluster_session_id)
            case cm.Timer():
                timers.append((decoded.correlation_id, decoded.deadline))
            case cm.PendingMessageTracker():
                next_message[decoded.service_id] = decoded.next_service_session_id
    open_ones, pending = tuple(sorted(sessions)), tuple(sorted(timers))
    return ModuleSnapshot(owner.name, owner.member_id, position, open_ones, pending, next_message)


# --- judging ---


def _states_agree(
    found: Snapshots, expected: Mapping[int, ExpectedState], log: Sequence[LoggedMessage], service: str
) -> Finding:
    groups: dict[tuple[int, int], list[ServiceSnapshot]] = {}
    for snapshot in found.services:
        groups.setdefault((snapshot.position, snapshot.service_id), []).append(snapshot)
    agreed = -1
    for (position, service_id), group in sorted(groups.items()):
        hashes = {snapshot.hash for snapshot in group}
        if len(hashes) == 1:
            agreed = max(agreed, position)
            continue
        told = ", ".join(f"{each.owner} has {each.hash[:_SHOWN_DIGITS]}" for each in group)
        right = expected.get(position) if service_id == _REPLAYED_SERVICE else None
        wrong = next((each for each in group if right is not None and each.state != right.messages), group[-1])
        where = f"; their last equal state was at position {agreed}" if agreed >= 0 else ""
        if right is not None:
            where = f"; {first_divergence(service, log, expected.get(agreed), right, wrong.state, wrong.owner)}"
        detail = f"service {service_id} at position {position}: {told}{where}"
        return Finding(Promise.STATES_AGREE, Verdict.INVALID, detail, members=_members(group), position=position)
    if found.unreadable:
        return Finding(Promise.STATES_AGREE, Verdict.UNKNOWN, f"a snapshot cannot be read: {found.unreadable}")
    compared = [(where, group) for where, group in sorted(groups.items()) if len(group) > 1]
    if not compared:
        return Finding(Promise.STATES_AGREE, Verdict.VALID, "no position at which two members have a snapshot")
    (position, service_id), group = compared[-1]
    last = f"the last one {group[0].hash[:_SHOWN_DIGITS]} of service {service_id} at position {position}"
    return Finding(Promise.STATES_AGREE, Verdict.VALID, f"{len(compared)} states of {len(group)} members each, {last}")


def _members(owners: Iterable[ServiceSnapshot | ModuleSnapshot]) -> tuple[int, ...]:
    return tuple(each.member_id for each in owners if each.member_id >= 0)


def _equal_replay(found: Snapshots, events: LogEvents, expected: Mapping[int, ExpectedState], log_end: int) -> Finding:
    every: list[ServiceSnapshot | ModuleSnapshot] = [*found.services, *found.modules]
    for position in sorted({each.position for each in every}):
        if position > log_end:
            detail = f"there is a snapshot at position {position}, but the log ends at {log_end}"
            return Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, detail, position=position)
        if position not in events.snapshots:
            detail = f"there is a snapshot at position {position}, where the log asks for none"
            return Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, detail, position=position)
        opened = tuple(sorted(facts.session_id for facts in events.sessions.values() if facts.is_open_at(position)))
        for snapshot in every:
            if snapshot.position == position:
                broken = _difference(snapshot, opened, expected.get(position))
                if broken:
                    who = _members([snapshot])
                    return Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, broken, members=who, position=position)
    if found.unreadable:
        return Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.UNKNOWN, f"a snapshot cannot be read: {found.unreadable}")
    whole = [each for each in found.services if expected and each.service_id == _REPLAYED_SERVICE]
    how = "sessions, timers, messages and states" if whole else "sessions"
    others = len(found.services) - len(whole) if whole else 0
    count = len(found.services) + len(found.modules) - others
    rest = f", of {others} recordings of other services the sessions" if others else ""
    return Finding(
        Promise.SNAPSHOT_IS_REPLAY, Verdict.VALID, f"{how} of {count} recordings are as the log gives them{rest}"
    )


def _difference(
    snapshot: ServiceSnapshot | ModuleSnapshot, opened: tuple[int, ...], expected: ExpectedState | None
) -> str:
    """What the snapshot holds otherwise than the log gives it; empty when nothing."""
    whose = f"service {snapshot.service_id}" if isinstance(snapshot, ServiceSnapshot) else "the consensus module"
    where = f"the snapshot of {whose} of {snapshot.owner} at position {snapshot.position}"
    missing, others = set(opened) - set(snapshot.sessions), set(snapshot.sessions) - set(opened)
    if missing:
        return f"{where} misses session {min(missing)}, which is open there"
    if others:
        return f"{where} has session {min(others)}, which is not open there"
    if expected is None:
        return ""
    if isinstance(snapshot, ServiceSnapshot):
        if snapshot.service_id != _REPLAYED_SERVICE or snapshot.state == expected.messages:
            return ""
        replayed = state_hash(expected.messages)[:_SHOWN_DIGITS]
        return f"{where} has state {snapshot.hash[:_SHOWN_DIGITS]}, the replay {replayed}"
    lost, extra = set(expected.timers) - set(snapshot.timers), set(snapshot.timers) - set(expected.timers)
    if lost:
        return f"{where} misses timer {min(lost)[0]} of deadline {min(lost)[1]}"
    if extra:
        return f"{where} has timer {min(extra)[0]} of deadline {min(extra)[1]}, which the log does not give"
    first = -(1 << 63)
    if snapshot.next_message.get(0, first + 1) != first + 1 + expected.offered:
        number = snapshot.next_message[0] - first
        return f"{where} goes on with message {number} of service 0, the log gives {expected.offered + 1}"
    return ""
