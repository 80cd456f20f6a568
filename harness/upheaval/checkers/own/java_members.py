"""Runs a Java service in single-member Aeron clusters and sends each of them the same requests.

For services that the copies of `java_copies` cannot drive. Each cluster starts from a copy of a member's files. One
reads the whole log; one starts from the member's last snapshot. A third one is the control and reads the whole log,
too: if it differs from the first, a difference proves nothing about the snapshot. The cluster time does not advance, so
that equal requests get equal times.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.checkers.evidence.recordings import RecordedLog, snapshot_entries
from upheaval.checkers.own import cuts
from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.checkers.own.java_copies import CannotReplayJava, CopyTrail, JavaService, Plan, effects_by_copy
from upheaval.checkers.own.java_trails import Difference
from upheaval.checkers.states.snapshot_fields import REPLAYED_SERVICE, service_content
from upheaval.checkers.states.state_diff import state_difference
from upheaval.records import MemberFolder, Payloads, copy_sparse, owned_folder

PROGRAM: Final = "upheaval.replay.AskMembers"
ASKED: Final = 60
"""The number of last requests of the log that are sent again."""
BYTES_MAX: Final = 256 << 20
"""The most bytes of a member's files that are copied, for each cluster."""
_TIMEOUT_S: Final = 600.0
_CONTROL: Final = "two replays of the whole log by Aeron itself differ"
_FROM_SNAPSHOT: Final = "a member of Aeron alone that begins with the last snapshot"
_WHOLE: Final = "one that reads the whole log"
_HEAD: Final = struct.Struct(">qBi")
_COUNT: Final = struct.Struct(">i")
_USES: Final = struct.Struct(">?i")


@dataclass(frozen=True, slots=True)
class Asked:
    """The results of a single-member cluster: effects by request, and the messages of its last snapshot."""

    effects: Sequence[Effects]
    state: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class AloneMembers:
    """The input of the clusters: the service, a member's files, and the time of its log."""

    service: JavaService
    member: MemberFolder
    time: int
    """The cluster time of all requests."""
    time_unit: int
    """The value of Aeron's `ClusterTimeUnit`."""

    def difference(self, entries: Sequence[Entry], payloads: Payloads) -> Difference | None:
        """How a member that starts from the last snapshot differs; None if it does not.

        Raises `CannotReplayJava` if that cannot be determined.
        """
        requests = [entry for entry in entries if entry.kind is EntryKind.REQUEST][-ASKED:]
        if not requests:
            raise CannotReplayJava("the log has no request to ask again")
        position = max((snapshot[1] for snapshot in snapshot_entries(self.member.recording_log)), default=None)
        if position is None:
            raise CannotReplayJava(f"{self.member.name} has no snapshot to begin with")
        whole, begun, control = self._asked(requests, (False, True, False))
        unsteady = first_difference(requests, whole, control, payloads)
        if unsteady:
            raise CannotReplayJava(f"{_CONTROL}: one {unsteady}")
        difference = first_difference(requests, whole, begun, payloads)
        if not difference:
            return None
        # The scheduling of threads may cause a difference, so it counts only if it occurs again.
        again, other = self._asked(requests, (True, False))
        if first_difference(requests, whole, other, payloads) or again != begun:
            raise CannotReplayJava(f"{_CONTROL}: {_FROM_SNAPSHOT} once {difference}")
        text = f"{_FROM_SNAPSHOT} {difference}: the snapshot does not hold all of the state"
        # A member took the snapshot.
        return Difference(text, position, is_of_members=True)

    def _asked(self, requests: Sequence[Entry], uses_snapshots: Sequence[bool]) -> list[Asked]:
        """Ask one member after the other. Each has its own copy of the files and may or may not use the snapshots."""
        length = sum(path.stat().st_blocks * 512 for path in _files(self.member))
        if length > BYTES_MAX:
            raise CannotReplayJava(f"the files of {self.member.name} have more than {BYTES_MAX >> 20} MiB")
        with owned_folder("alone") as place:
            folders = [place / str(number) for number in range(len(uses_snapshots))]
            copy_files(self.member, folders[0])
            for folder in folders[1:]:
                copy_files(MemberFolder(folders[0], self.member.member_id), folder)
            trails = self._run(requests, list(zip(folders, uses_snapshots, strict=True)))
            states = [_last_state(MemberFolder(folder, self.member.member_id)) for folder in folders]
        effects = [trail.effects_of(len(requests)) for trail in trails]
        return [Asked(*pair) for pair in zip(effects, states, strict=True)]

    def _run(self, requests: Sequence[Entry], members: Sequence[tuple[Path, bool]]) -> list[CopyTrail]:
        orders = [_HEAD.pack(self.time, self.time_unit, self.member.member_id), _COUNT.pack(len(requests))]
        orders += [_COUNT.pack(len(request.payload)) + request.payload for request in requests]
        orders.append(_COUNT.pack(len(members)))
        for folder, uses_snapshots in members:
            name = str(folder).encode()
            orders += [_USES.pack(uses_snapshots, len(name)), name]
        output = self.service.run(PROGRAM, b"".join(orders), timeout_s=_TIMEOUT_S)
        trails = effects_by_copy(output, [Plan()] * len(members))
        ended = next((trail.ended for trail in trails if trail.ended), "")
        if ended:
            raise CannotReplayJava(f"a member of Aeron alone does not run it: {ended}")
        return trails


def first_difference(requests: Sequence[Entry], whole: Asked, other: Asked, payloads: Payloads) -> str:
    """How `other` first differs, in words that follow its name; empty if it does not."""
    done = cuts.first_difference(whole.effects, other.effects, 0, payloads=payloads)
    if done is not None:
        request = requests[done.index]
        return f"{done.other} where {_WHOLE} {done.whole}, to {request.text} (position {request.position}) asked again"
    if whole.state != other.state:
        difference = state_difference(whole.state, other.state, (_WHOLE, "that one"), payloads)
        return f"writes another snapshot then: {difference}"
    return ""


def copy_files(member: MemberFolder, folder: Path) -> None:
    """Copy the files that a member starts from, without mark and lock files; holes in them stay holes."""
    for path in _files(member):
        target = folder / path.relative_to(member.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_sparse(path, target)


def _files(member: MemberFolder) -> list[Path]:
    return [
        path
        for part in (member.archive, member.cluster)
        for path in sorted(part.rglob("*"))
        if path.is_file() and "-mark" not in path.name and path.suffix != ".lck"
    ]


def _last_state(member: MemberFolder) -> tuple[bytes, ...]:
    """The state in the last snapshot of its first service."""
    of_service = [snapshot for snapshot in snapshot_entries(member.recording_log) if snapshot[2] == REPLAYED_SERVICE]
    recording_id, _, _ = max(of_service, key=lambda snapshot: snapshot[1])
    return tuple(service_content([message for _, message in RecordedLog(member, recording_id).messages()])[1])
