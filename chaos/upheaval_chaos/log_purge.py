"""A purge of the log of a member that does not run, and the second look that proves it.

It does to the files what `AeronArchive.purgeSegments` does to those of an archive that runs. The recording begins with
the segment that the latest snapshot is in, and the segment files before it are removed.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval_chaos.errors import UnknownOutcome
from upheaval_chaos.target import Files
from upheaval_node.archive.catalog import (
    DESCRIPTOR_HEADER_LENGTH,
    FILE_NAME,
    CatalogContents,
    RecordingEntry,
    decode_catalog,
)
from upheaval_node.archive.checksums import Checksum, checksum_named
from upheaval_node.archive.segments import parse_segment_file_name
from upheaval_node.errors import NodeError
from upheaval_node.files import layout
from upheaval_node.files.recording_log_entry import Entry, EntryType, read_entries

CATALOG: Final = f"{layout.ARCHIVE_DIRECTORY}/{FILE_NAME}"
_START_POSITION: Final = DESCRIPTOR_HEADER_LENGTH + 40
_CHECKSUM: Final = 8
_CHECKSUMS: Final = ("CRC-32", "CRC-32C")
_PURGED: Final = re.compile(r"member (\d+) (?:is down|was down already); its log begins at position (\d+) instead of")


@dataclass(frozen=True, slots=True)
class Purge:
    """The catalog afterwards, and the files that it refers to no more."""

    catalog: bytes
    gone: Sequence[str]


def purge_of(files: Files, who: str) -> Purge:
    """What to change. Raises `UnknownOutcome` for a log with nothing to purge, or none."""
    names = files.names()
    entries = recording_log_of(names, files)
    recording_id = log_recording(entries)
    segments = segments_of(names, recording_id)
    if recording_id is None or not segments or CATALOG not in names:
        raise UnknownOutcome(f"{who} has no log to purge")
    snapshot = _latest_snapshot(entries)
    if snapshot is None:
        raise UnknownOutcome(f"{who} has no snapshot: its log is needed from the beginning")
    content = files.read(CATALOG)
    entry = _entry_of(_decoded(content, who), recording_id)
    if entry is None:
        raise UnknownOutcome(f"the catalog of {who} does not have its log, recording {recording_id}")
    begin = max((base for base in segments if base <= snapshot), default=-1)
    if begin <= entry.start_position:
        where = f"from position {entry.start_position} on"
        latest = f"its latest snapshot, at {snapshot}"
        raise UnknownOutcome(f"nothing to purge: the log of {who}, {where}, has no segment before that of {latest}")
    return Purge(_starting_at(content, entry, begin, who), [segments[base] for base in segments if base < begin])


def seen_purge(before: bytes, removed: Mapping[str, int], files: Files) -> str:
    """What the files say after it: `before` was the catalog, `removed` are the files that are gone, with their lengths.

    Raises `UnknownOutcome` if that is no purge.
    """
    now, names = files.read(CATALOG), files.names()
    entries = recording_log_of(names, files)
    recording_id, snapshot = log_recording(entries), _latest_snapshot(entries)
    old, new = (_entry_of(_decoded(content, "the member"), recording_id) for content in (before, now))
    if old is None or new is None or snapshot is None:
        raise UnknownOutcome("its files have no log with a snapshot")
    _checksum_of(_descriptor(now, new), new.checksum, "the member")
    if _without_start(before, old) != _without_start(now, new):
        raise UnknownOutcome(f"{CATALOG} differs in more than the start position of recording {recording_id}")
    begin, segments = new.start_position, segments_of(names, recording_id)
    if not old.start_position < begin <= snapshot or min(segments, default=-1) != begin:
        first = min(segments, default=-1)
        raise UnknownOutcome(
            f"its log begins at position {begin} instead of {old.start_position}, "
            f"its first segment at {first}, its snapshot is at {snapshot}"
        )
    others = removed.keys() - {name for base, name in segments_of(removed, recording_id).items() if base < begin}
    if others or not removed:
        raise UnknownOutcome(f"gone: {', '.join(sorted(others)) or 'no file'}")
    return (
        f"its log begins at position {begin} instead of {old.start_position}, its snapshot is at {snapshot}: "
        f"{len(removed)} segments with {sum(removed.values())} bytes are gone"
    )


def purged_to(evidence: str) -> Iterator[tuple[int, int]]:
    """The members of a proved purge, each with the position at which its log begins."""
    for member_id, position in _PURGED.findall(evidence):
        yield int(member_id), int(position)


# --- the log in the files ---


def recording_log_of(names: Sequence[str], files: Files) -> Sequence[Entry]:
    """The entries of the recording log; none if it cannot be read."""
    if layout.RECORDING_LOG not in names:
        return ()
    try:
        return read_entries(files.read(layout.RECORDING_LOG))[0]
    except NodeError:
        return ()


def log_recording(entries: Sequence[Entry]) -> int | None:
    """The id of the log's recording."""
    return next((entry.recording_id for entry in entries if entry.type is EntryType.TERM), None)


def segments_of(names: Sequence[str] | Mapping[str, int], recording_id: int | None) -> Mapping[int, str]:
    """The segment files of a recording by the position at which they begin, the first one first."""
    bases = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        key = parse_segment_file_name(file) if folder == layout.ARCHIVE_DIRECTORY else None
        if key is not None and key[0] == recording_id:
            bases[key[1]] = name
    return dict(sorted(bases.items()))


def _latest_snapshot(entries: Sequence[Entry]) -> int | None:
    """The position of the newest snapshot of module and services that is valid."""
    heads = [head for head in entries if head.is_module_snapshot]
    complete = (head for head in heads if all(entry.is_valid for entry in entries if entry.is_same_set(head)))
    return max((head.log_position for head in complete), default=None)


def _decoded(content: bytes, who: str) -> CatalogContents:
    try:
        return decode_catalog(content)
    except NodeError as error:
        raise UnknownOutcome(f"{who}: {error}") from error


def _entry_of(catalog: CatalogContents, recording_id: int | None) -> RecordingEntry | None:
    return next((entry for entry in catalog.entries if entry.recording_id == recording_id), None)


def _starting_at(content: bytes, entry: RecordingEntry, position: int, who: str) -> bytes:
    """The catalog in which the recording begins at this position, with the checksum that the archive uses."""
    data = bytearray(content)
    checksum = _checksum_of(_descriptor(content, entry), entry.checksum, who)
    struct.pack_into("<q", data, entry.offset + _START_POSITION, position)
    if checksum is not None:
        struct.pack_into("<i", data, entry.offset + _CHECKSUM, checksum(_descriptor(data, entry)))
    return bytes(data)


def _descriptor(catalog: bytes | bytearray, entry: RecordingEntry) -> bytes:
    """What the checksum covers."""
    begin = entry.offset + DESCRIPTOR_HEADER_LENGTH
    return bytes(catalog[begin : begin + entry.length])


def _checksum_of(descriptor: bytes, recorded: int, who: str) -> Checksum | None:
    if recorded == 0:
        return None
    for checksum in map(checksum_named, _CHECKSUMS):
        if checksum is not None and checksum(descriptor) == recorded:
            return checksum
    raise UnknownOutcome(f"the catalog of {who} has a checksum for its log that is not that of its fields")


def _without_start(content: bytes, entry: RecordingEntry) -> bytes:
    data = bytearray(content)
    struct.pack_into("<i", data, entry.offset + _CHECKSUM, 0)
    struct.pack_into("<q", data, entry.offset + _START_POSITION, 0)
    return bytes(data)
