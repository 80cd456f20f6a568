"""Python Data Sources: `spark.read.format("history" | "faults" | "trace" | "recording" | "protocol").load(RUN)`.

The option `runs` names several run folders, as a JSON list of texts: a name may hold any character. The column `run`
is the run's id, or, with the option `by` = `place`, its place in that list. The option `piece` is the length of the
parts of a history or recording, in bytes.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from upheaval.records import RunFolder
from upheaval_pipeline import run_parts, tables
from upheaval_pipeline.run_parts import READERS, Part, Reader

BY, PLACE = "by", "place"


@dataclass
class Parts(InputPartition):
    """What one task reads."""

    parts: tuple[Part, ...] = ()


class _SourceReader(DataSourceReader):
    """A reader of parts, for Spark."""

    def __init__(self, source: "RunSource") -> None:
        self.folders = source.folders()
        self.reader = source.reader_class(int(source.options["piece"]) if "piece" in source.options else None)
        self.is_by_place = source.options.get(BY) == PLACE

    def partitions(self) -> Sequence[InputPartition]:
        parts = [
            part
            for place, folder in enumerate(self.folders)
            for part in self.reader.parts(folder, str(place) if self.is_by_place else tables.run_id(RunFolder(folder)))
        ]
        shares = [(part,) for part in parts] if parts and self.reader.piece else run_parts.shares(parts)
        return [Parts(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.read(cast(Parts, partition).parts)


class RunSource(DataSource):
    """A table of run folders; a subclass has its reader."""

    reader_class: type[Reader]

    @classmethod
    def name(cls) -> str:
        """The name of the format, which is that of the table."""
        return cls.reader_class.name

    def schema(self) -> str:
        """The columns as Spark's DDL."""
        return self.reader_class.columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads the files, in Spark's tasks; the columns are always all of the source's."""
        del schema
        return _SourceReader(self)

    def folders(self) -> list[Path]:
        """The run folders that the options name."""
        named = self.options.get("runs")
        return [Path(name) for name in ([self.options["path"]] if named is None else json.loads(named))]


class HistorySource(RunSource):
    """The format `history`."""

    reader_class = READERS["history"]


class FaultsSource(RunSource):
    """The format `faults`."""

    reader_class = READERS["faults"]


class TraceSource(RunSource):
    """The format `trace`."""

    reader_class = READERS["trace"]


class ProtocolSource(RunSource):
    """The format `protocol`, which is no table of the lake."""

    reader_class = READERS["protocol"]


class RecordingSource(RunSource):
    """The format `recording`."""

    reader_class = READERS["recording"]


SOURCES: tuple[type[RunSource], ...] = (HistorySource, FaultsSource, TraceSource, RecordingSource)


def register(spark: SparkSession) -> None:
    """Make the sources known to a session."""
    for source in (*SOURCES, ProtocolSource):
        spark.dataSource.register(source)


def load(spark: SparkSession, name: str, folders: Sequence[Path], *, by_place: bool = False) -> Any:
    """A data frame of one source over some run folders."""
    named = spark.read.format(name).options(**_options(folders))
    return (named.option(BY, PLACE) if by_place else named).load()


def _options(folders: Sequence[Path]) -> dict[str, str]:
    return {"runs": json.dumps([str(folder.absolute()) for folder in folders])}
