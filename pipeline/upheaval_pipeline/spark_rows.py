"""Rows of a lake as data frames of Spark's."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as F

from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_files import BATCH

NO_PATTERNS: Final = {"__globPaths__": "false"}
"""The option of Spark's by which it takes paths as they are: `[`, `{`, `*` and `?` are characters of names."""


def rows_of(spark: SparkSession, lake: Lake, table: str, schema: str, runs: Sequence[str]) -> DataFrame:
    """Those of some of `lake.runs(table)`, whose files must be whole."""
    parts = lake.parts(table, runs)
    if not parts:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(f"{schema}, {BATCH} string").options(**NO_PATTERNS)
    rows = reader.parquet(*(lake.place.for_spark(part.path) for part in parts))
    if not all(part.is_whole for part in parts):
        counting = list(lake.counting(table, runs).items())
        some = F.broadcast(spark.createDataFrame(counting, f"run string, {BATCH} string"))
        rows = rows.where(F.col("run").isin(*runs)).join(some, ["run", BATCH], "semi")
    return rows.drop(BATCH)
