"""A purge of a log in the files of a member that is down: what goes, what stays, and what proves it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from support.archive_world import ArchiveWorld
from support.held_files import HeldFiles
from support.media_world import offer
from upheaval_chaos.errors import UnknownOutcome
from upheaval_chaos.log_purge import CATALOG, purge_of, purged_to, seen_purge
from upheaval_node.archive.catalog import RecordingEntry, decode_catalog, encode_header
from upheaval_node.archive.checksums import checksum_named
from upheaval_node.files import layout
from upheaval_node.files.recording_log_entry import Entry, EntryType, encode_entry
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.settings import KIB, ArchiveSettings
from upheaval_node.types import Position, TermId

SEGMENT: Final = 64 * KIB
LOG, OTHER = 3, 30
Change = Callable[[HeldFiles, HeldFiles], HeldFiles]
SNAPSHOT = 2 * SEGMENT + 4096


def entry_of(recording_id: int, start: int = 0) -> RecordingEntry:
    where = "aeron:ipc", "aeron:ipc?term-length=64k", "of the log"
    return RecordingEntry(recording_id, 1, -1, start, -1, 7, SEGMENT, SEGMENT, 1408, 9, 100, *where)


def snapshot_set(position: int, *, is_valid: bool = True, service_is_valid: bool = True) -> list[Entry]:
    service = Entry(8, TermId(0), Position(0), Position(position), 5, 0, EntryType.SNAPSHOT, is_valid, 0, 0)
    module = replace(service, recording_id=9, service_id=-1)
    return [replace(service, is_valid=is_valid and service_is_valid), module]


def files_of(*snapshots: Entry, start: int = 0, checksum: str = "") -> HeldFiles:
    """A member with a log of four segments beside another recording."""
    term = Entry(LOG, TermId(0), Position(0), Position(-1), 0, -1, EntryType.TERM, True, 0, 0)
    entries = [entry_of(LOG, start).encode(checksum=checksum_named(checksum)), entry_of(OTHER).encode()]
    bases = [(LOG, base) for base in range(start, 4 * SEGMENT, SEGMENT)] + [(OTHER, 0)]
    return HeldFiles(
        {
            layout.RECORDING_LOG: b"".join(map(encode_entry, (term, *snapshots))),
            CATALOG: b"".join((encode_header(OTHER + 1), *entries)).ljust(4 * KIB, b"\0"),
            **{f"{layout.ARCHIVE_DIRECTORY}/{number}-{base}.rec": bytes(SEGMENT) for number, base in bases},
        }
    )


def segment(number: int, recording_id: int = LOG) -> str:
    return f"{layout.ARCHIVE_DIRECTORY}/{recording_id}-{number * SEGMENT}.rec"


def purged(files: HeldFiles) -> HeldFiles:
    """The files after a purge."""
    purge = purge_of(files, "x")
    after = HeldFiles(dict(files.content))
    after.rewrite(CATALOG, purge.catalog)
    after.remove(purge.gone)
    return after


def evidence(before: HeldFiles, after: HeldFiles) -> str:
    gone = {name: len(before.read(name)) for name in before.names() if name not in after.names()}
    return seen_purge(before.read(CATALOG), gone, after)


@pytest.mark.parametrize(
    ("snapshots", "latest", "first"),
    [
        (snapshot_set(SNAPSHOT), SNAPSHOT, 2),
        (snapshot_set(2 * SEGMENT), 2 * SEGMENT, 2),
        (snapshot_set(2 * SEGMENT - 32), 2 * SEGMENT - 32, 1),
        (snapshot_set(SEGMENT) + snapshot_set(SNAPSHOT), SNAPSHOT, 2),
        (snapshot_set(SEGMENT) + snapshot_set(SNAPSHOT, is_valid=False), SEGMENT, 1),
        (snapshot_set(SEGMENT) + snapshot_set(SNAPSHOT, service_is_valid=False), SEGMENT, 1),
        # The log ends with a whole segment, and nothing was recorded after it.
        (snapshot_set(4 * SEGMENT), 4 * SEGMENT, 3),
    ],
)
def test_the_log_begins_with_the_segment_of_its_latest_snapshot(
    snapshots: list[Entry], latest: int, first: int
) -> None:
    before = files_of(*snapshots)
    after = purged(before)
    assert set(before.names()) - set(after.names()) == {segment(number) for number in range(first)}
    log, other = decode_catalog(after.read(CATALOG)).entries
    assert (log.start_position, other.start_position) == (first * SEGMENT, 0)
    same = [name for name in after.names() if name != CATALOG]
    assert all(after.read(name) == before.read(name) for name in same)
    assert evidence(before, after) == (
        f"its log begins at position {first * SEGMENT} instead of 0, its snapshot is at {latest}: "
        f"{first} segments with {first * SEGMENT} bytes are gone"
    )


def test_the_catalog_is_that_of_an_archive_that_purged_the_segments_itself() -> None:
    world = ArchiveWorld()
    member = world.member(settings=ArchiveSettings(segment_length=SEGMENT, catalog_capacity=4 * KIB))
    publication = member.driver.add_publication("aeron:ipc?term-length=64k|init-term-id=0|term-id=0|term-offset=0", 100)
    world.call(member.client.start_recording("aeron:ipc", 100, auto_stop=True))
    for _ in range(200):
        offer(world, publication, bytes(992))
    world.settle()
    publication.close()
    world.until(lambda: any(each.signal == RecordingSignal.STOP for each in member.client.signals))
    names = [f"archive/{name}" for name in member.storage.names("archive")]
    contents = {name: member.storage.content(name) for name in names}
    log = replace(snapshot_set(SNAPSHOT)[1], recording_id=0, type=EntryType.TERM)
    recording_log = b"".join(map(encode_entry, (log, *snapshot_set(SNAPSHOT))))
    after = purged(HeldFiles({**contents, layout.RECORDING_LOG: recording_log}))
    assert world.call(member.client.purge_segments(0, 2 * SEGMENT)) == 2
    world.settle()
    left = [f"archive/{name}" for name in member.storage.names("archive")]
    assert [name for name in after.names() if name.startswith("archive/")] == sorted(left)
    assert after.read(CATALOG) == member.storage.content(CATALOG)


@pytest.mark.parametrize("name", ["CRC-32", "CRC-32C"])
def test_a_checksum_of_the_descriptor_is_renewed(name: str) -> None:
    before = files_of(*snapshot_set(SNAPSHOT), checksum=name)
    after = purged(before)
    assert evidence(before, after)
    log, _ = decode_catalog(after.read(CATALOG)).entries
    expected = entry_of(LOG, 2 * SEGMENT)
    expected.encode(checksum=checksum_named(name))
    assert log.checksum == expected.checksum != decode_catalog(before.read(CATALOG)).entries[0].checksum


def test_a_log_is_purged_again_after_a_later_snapshot() -> None:
    once = purged(files_of(*snapshot_set(SEGMENT)))
    later = HeldFiles(
        once.content | {layout.RECORDING_LOG: files_of(*snapshot_set(SNAPSHOT)).read(layout.RECORDING_LOG)}
    )
    assert evidence(later, purged(later)).startswith(f"its log begins at position {2 * SEGMENT} instead of {SEGMENT}")


def without_the_log() -> HeldFiles:
    files = files_of(*snapshot_set(SNAPSHOT))
    return HeldFiles(files.content | {CATALOG: encode_header(31) + entry_of(OTHER).encode()})


def with_a_wrong_checksum() -> HeldFiles:
    files = files_of(*snapshot_set(SNAPSHOT), checksum="CRC-32")
    catalog = bytearray(files.read(CATALOG))
    catalog[40] ^= 1
    return HeldFiles(files.content | {CATALOG: bytes(catalog)})


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (HeldFiles(), "x has no log to purge"),
        (HeldFiles({layout.RECORDING_LOG: b"\xff" * 64}), "x has no log to purge"),
        (files_of(), "x has no snapshot: its log is needed from the beginning"),
        (
            files_of(*snapshot_set(SNAPSHOT, is_valid=False)[:1]),
            "x has no snapshot: its log is needed from the beginning",
        ),
        (
            files_of(*snapshot_set(SEGMENT - 32)),
            "nothing to purge: the log of x, from position 0 on, has no segment before that of its latest "
            "snapshot, at 65504",
        ),
        (
            files_of(*snapshot_set(SNAPSHOT), start=2 * SEGMENT),
            "nothing to purge: the log of x, from position 131072 on, has no segment before that of its latest "
            "snapshot, at 135168",
        ),
        (without_the_log(), "the catalog of x does not have its log, recording 3"),
        (with_a_wrong_checksum(), "the catalog of x has a checksum for its log that is not that of its fields"),
    ],
)
def test_what_cannot_be_purged_is_one_line_and_left_as_it_is(files: HeldFiles, why: str) -> None:
    content = dict(files.content)
    with pytest.raises(UnknownOutcome) as refused:
        purge_of(files, "x")
    assert str(refused.value) == why
    assert files.content == content


# --- no proof ---


def nothing_was_done(before: HeldFiles, _after: HeldFiles) -> HeldFiles:
    return before


def a_segment_is_left(before: HeldFiles, after: HeldFiles) -> HeldFiles:
    return HeldFiles(after.content | {segment(1): before.read(segment(1))})


def the_segment_of_the_snapshot_is_gone(_before: HeldFiles, after: HeldFiles) -> HeldFiles:
    after.remove([segment(2)])
    return after


def another_recording_is_gone(_before: HeldFiles, after: HeldFiles) -> HeldFiles:
    after.remove([segment(0, OTHER)])
    return after


def the_other_recording_begins_later(_before: HeldFiles, after: HeldFiles) -> HeldFiles:
    catalog = bytearray(after.read(CATALOG))
    at = decode_catalog(bytes(catalog)).entries[1].offset + 32 + 40
    catalog[at : at + 8] = SEGMENT.to_bytes(8, "little")
    after.rewrite(CATALOG, bytes(catalog))
    return after


def the_snapshot_is_before_it(_before: HeldFiles, after: HeldFiles) -> HeldFiles:
    log = files_of(*snapshot_set(SEGMENT)).read(layout.RECORDING_LOG)
    return HeldFiles(after.content | {layout.RECORDING_LOG: log})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            nothing_was_done,
            "its log begins at position 0 instead of 0, its first segment at 0, its snapshot is at 135168",
        ),
        (
            a_segment_is_left,
            "its log begins at position 131072 instead of 0, its first segment at 65536, its snapshot is at 135168",
        ),
        (
            the_segment_of_the_snapshot_is_gone,
            "its log begins at position 131072 instead of 0, its first segment at 196608, its snapshot is at 135168",
        ),
        (another_recording_is_gone, "gone: archive/30-0.rec"),
        (
            the_other_recording_begins_later,
            "archive/archive.catalog differs in more than the start position of recording 3",
        ),
        (
            the_snapshot_is_before_it,
            "its log begins at position 131072 instead of 0, its first segment at 131072, its snapshot is at 65536",
        ),
    ],
)
def test_what_is_no_purge_proves_none(change: Change, why: str) -> None:
    before = files_of(*snapshot_set(SNAPSHOT))
    after = change(before, purged(before))
    with pytest.raises(UnknownOutcome) as refused:
        evidence(before, after)
    assert str(refused.value) == why


def test_the_evidence_names_where_each_log_begins() -> None:
    seen = evidence(before := files_of(*snapshot_set(SNAPSHOT)), purged(before))
    assert dict(purged_to(f"member 0 is down; {seen}; member 12 was down already; {seen}")) == {
        0: 2 * SEGMENT,
        12: 2 * SEGMENT,
    }
    assert dict(purged_to("member 0 is down; its 9 files with 3 bytes are gone")) == {}
