"""The table `verdicts` of a lake: what came of the runs that were judged.

Of a run that is judged again the last verdict counts, and of one that was ingested again with other contents none.
Nothing is judged here.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from upheaval.checkers.verdict import Report
from upheaval_pipeline.lake import Entry, Lake, new_batch, writing
from upheaval_pipeline.lake_files import write_file
from upheaval_pipeline.tables import batches
from upheaval_pipeline.whole import Judged

NAME: Final = "verdicts"
ROW: Final = "a promise of a run that `upheaval verify --lake` judged, or why the run cannot be judged"
UNREADABLE: Final = "unreadable"
"""The verdict on a run that cannot be judged."""
_SCHEMA: Final = "run string, run_verdict string, promise string, verdict string, detail string, late_ms long"


def write_verdicts(lake: Lake, judged: Iterable[tuple[str, Judged]]) -> None:
    """Keep what came of runs of a lake as it was when they were judged. A Spark session must be there."""
    found = dict(judged)
    rows = [row for run, one in found.items() for row in _rows(run, one)]
    batch = new_batch()
    with writing(lake.where):
        schema = to_arrow_schema(StructType.fromDDL(_SCHEMA))
        written = write_file(lake.where, NAME, batch, batches(rows, schema))
        entries = [Entry(run, entry.contents, {}) for run in found if (entry := lake.entry("runs", run)) is not None]
        Lake(lake.where).commit(batch, [NAME], entries, [one.file for one in written])


def verdicts_of_lake(spark: SparkSession, lake: Lake) -> DataFrame:
    """Those that count; of damaged verdicts none does."""
    runs = [run for run in lake.runs(NAME) if _counts(lake, run)]
    return lake.rows(spark, NAME, _SCHEMA, runs)


def _counts(lake: Lake, run: str) -> bool:
    of, now = lake.entry(NAME, run), lake.entry("runs", run)
    return of is not None and now is not None and of.contents == now.contents and not lake.damage(NAME, run)


def _rows(run: str, judged: Judged) -> list[tuple[object, ...]]:
    if not isinstance(judged, Report):
        return [(run, UNREADABLE, None, UNREADABLE, str(judged), 0)]
    told = judged.to_fields()
    return [
        (run, told["verdict"], str.__str__(finding.promise), finding.verdict.text, finding.detail, finding.late_ms)
        for finding in judged.findings
    ]
