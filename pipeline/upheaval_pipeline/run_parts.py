"""Cuts run folders into parts and reads them as record batches: the rows of `history`, `faults`, `trace`, `recording`
and `protocol`.

A history is cut into byte ranges and a recording into ranges of terms or parts of a term, so that one run keeps many
tasks busy; of many small ones, one task reads several. This module knows nothing of Spark.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

from upheaval.errors import HarnessError
from upheaval.records import RunFolder
from upheaval_pipeline import tables
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.pieces import PIECE_MIN, Piece, pieces
from upheaval_pipeline.recorded import missing_log_row, recording_batches
from upheaval_pipeline.tables import Row
from upheaval_pipeline.workers import settle

HISTORY_PIECE = 1 << 20
_TASKS = 32
TASK_MAX = 1 << 24
"""So many bytes of many parts are read by one task, one part after the other."""


@dataclass
class Part:
    """A piece of a recording, a part of a file, or a row that is known already."""

    folder: str = ""
    run: str = ""
    member: int = 0
    begin: int = 0
    end: int | None = None
    file: str = ""
    piece: Piece | None = None
    row: Row | None = None
    size: int = 0


def shares(parts: Sequence[Part], wanted: int | None = None) -> Iterator[tuple[Part, ...]]:
    """Parts that follow each other, in tasks of so many bytes; by default in so many that all cores are busy. A large
    part has its own.
    """
    wanted = wanted or _share_of(parts, _TASKS)
    some: list[Part] = []
    size = 0
    for part in parts:
        if some and size + part.size > wanted:
            yield tuple(some)
            some, size = [], 0
        some.append(part)
        size += part.size
    yield tuple(some)


def _share_of(parts: Iterable[Part], tasks: int) -> int:
    return min(max(sum(part.size for part in parts) // tasks, PIECE_MIN), TASK_MAX)


class Reader:
    """Reads parts as record batches; what differs is how a run is cut into parts and how a part is read.

    `piece` is the length of a part in bytes; without it, the run decides.
    """

    name = ""
    """Of the table."""
    columns = ""
    """As Spark's DDL."""

    def __init__(self, piece: int | None = None) -> None:
        self.piece = piece

    def read(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """The rows of some parts, with the columns of the table."""
        settle()
        schema = arrow_schema(self.columns)
        for part in parts:
            yield from self.batches(part, schema) if part.row is None else tables.batches([part.row], schema)

    @abstractmethod
    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        """How a run is cut up."""

    @abstractmethod
    def batches(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """What a part holds."""


class _RowReader(Reader):
    """Parts that are read line by line."""

    def batches(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return tables.batches(self.rows(part), schema)

    @abstractmethod
    def rows(self, part: Part) -> Iterator[Row]:
        """What a part holds."""


class _HistoryReader(_RowReader):
    """The operations of the clients: one row a line of `history.jsonl`."""

    name = "history"
    columns = tables.HISTORY

    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        path = RunFolder(folder).history_file
        size = path.stat().st_size if path.exists() else 0
        step = self.piece or HISTORY_PIECE
        for begin in range(0, size, step):
            end = min(begin + step, size)
            yield Part(str(folder), run, begin=begin, end=end, size=end - begin)

    def rows(self, part: Part) -> Iterator[Row]:
        return tables.history_rows(Path(part.folder), part.run, part.begin, part.end)


class _FaultsReader(_RowReader):
    """The faults and their evidence: one row a line of `faults.jsonl`."""

    name = "faults"
    columns = tables.FAULTS

    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        path = RunFolder(folder).faults_file
        if path.exists():
            yield Part(str(folder), run, size=path.stat().st_size)

    def rows(self, part: Part) -> Iterator[Row]:
        return tables.fault_rows(Path(part.folder), part.run)


class _TraceReader(Reader):
    """The members' traces: one row an event of their `trace.jsonl`."""

    name = "trace"
    columns = tables.TRACE

    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        for member in members(folder):
            path = RunFolder(folder).member(member).trace
            if path.exists():
                yield Part(str(folder), run, member, size=path.stat().st_size)

    def batches(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        rows = tables.trace_rows(Path(part.folder), part.run, part.member)
        return tables.batches(rows, schema, tables.fitting)


class _ProtocolReader(Reader):
    """The protocol traces. No table of the lake: they are long, and no verdict rests on them."""

    name = "protocol"
    columns = tables.PROTOCOL

    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        for member in members(folder):
            for path in RunFolder(folder).member(member).protocol_files():
                yield Part(str(folder), run, member, file=path.name, size=path.stat().st_size)

    def batches(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        rows = tables.protocol_rows(Path(part.folder), part.run, part.member, part.file)
        return tables.batches(rows, schema, tables.fitting)


class _RecordingReader(Reader):
    """The members' logs: one row a message of their log recordings."""

    name = "recording"
    columns = tables.RECORDING

    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        for member in sorted({*members(folder), *_known_members(folder)}):
            try:
                for piece in pieces(folder, run, member, self.piece):
                    yield Part(str(folder), run, member, piece=piece, size=piece.to_position - piece.from_position)
            except HarnessError as error:
                yield Part(row=missing_log_row(run, member, error))

    def batches(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        assert part.piece is not None
        return recording_batches(part.piece, schema)


READERS: Final[dict[str, type[Reader]]] = {
    reader.name: reader for reader in (_HistoryReader, _FaultsReader, _TraceReader, _RecordingReader, _ProtocolReader)
}
"""By table."""
OF_LAKE: Final = ("history", "faults", "trace", "recording")
"""The tables that a lake has."""


@dataclass(frozen=True)
class Task:
    """What is read in one go for a table."""

    reader: Reader
    parts: tuple[Part, ...]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of the table."""
        return self.reader.read(self.parts)


def tasks(folders: Sequence[Path], count: int) -> list[Task]:
    """What the tables of some run folders are read in, each in the order of the runs: about `count` for all tables, and
    more where one would read more than `TASK_MAX`.
    """
    runs = [(folder.absolute(), tables.run_id(RunFolder(folder))) for folder in folders]
    parts = {
        reader: [part for folder, run in runs for part in reader.parts(folder, run)]
        for reader in (READERS[table]() for table in OF_LAKE)
    }
    wanted = _share_of(chain.from_iterable(parts.values()), count)
    return [Task(reader, share) for reader, some in parts.items() for share in shares(some, wanted)]


def _known_members(folder: Path) -> range:
    """The members in the manifest, so that one whose folder is gone gets a row about its missing log."""
    try:
        return range(RunFolder(folder).read_manifest().members)
    except HarnessError:
        return range(0)


def members(folder: Path) -> list[int]:
    """The members whose folders are in a run folder, whatever its manifest says."""
    names = (path.name.removeprefix("member-") for path in folder.glob("member-*"))
    return sorted(int(name) for name in names if name.isdecimal())
