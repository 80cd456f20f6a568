"""Faults of the files of members that do not run: a damaged log, one that begins later, or none at all.

A member that runs is killed first. Healing starts it with what is left: it may refuse that, or take it. Proved by a
second look at all files: their names, lengths and digests, and the pages that differ.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Final

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import (
    COMES_BACK_S,
    TAKES_EFFECT_S,
    Who,
    awaited,
    exactly,
    has_clients,
    require_some_leader,
    roster_of,
)
from upheaval_chaos.log_purge import CATALOG, log_recording, purge_of, recording_log_of, seen_purge, segments_of
from upheaval_chaos.record import Proof
from upheaval_chaos.target import Files, Link, Target
from upheaval_node.errors import NodeError
from upheaval_node.protocol.frames import TYPE_DATA, walk
from upheaval_node.types import FRAME_HEADER_LENGTH

PAGE: Final = 4096
"""The unit, in bytes, in which a disk loses or keeps content."""
_WRONG_LENGTH: Final = 8


class FileFaultKind(StrEnum):
    """The kinds of file faults, by their names in scenarios."""

    DAMAGE = "damage"
    PURGE = "purge"
    WIPE = "wipe"


LOSING: Final = frozenset({FileFaultKind.DAMAGE, FileFaultKind.WIPE})
"""The kinds that take what a member needs; a purge does not."""


class Part(StrEnum):
    """The part of a log that is damaged.

    LAST_PAGE: the last page with content is zeros. HOLE: a page before it is zeros. BYTES: a few bytes of a message are
    inverted.
    """

    LAST_PAGE = "last-page"
    HOLE = "hole"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class FileFault:
    """A fault of members' files. `part` is for damage only."""

    kind: FileFaultKind
    members: Who
    part: Part | None = None

    def __post_init__(self) -> None:
        if has_clients(self.members):
            raise UsageError(f"{self.kind} is done to members: clients are an end of a link")
        if (self.part is None) is (self.kind is FileFaultKind.DAMAGE):
            raise UsageError(f"{self.kind}: expected {'one of ' + ', '.join(Part) if self.part is None else 'no part'}")

    @property
    def statement(self) -> str:
        """The fault and its target in the language of scenarios."""
        return f"{self.kind} {self.members}" + (f" {self.part}" if self.part else "")

    def require_possible(self, members: int) -> None:
        """The cluster must have enough members, whichever one leads."""
        require_some_leader(members, self.members.select)

    def aim(self, target: Target, *, tries: bool = True) -> "FileInjection":  # noqa: ARG002 - there is nothing to try
        """Aim at the members that are selected now, running or not."""
        return FileInjection(target, self, self.members.select(roster_of(target)))


@dataclass(frozen=True, slots=True)
class _Content:
    """A file as it was at one look."""

    length: int
    digest: str
    pages: Sequence[bytes]


