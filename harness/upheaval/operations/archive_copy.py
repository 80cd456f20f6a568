"""Copies the archive of a member that may be running.

A segment that grows is copied from front to back, and its block journal follows the data. So the copied journal is
younger than the copied data: it may call blocks durable that were written after their place had been copied. A start
on such files would report damage. The copy is therefore cut where it stops agreeing with the journal, and has none.
"""

import shutil
from pathlib import Path
from typing import Final

from upheaval_node.archive import block_journal
from upheaval_node.archive.catalog import FILE_NAME, RecordingEntry, decode_catalog
from upheaval_node.archive.segments import parse_segment_file_name
from upheaval_node.errors import DecodeError
from upheaval_node.types import NULL_POSITION

_NOT_COPIED: Final = ("*.dat", "*.lck", "*.new")


def copy_archive(source: Path, target: Path) -> None:
    """Copy an archive's folder without marks and locks. Raises `OSError`.

    The catalog comes first: a stop position in it then holds for the segments, which are copied later.
    """
    target.mkdir(parents=True)
    if (source / FILE_NAME).is_file():
        shutil.copyfile(source / FILE_NAME, target / FILE_NAME)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_NOT_COPIED, FILE_NAME), dirs_exist_ok=True)
    active = {entry.recording_id: entry for entry in _entries(target) if entry.stop_position == NULL_POSITION}
    for path in sorted(target.iterdir()):
        place = parse_segment_file_name(path.name)
        if place is not None and place[0] in active:
            _cut_at_journal(path, active[place[0]].segment_length, base=place[1])


def _entries(archive: Path) -> tuple[RecordingEntry, ...]:
    try:
        return decode_catalog((archive / FILE_NAME).read_bytes()).entries
    except (FileNotFoundError, DecodeError):
        # The member's start has the error for it.
        return ()


def _cut_at_journal(path: Path, segment_length: int, *, base: int) -> None:
    with path.open("r+b") as file:

        def read(position: int, length: int) -> bytes:
            file.seek(position - base)
            return file.read(length)

        records = block_journal.read_records(read(base + segment_length, block_journal.LENGTH))
        if records:
            changed = block_journal.first_changed(records, read)
            file.truncate((records[-1].end if changed is None else changed.start) - base)
        # Also without records: a segment of Aeron's has this length already.
        file.truncate(segment_length)
