"""A copy of an archive that was written to meanwhile: a member starts on it, with what is whole."""

from pathlib import Path
from random import Random

import pytest

from support.memory_storage import MemoryStorage
from unit.archive.test_segments import TERM, frames_between, recording
from upheaval.operations.archive_copy import copy_archive
from upheaval_node.archive.block_journal import LENGTH
from upheaval_node.archive.catalog import Catalog
from upheaval_node.archive.recovery import Recovery, recover
from upheaval_node.archive.segments import SegmentWriter, segment_file_name

NAME = segment_file_name(0, 0)


class Source:
    """An archive whose recording 0 is written at sync level 1, and its files as a copy finds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._storage = MemoryStorage()
        catalog = Catalog(self._storage, "archive", capacity=4096, sync_level=1)
        self.entry = catalog.add(recording())
        catalog.close()
        self.frames = frames_between(0, TERM // 2, Random(7))
        writer = SegmentWriter(self._storage, "archive", self.entry, 0, 1)
        for data, end in self.frames:
            writer.write(data, end)
            writer.sync()
        folder.mkdir()
        for name in self._storage.names("archive"):
            (folder / name).write_bytes(content_of(self._storage, f"archive/{name}"))

    def lose(self, start: int, end: int) -> None:
        """Zeros in place of data that were written after this place had been copied."""
        with (self.folder / NAME).open("r+b") as file:
            file.seek(start)
            file.write(bytes(end - start))

    def started_on(self, folder: Path) -> Recovery:
        """What a member's start finds in a folder."""
        storage = MemoryStorage()
        with_file = storage.open(f"archive/{NAME}", create=True)
        with_file.write(0, [(folder / NAME).read_bytes()])
        return recover(storage, "archive", self.entry, 1)


def content_of(storage: MemoryStorage, path: str) -> bytes:
    file = storage.open(path)
    return file.read(0, file.size())


@pytest.mark.parametrize("lost", ["a block", "all from a block on", "half of a block"])
def test_a_journal_that_is_younger_than_the_data_is_no_damage(tmp_path: Path, lost: str) -> None:
    source = Source(tmp_path / "source")
    assert (source.folder / NAME).stat().st_size == TERM + LENGTH
    start, end = next((end - len(data), end) for data, end in source.frames if len(data) > 1000 and end > TERM // 4)
    source.lose(start + (32 if lost == "half of a block" else 0), TERM if lost.startswith("all") else end)
    copy_archive(source.folder, tmp_path / "copy")
    assert (tmp_path / "copy" / NAME).stat().st_size == TERM
    assert source.started_on(tmp_path / "copy").stop_position == start


def test_a_copy_of_what_did_not_change_has_all_of_it(tmp_path: Path) -> None:
    source = Source(tmp_path / "source")
    copy_archive(source.folder, tmp_path / "copy")
    assert source.started_on(tmp_path / "copy") == Recovery(source.frames[-1][1], None)


def test_marks_and_locks_of_the_other_member_are_not_copied(tmp_path: Path) -> None:
    source = Source(tmp_path / "source")
    for name in ("archive-mark.dat", "archive.lck", "archive.catalog.new"):
        (source.folder / name).write_bytes(b"x")
    copy_archive(source.folder, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {"archive.catalog", NAME}