class FileInjection:
    """An injected file fault. Implements `Injection`."""

    is_exclusive = False
    component = None
    keeps_down = True
    starts = True
    links: Sequence[Link] = ()

    def __init__(self, target: Target, fault: FileFault, member_ids: Sequence[int]) -> None:
        self._target = target
        self._fault = fault
        self.member_ids = self.victims = member_ids
        self.what = fault.kind.value
        self.where = ", ".join(f"member-{member_id}" for member_id in member_ids)
        self.statement = replace(fault, members=exactly(member_ids)).statement
        self._names = {member_id: target.node(member_id).incarnation() for member_id in member_ids}
        self._before: dict[int, Mapping[str, _Content]] = {}
        self._catalogs: dict[int, bytes] = {}
        self._started: dict[int, frozenset[str]] = {}

    def ends_at_start(self) -> bool:
        """True: a member starts with what is left of its files."""
        return True

    def act(self) -> None:
        """End the members, then change the files of all, or of none. Raises `UnknownOutcome` for a log that is too
        short.
        """
        for member_id in self.member_ids:
            node = self._target.node(member_id)
            if node.incarnation():
                node.kill()
            self._before[member_id] = _look_at(self._target.files(member_id))
        for change in [self._planned(member_id) for member_id in self.member_ids]:
            change()

    def _planned(self, member_id: int) -> Callable[[], None]:
        """The change of a member's files. Raises `UnknownOutcome` if they do not allow it."""
        files, who = self._target.files(member_id), f"member {member_id}"
        if self._fault.part is not None:
            return partial(files.overwrite, *damage_of(self._fault.part, files, who))
        if self._fault.kind is FileFaultKind.WIPE:
            return files.remove_all
        purge = purge_of(files, who)
        self._catalogs[member_id] = files.read(CATALOG)

        def cut() -> None:
            # In this order: no catalog names a file that is gone.
            files.rewrite(CATALOG, purge.catalog)
            files.remove(purge.gone)

        return cut

    def prove(self) -> Proof:
        """Wait until the files of every member show it."""
        return awaited(self._target, self.seen, TAKES_EFFECT_S, f"effect of {self.what} of {self.where}")

    def seen(self) -> Proof | None:
        """The evidence of all members, or the first observation that contradicts the fault."""
        try:
            return Proof(True, "; ".join(self._seen_of(member_id) for member_id in self.member_ids))
        except UnknownOutcome as error:
            return Proof(False, str(error))

    def heal(self) -> None:
        """Start the members with what is left of their files."""
        for member_id in self.member_ids:
            node = self._target.node(member_id)
            node.start()
            # One that refuses its files is gone soon.
            self._started[member_id] = node.incarnation()

    def prove_healed(self) -> Proof:
        """Wait until every member was seen to start."""
        return awaited(self._target, self.seen_healed, COMES_BACK_S, f"start of {self.where}")

    def seen_healed(self) -> Proof | None:
        """A new process of each member, which may have ended again."""
        started = []
        for member_id in self.member_ids:
            names = self._started.get(member_id) or self._target.node(member_id).incarnation()
            fresh = names - self._names[member_id]
            if not fresh:
                return None
            started += sorted(fresh)
        return Proof(True, f"started: {', '.join(started)}")

    def _seen_of(self, member_id: int) -> str:
        survivors = self._names[member_id] & self._target.node(member_id).incarnation()
        if survivors:
            raise UnknownOutcome(f"still there: {', '.join(sorted(survivors))}")
        files = self._target.files(member_id)
        before, now = self._before.get(member_id, {}), _look_at(files)
        who = f"member {member_id} is down" if self._names[member_id] else was_down(member_id)
        if self._fault.kind is FileFaultKind.WIPE:
            if now or not before:
                raise UnknownOutcome(f"{who}, with {len(now)} of {len(before)} files")
            return f"{who}; its {len(before)} files with {sum(file.length for file in before.values())} bytes are gone"
        changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
        if self._fault.kind is FileFaultKind.PURGE:
            gone = {name: before[name].length for name in changed if name not in now}
            if [name for name in changed if name not in gone] != [CATALOG]:
                raise UnknownOutcome(f"{who}; expected another catalog, got {', '.join(changed) or 'no change'}")
            return f"{who}; {seen_purge(self._catalogs[member_id], gone, files)}"
        if len(changed) != 1 or changed[0] not in before or changed[0] not in now:
            raise UnknownOutcome(f"{who}; expected damage in one of its files, got {', '.join(changed) or 'none'}")
        return f"{who}; {_difference(changed[0], before[changed[0]], now[changed[0]])}"


def was_down(member_id: int) -> str:
    """What the proof says of a member that no file fault had to end."""
    return f"member {member_id} was down already"


def _difference(name: str, before: _Content, now: _Content) -> str:
    """Where two looks at one file differ. Raises `UnknownOutcome` for another length."""
    if now.length != before.length:
        raise UnknownOutcome(f"{name} has {now.length} bytes instead of {before.length}")
    pages = [number for number, (one, other) in enumerate(zip(before.pages, now.pages, strict=True)) if one != other]
    digests = f"SHA-256 {before.digest[:12]} before, {now.digest[:12]} now"
    return f"{name} differs from byte {pages[0] * PAGE} on in {len(pages)} of {len(now.pages)} pages ({digests})"


def _look_at(files: Files) -> dict[str, _Content]:
    return {name: _content(files.read(name)) for name in files.names()}


def _content(content: bytes) -> _Content:
    pages = [
        hashlib.blake2b(content[start : start + PAGE], digest_size=8).digest() for start in range(0, len(content), PAGE)
    ]
    return _Content(len(content), hashlib.sha256(content).hexdigest(), pages)


# --- the place of the damage ---


def damage_of(part: Part, files: Files, who: str) -> tuple[str, int, bytes]:
    """File, offset and wrong bytes. Raises `UnknownOutcome` if the log of the member has no such part."""
    name = _segment_of(files)
    content = b"" if name is None else files.read(name)
    frames = _frames(content)
    if name is None or not frames:
        raise UnknownOutcome(f"{who} has no log to damage")
    last = (frames[-1][1] - 1) // PAGE
    match part:
        case Part.LAST_PAGE:
            return name, last * PAGE, bytes(min(PAGE, len(content) - last * PAGE))
        case Part.HOLE:
            if last < 1:
                raise UnknownOutcome(f"the log of {who} has one page: a hole needs another one after it")
            return name, last // 2 * PAGE, bytes(PAGE)
        case Part.BYTES:
            start, end = frames[len(frames) // 2]
            offset = max(start + FRAME_HEADER_LENGTH, end - _WRONG_LENGTH)
            return name, offset, bytes(byte ^ 0xFF for byte in content[offset:end])


def _segment_of(files: Files) -> str | None:
    """The newest file of the member's log; None without any."""
    names = files.names()
    segments = segments_of(names, log_recording(recording_log_of(names, files)))
    return segments[max(segments)] if segments else None


def _frames(content: bytes) -> list[tuple[int, int]]:
    """Where each data frame with a payload begins, and where its payload ends."""
    frames = []
    try:
        for offset, header in walk(content):
            if header.type == TYPE_DATA and header.frame_length > FRAME_HEADER_LENGTH:
                frames.append((offset, offset + header.frame_length))
    except NodeError:
        # A kill may have torn the last frame.
        pass
    return frames
