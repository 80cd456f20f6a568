"""Python Data Sources: `spark.read.format("history" | "faults" | "trace" | "recording" | "protocol").load(RUN)`.

The option `runs` names several run folders, as a JSON list of texts: a name may hold any character. The column `run`
is the run's id, or, with the option `by` = `place`, its place in that list. A history is cut into byte ranges and a
recording into ranges of terms or parts of a term (option `piece`, in bytes), so that one run keeps many tasks busy; of
many small ones, one task reads several.
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from upheaval.errors import HarnessError
from upheaval.records import RunFolder
from upheaval_pipeline import tables
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.pieces import PIECE_MIN, Piece, pieces
from upheaval_pipeline.recorded import missing_log_row, recording_batches
from upheaval_pipeline.tables import Row
from upheaval_pipeline.workers import settle

HISTORY_PIECE = 1 << 20
BY, PLACE = "by", "place"
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


@dataclass
class Parts(InputPartition):
    """What one task reads."""

    parts: tuple[Part, ...] = ()


def _together(parts: Sequence[Part]) -> Iterator[Parts]:
    """Parts that follow each other, in about so many tasks as keep all cores busy; a large part has its own."""
    wanted = min(max(sum(part.size for part in parts) // _TASKS, PIECE_MIN), TASK_MAX)
    some: list[Part] = []
    size = 0
    for part in parts:
        if some and size + part.size > wanted:
            yield Parts(tuple(some))
            some, size = [], 0
        some.append(part)
        size += part.size
    yield Parts(tuple(some))


class _Reader(DataSourceReader):
    """Reads parts as record batches; what differs is how a run is cut into parts and how a part is read."""

    def __init__(self, source: "RunSource") -> None:
        self.folders = source.folders()
        self.piece = int(source.options["piece"]) if "piece" in source.options else None
        self.is_by_place = source.options.get(BY) == PLACE
        self.columns = source.columns

    def partitions(self) -> Sequence[InputPartition]:
        parts = [
            part
            for place, folder in enumerate(self.folders)
            for part in self.parts(folder, str(place) if self.is_by_place else tables.run_id(RunFolder(folder)))
        ]
        return [Parts((part,)) for part in parts] if parts and self.piece else list(_together(parts))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        schema = arrow_schema(self.columns)
        for part in cast(Parts, partition).parts:
            yield from self.batches(part, schema) if part.row is None else tables.batches([part.row], schema)

    @abstractmethod
    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        """How a run is cut up."""

    @abstractmethod
    def batches(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """What a part holds."""


class _RowReader(_Reader):
    """Parts that are read line by line."""

    def batches(self, part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return tables.batches(self.rows(part), schema)

    @abstractmethod
    def rows(self, part: Part) -> Iterator[Row]:
        """What a part holds."""


class _HistoryReader(_RowReader):
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
    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        path = RunFolder(folder).faults_file
        if path.exists():
            yield Part(str(folder), run, size=path.stat().st_size)

    def rows(self, part: Part) -> Iterator[Row]:
        return tables.fault_rows(Path(part.folder), part.run)


class _TraceReader(_RowReader):
    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        for member in members(folder):
            path = RunFolder(folder).member(member).trace
            if path.exists():
                yield Part(str(folder), run, member, size=path.stat().st_size)

    def rows(self, part: Part) -> Iterator[Row]:
        return tables.trace_rows(Path(part.folder), part.run, part.member)


class _ProtocolReader(_RowReader):
    def parts(self, folder: Path, run: str) -> Iterator[Part]:
        for member in members(folder):
            for path in RunFolder(folder).member(member).protocol_files():
                yield Part(str(folder), run, member, file=path.name, size=path.stat().st_size)

    def rows(self, part: Part) -> Iterator[Row]:
        return tables.protocol_rows(Path(part.folder), part.run, part.member, part.file)


class _RecordingReader(_Reader):
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


class RunSource(DataSource):
    """What the sources have in common."""

    columns = ""
    reader_class: type[_Reader]

    @classmethod
    def name(cls) -> str:
        """The name of the format: `history` for a `HistorySource`."""
        return cls.__name__.removesuffix("Source").lower()

    def schema(self) -> str:
        """The columns as Spark's DDL."""
        return self.columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the files, in Spark's tasks; the columns are always all of the source's."""
        del schema
        return self.reader_class(self)

    def folders(self) -> list[Path]:
        """The run folders that the options name."""
        named = self.options.get("runs")
        return [Path(name) for name in ([self.options["path"]] if named is None else json.loads(named))]


class HistorySource(RunSource):
    """The operations of the clients: one row a line of `history.jsonl`."""

    columns = tables.HISTORY
    reader_class = _HistoryReader


class FaultsSource(RunSource):
    """The faults and their evidence: one row a line of `faults.jsonl`."""

    columns = tables.FAULTS
    reader_class = _FaultsReader


class TraceSource(RunSource):
    """The members' traces: one row an event of their `trace.jsonl`."""

    columns = tables.TRACE
    reader_class = _TraceReader


class ProtocolSource(RunSource):
    """The protocol traces. No table of the lake: they are long, and no verdict rests on them."""

    columns = tables.PROTOCOL
    reader_class = _ProtocolReader


class RecordingSource(RunSource):
    """The members' logs: one row a message of their log recordings."""

    columns = tables.RECORDING
    reader_class = _RecordingReader


SOURCES: tuple[type[RunSource], ...] = (HistorySource, FaultsSource, TraceSource, RecordingSource)


def register(spark: SparkSession) -> None:
    """Make the sources known to a session."""
    for source in (*SOURCES, ProtocolSource):
        spark.dataSource.register(source)


def load(spark: SparkSession, name: str, folders: Sequence[Path], *, by_place: bool = False) -> Any:
    """A data frame of one source over some run folders."""
    named = spark.read.format(name).options(**_options(folders))
    return (named.option(BY, PLACE) if by_place else named).load()


@dataclass(frozen=True)
class Task:
    """What is read in one piece for a table, apart from Spark's own reading: for who writes it down where he reads."""

    table: str
    reader: DataSourceReader
    partition: InputPartition

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, with the columns of the table."""
        return cast(Iterator[pa.RecordBatch], self.reader.read(self.partition))


def tasks(folders: Sequence[Path]) -> list[Task]:
    """What the tables of some run folders are read in, each in the order of the runs."""
    table_tasks = []
    for source in SOURCES:
        reader = source.reader_class(source(_options(folders)))
        table_tasks += [Task(source.name(), reader, partition) for partition in reader.partitions()]
    return table_tasks


def _options(folders: Sequence[Path]) -> dict[str, str]:
    return {"runs": json.dumps([str(folder.absolute()) for folder in folders])}


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
