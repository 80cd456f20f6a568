"""The table `verdicts` of a lake: what came of the runs that were judged, each in a partition of its own.

A run that is judged again has its partition replaced. Of a run that was ingested again with other contents the rows do
not count: they name what they were found out of (`of`). Nothing is judged here.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as F

from upheaval.checkers.verdict import Report
from upheaval.errors import UsageError
from upheaval_pipeline.run_tables import table_of_lake
from upheaval_pipeline.verify import Judged

NAME: Final = "verdicts"
ROW: Final = "a promise of a run that `upheaval verify --lake` judged, or why the run cannot be judged"
UNREADABLE: Final = "unreadable"
"""The verdict on a run that cannot be judged."""
OF: Final = "sha2(concat(manifest, aside), 256)"
"""Of a row of `runs`: what its verdict rests on beside its tables, which are written with it."""
_ROWS: Final = "run string, run_verdict string, promise string, verdict string, detail string, late_ms long"
_SCHEMA: Final = f"{_ROWS}, of string"


def write_verdicts(spark: SparkSession, lake: str, judged: Iterable[tuple[str, Judged]]) -> None:
    """Keep what came of runs, by their ids, in one job for all."""
    rows = [row for run, one in judged for row in _rows(run, one)]
    of_runs = table_of_lake(spark, lake, "runs").selectExpr("run", f"{OF} AS of")
    frame = spark.createDataFrame(rows, _ROWS).join(F.broadcast(of_runs), "run").coalesce(1)
    written = frame.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("run")
    written.parquet(f"{lake}/{NAME}")


def verdicts_of_lake(spark: SparkSession, lake: str) -> DataFrame:
    """All that was kept; nothing of a lake of which no run was judged."""
    try:
        return table_of_lake(spark, lake, NAME)
    except UsageError:
        return spark.createDataFrame([], _SCHEMA)


def _rows(run: str, judged: Judged) -> list[tuple[object, ...]]:
    if not isinstance(judged, Report):
        return [(run, UNREADABLE, None, UNREADABLE, str(judged), 0)]
    told = judged.to_fields()
    return [
        (run, told["verdict"], str.__str__(finding.promise), finding.verdict.text, finding.detail, finding.late_ms)
        for finding in judged.findings
    ]
