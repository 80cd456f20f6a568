"""Run folders that grow as those of live clusters do: lines are appended, segments are filled, small files are renamed.

The source is the folder of a finished run; its files are copied in parts, cut at bytes and not at lines or frames.
"""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.records import RunFolder
from upheaval_node.counters import COMMIT_POSITION, METADATA_LENGTH, VALUE_LENGTH, Counters
from upheaval_node.files import layout
from upheaval_node.files.cnc import CncLayout, ready_version

_COUNTERS: Final = 16
_LAYOUT: Final = CncLayout(1024, 1024, _COUNTERS * VALUE_LENGTH, 1024)


def write_counters(folder: Path, commit_position: int) -> None:
    """A `cnc.dat` with the counter of the commit position, as a member's media driver has it."""
    values = memoryview(bytearray(_COUNTERS * VALUE_LENGTH))
    metadata = memoryview(bytearray(_COUNTERS * METADATA_LENGTH))
    Counters(values, metadata).allocate(COMMIT_POSITION, b"", "Cluster commit-pos:").set(commit_position)
    content = bytearray(_LAYOUT.file_length)
    header = _LAYOUT.header(start_timestamp_ms=1, pid=os.getpid())
    content[: len(header)] = header
    content[:4] = ready_version()
    content[_LAYOUT.counters_metadata_offset : _LAYOUT.counters_metadata_offset + len(metadata)] = metadata
    content[_LAYOUT.counters_values_offset : _LAYOUT.counters_values_offset + len(values)] = values
    path = folder / layout.CNC
    path.parent.mkdir(exist_ok=True)
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.rename(path)


class GrowingRun:
    """A copy of a finished run that has as much of it as was put there."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.source = RunFolder(source)
        self.run = RunFolder(folder)
        self._finished = self.source.read_manifest()
        self.run.create(replace(self._finished, converge=None, sealed=None))
        for member in self._members():
            log = RecordedLog(self.source.member(member))
            log.read_to_end()
            target = self.run.member(member)
            for name in ("archive", "cluster"):
                shutil.copytree(self.source.member(member).path / name, target.path / name)
            for segment in target.archive.glob("*.rec"):
                segment.write_bytes(bytes(segment.stat().st_size))

    def _members(self) -> range:
        return range(self._finished.members)

    def log_end(self, member: int) -> int:
        """Where the log of the finished run ends."""
        return RecordedLog(self.source.member(member)).read_to_end()

    def put_log(self, member: int, end: int, committed: int | None = None) -> None:
        """As much of a member's log; `committed` says its counter, which by default is all of it."""
        log = RecordedLog(self.source.member(member))
        for path in self.source.member(member).archive.glob(f"{log.recording_id}-*.rec"):
            base = int(path.stem.partition("-")[2])
            with (self.run.member(member).archive / path.name).open("r+b") as segment:
                segment.write(path.read_bytes()[: max(end - base, 0)])
        write_counters(self.run.member(member).path, end if committed is None else committed)

    def put_history(self, share: float) -> None:
        """As much of the history, in bytes."""
        self._put(self.source.history_file, self.run.history_file, share)

    def put_trace(self, member: int, share: float) -> None:
        """As much of a member's trace, in bytes."""
        self._put(self.source.member(member).trace, self.run.member(member).trace, share)

    def put(self, share: float) -> None:
        """As much of everything."""
        for member in self._members():
            self.put_trace(member, share)
            self.put_log(member, round(self.log_end(member) * share))
        self.put_history(share)

    def end(self) -> None:
        """All of it, and the manifest says that the run has ended."""
        self.put(1)
        self.run.write_manifest(replace(self._finished, sealed=None))

    @staticmethod
    def _put(source: Path, target: Path, share: float) -> None:
        content = source.read_bytes()
        with target.open("ab") as stream:
            stream.write(content[stream.tell() : round(len(content) * share)])


def answers(run: RunFolder) -> int:
    """How many operations of a run were answered."""
    return sum(json.loads(line)["outcome"] == "ok" for line in run.history_file.read_text().splitlines())
