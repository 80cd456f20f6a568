"""Spark as the engine of queries."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Row, SparkSession

from upheaval.errors import UsageError
from upheaval_pipeline.engine import Answer
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.spark_rows import rows_of


class SparkEngine:
    """A session; implements `Engine`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # PySpark would print the JVM's stack of a bad query.
        logging.getLogger("SQLQueryContextLogger").disabled = True

    def add_table(self, name: str, lake: Lake, table: str, schema: str, runs: Sequence[str]) -> None:
        """The rows of runs in a table of a lake."""
        rows_of(self._spark, lake, table, schema, runs).createOrReplaceTempView(name)

    def add_rows(self, name: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        """A small table."""
        self._spark.createDataFrame(list(rows), schema).createOrReplaceTempView(name)

    def add_view(self, name: str, sql: str) -> None:
        """A query by a name."""
        self._spark.sql(sql).createOrReplaceTempView(name)

    @contextmanager
    def sharing(self, views: Sequence[str]) -> Iterator[None]:
        """Rows of views are kept once a query has computed them, and given back at the end: others use the server."""
        with ExitStack() as stack:
            for view in views:
                self._spark.catalog.cacheTable(view)
                stack.callback(self._spark.catalog.uncacheTable, view)
            yield

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Of a table or view, with Spark's names of their types."""
        return [(field.name, field.dataType.simpleString()) for field in self._spark.table(name).schema]

    def answer(self, sql: str, limit: int) -> Answer:
        """The first rows of a query. Raises `UsageError` for anything that is no query."""
        try:
            # Only a query is valid there: a statement that changes something is not parsed as one.
            frame = self._spark.sql(f"SELECT * FROM (\n{sql.rstrip().rstrip(';')}\n)")
            taken = frame.take(limit + 1)
        except (ParseException, AnalysisException) as error:
            raise UsageError(f"the query cannot be run: {str(error).strip().splitlines()[0].strip()}") from None
        return Answer(tuple(frame.columns), tuple(tuple(map(_plain, row)) for row in taken[:limit]), len(taken) > limit)


def _plain(value: Any) -> Any:
    """A value without Spark's own types in it."""
    if isinstance(value, Row):
        return {name: _plain(inner) for name, inner in value.asDict().items()}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
