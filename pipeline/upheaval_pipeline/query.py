"""SQL over a lake: its tables and views. Nothing is written, and nothing is judged here."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from upheaval.errors import UsageError
from upheaval_pipeline import campaigns
from upheaval_pipeline.ingest import TABLES
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.run_tables import readable, rejects
from upheaval_pipeline.tables import LAKE_SCHEMAS, REJECTS
from upheaval_pipeline.verdicts import NAME as VERDICTS, ROW, verdicts_of_lake
from upheaval_pipeline.views import VIEWS


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave; `is_cut` when there were more rows than wanted."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    is_cut: bool


def ask(spark: SparkSession, lake: Lake, sql: str, limit: int) -> Answer:
    """The first rows of a query. Raises `UsageError` for what is no query, and for a run with a damaged file."""
    return ask_all(spark, lake, [sql], limit)[0]


def ask_all(spark: SparkSession, lake: Lake, queries: Sequence[str], limit: int) -> list[Answer]:
    """The first rows of each query. Raises as `ask` does."""
    open_views(spark, lake)
    # PySpark would print the JVM's stack of a bad query.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    return [_answer(spark, sql, limit) for sql in queries]


def _answer(spark: SparkSession, sql: str, limit: int) -> Answer:
    try:
        # Only a query can stand there: whatever changes something is not read as one.
        frame = spark.sql(f"SELECT * FROM (\n{sql.rstrip().rstrip(';')}\n)")
        taken = frame.take(limit + 1)
    except (ParseException, AnalysisException) as error:
        raise UsageError(f"the query cannot be run: {_first_line(str(error))}") from None
    return Answer(tuple(frame.columns), tuple(tuple(row) for row in taken[:limit]), len(taken) > limit)


def shown(value: object) -> str:
    """A value of a row for people."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def shown_tables(spark: SparkSession, lake: Lake) -> list[tuple[str, str, str]]:
    """Each table and view: its name, what a row of it is, and its columns with their types."""
    open_views(spark, lake)
    rows = {**TABLES, VERDICTS: ROW, campaigns.NAME: campaigns.ROW, **{view.name: view.row for view in VIEWS}}
    return [
        (name, row, ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in spark.table(name).schema))
        for name, row in rows.items()
    ]


def open_views(spark: SparkSession, lake: Lake) -> None:
    """Let queries see the tables of a lake and its views. Raises `UsageError` for a run with a damaged file."""
    runs = lake.runs("runs")
    damaged = next(filter(None, (lake.damage("runs", run) for run in runs)), "")
    if damaged:
        raise UsageError(damaged)
    read = {name: lake.rows(spark, name, schema, runs) for name, schema in LAKE_SCHEMAS.items()}
    read.pop("runs").createOrReplaceTempView("runs")
    read[campaigns.NAME] = campaigns.seeds_of_lake(spark, lake)
    unreadable = [
        (run, "manifest", None, None, e.unreadable) for run in runs if (e := lake.entry("runs", run)) and e.unreadable
    ]
    bad = [spark.createDataFrame(unreadable, REJECTS), *(rejects(rows, name) for name, rows in read.items())]
    reduce(DataFrame.union, bad).createOrReplaceTempView("rejects")
    for name, rows in read.items():
        readable_rows = readable(name, rows)
        (readable_rows if name == "recording" else readable_rows.drop("_reject")).createOrReplaceTempView(name)
    verdicts_of_lake(spark, lake).createOrReplaceTempView(VERDICTS)
    for view in VIEWS:
        spark.sql(view.sql).createOrReplaceTempView(view.name)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].strip()
