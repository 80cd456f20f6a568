"""The place of a damage in a log, and the faults of files that make no sense."""

from dataclasses import dataclass
from typing import cast

import pytest

from support.fault_cases import all_kinds, fault_of
from support.held_files import HeldFiles
from unit.chaos.test_log_purge import SNAPSHOT, files_of, snapshot_set
from upheaval.cli.fault_commands import DAMAGED_PARTS
from upheaval.errors import UsageError
from upheaval_chaos.errors import UnknownOutcome
from upheaval_chaos.faults import Members, exactly
from upheaval_chaos.file_faults import PAGE, FileFault, FileFaultKind, FileInjection, Part, damage_of
from upheaval_chaos.target import Target
from upheaval_node.files import layout
from upheaval_node.files.recording_log_entry import Entry, EntryType, encode_entry
from upheaval_node.protocol.frames import TYPE_DATA, DataHeader
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, Position, TermId, align

SEGMENT = 64 * 1024
NEWEST = f"{layout.ARCHIVE_DIRECTORY}/3-{SEGMENT}.rec"


def frame(payload: int) -> bytes:
    length = FRAME_HEADER_LENGTH + payload
    header = DataHeader(length, 0, TYPE_DATA, 0, 1, 1, 1).pack()
    return (header + b"x" * payload).ljust(align(length, FRAME_ALIGNMENT), b"\0")


def log_of(*payloads: int) -> HeldFiles:
    """A log with these messages in its newest file, beside an older file and another recording."""
    term = Entry(3, TermId(0), Position(0), Position(-1), 0, -1, EntryType.TERM, True, 0, 0)
    newest = b"".join(map(frame, payloads)).ljust(SEGMENT, b"\0")
    others = {f"{layout.ARCHIVE_DIRECTORY}/{name}.rec": bytes(SEGMENT) for name in ("3-0", f"7-{SEGMENT * 2}")}
    return HeldFiles({layout.RECORDING_LOG: encode_entry(term), NEWEST: newest, **others})


def test_the_last_page_with_content_is_zeros() -> None:
    assert damage_of(Part.LAST_PAGE, log_of(*[1000] * 9), "x") == (NEWEST, 2 * PAGE, bytes(PAGE))
    assert damage_of(Part.LAST_PAGE, log_of(8), "x") == (NEWEST, 0, bytes(PAGE))


def test_a_hole_has_content_after_it() -> None:
    assert damage_of(Part.HOLE, log_of(*[1000] * 12), "x") == (NEWEST, PAGE, bytes(PAGE))
    with pytest.raises(UnknownOutcome, match=r"^the log of x has one page: a hole needs another one after it$"):
        damage_of(Part.HOLE, log_of(8), "x")


@pytest.mark.parametrize("payload", [3, 8, 1000])
def test_bytes_are_those_at_the_end_of_a_message(payload: int) -> None:
    files = log_of(payload, payload, payload)
    name, offset, wrong = damage_of(Part.BYTES, files, "x")
    begin = len(frame(payload))
    assert begin + FRAME_HEADER_LENGTH <= offset
    assert offset + len(wrong) == begin + FRAME_HEADER_LENGTH + payload
    assert 0 < len(wrong) <= 8
    assert set(wrong) == {ord("x") ^ 0xFF}
    files.overwrite(name, offset, wrong)
    assert len(files.read(name)) == SEGMENT


@pytest.mark.parametrize("files", [HeldFiles(), log_of(), HeldFiles({layout.RECORDING_LOG: b"\xff" * 64})])
def test_a_member_without_a_log_has_none_to_damage(files: HeldFiles) -> None:
    with pytest.raises(UnknownOutcome, match=r"^x has no log to damage$"):
        damage_of(Part.BYTES, files, "x")


def test_a_part_belongs_to_damage_alone() -> None:
    with pytest.raises(UsageError, match=r"^damage: expected one of last-page, hole, bytes$"):
        FileFault(FileFaultKind.DAMAGE, Members(member_id=0))
    with pytest.raises(UsageError, match=r"^wipe: expected no part$"):
        FileFault(FileFaultKind.WIPE, Members(member_id=0), Part.HOLE)
    with pytest.raises(UsageError, match=r"damage is done to members: clients are an end of a link"):
        fault_of("damage clients hole")
    assert list(Part) == list(DAMAGED_PARTS)
    assert set(FileFaultKind) <= all_kinds()


@dataclass
class DownMembers:
    """Members that have ended. The part of `Target` and `Node` that faults of files use."""

    held: dict[int, HeldFiles]

    def node(self, _member_id: int) -> "DownMembers":
        return self

    def incarnation(self) -> frozenset[str]:
        return frozenset()

    def files(self, member_id: int) -> HeldFiles:
        return self.held[member_id]


@pytest.mark.parametrize(
    ("kind", "part", "one", "other", "why"),
    [
        (FileFaultKind.PURGE, None, files_of(*snapshot_set(SNAPSHOT)), files_of(), "member 2 has no snapshot"),
        (FileFaultKind.DAMAGE, Part.HOLE, log_of(*[1000] * 12), log_of(8), "the log of member 2 has one page"),
    ],
    ids=["purge", "damage"],
)
def test_the_files_of_all_members_change_or_of_none(
    kind: FileFaultKind, part: Part | None, one: HeldFiles, other: HeldFiles, why: str
) -> None:
    """A fault without a proof explains no log that begins later."""
    before = {1: dict(one.content), 2: dict(other.content)}
    members = DownMembers({1: one, 2: other})
    injection = FileInjection(cast("Target", members), FileFault(kind, exactly([1, 2]), part), [1, 2])
    with pytest.raises(UnknownOutcome, match=why):
        injection.act()
    assert {member_id: files.content for member_id, files in members.held.items()} == before
