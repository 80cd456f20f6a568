"""Rows of a lake as data frames of Spark's."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as F

from upheaval_pipeline.lake import Lake

NO_PATTERNS: Final = {"__globPaths__": "false"}
"""The option of Spark's by which it takes paths as they are: `[`, `{`, `*` and `?` are characters of names."""


def rows_of(spark: SparkSession, lake: Lake, table: str, schema: str, runs: Sequence[str]) -> DataFrame:
    """Those of some of `lake.runs(table)`, whose files must be whole."""
    parts = lake.parts(table, runs)
    if not parts:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(f"{schema}, batch string").options(**NO_PATTERNS, basePath=f"{lake.where}/{table}")
    rows = reader.parquet(*(f"{lake.where}/{part.path}" for part in parts))
    if not all(part.is_whole for part in parts):
        counting = sorted({(part.batch, run) for part in parts for run in part.runs})
        some = F.broadcast(spark.createDataFrame(counting, "batch string, run string"))
        rows = rows.where(F.col("run").isin(*runs)).join(some, ["batch", "run"], "semi")
    return rows.drop("batch")
