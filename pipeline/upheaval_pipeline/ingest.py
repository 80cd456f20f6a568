"""`upheaval ingest`: run folders become a lake of Parquet tables; of many runs, all tables are written by one job.

Runs are judged on the way, and the lake keeps the findings. A run of which the lake has these very contents, read by
this version of Upheaval, is left as it is. Bad lines and files are rows of their tables that say
why in `_reject`, and of the view `rejects`; the rest of their run is there all the same.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upheaval.errors import HarnessError
from upheaval.records import RunFolder
from upheaval.records.labels import NO_LABELS, LabelsOfIngest
from upheaval_node import __version__
from upheaval_pipeline import sources, tables
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.contents import contents_of_each, has, require_different_runs, rows_in_lake
from upheaval_pipeline.lake import Entry, Lake, new_batch, writing
from upheaval_pipeline.lake_files import Written, totals_of, write_file
from upheaval_pipeline.verdicts import NAME as VERDICTS, verdict_rows
from upheaval_pipeline.version import of_this_version
from upheaval_pipeline.whole import in_tasks, judge_each
from upheaval_pipeline.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS_OF_A_COMMIT, BYTES_OF_A_COMMIT = 200, 4 << 30
"""So much is lost at most when an ingest is ended in the middle."""


def ingest(
    spark: "SparkSession | None",
    folders: Sequence[Path],
    where: str,
    say: Callable[[str], None] = lambda _: None,
    labels: LabelsOfIngest = NO_LABELS,
) -> dict[str, dict[str, int]]:
    """Write the tables of the runs that a lake does not have; return the rows of all of them, by run and table.

    `labels` are of the new ones, beside their own. Without Spark this process writes one file after
    the other.
    Raises `UsageError` for what is no run folder, two of the same run, and an older lake.
    """
    folder_of = require_different_runs(folders)
    with writing(where) as is_alone:
        lake = Lake(where)
        if is_alone:
            lake.clear()
        contents = dict(zip(folder_of, contents_of_each(list(folder_of.values())), strict=True))
        new = {run: size for run, (digest, size) in contents.items() if not has(lake, run, digest)}
        if len(new) < len(folder_of):
            unused = " and keep the labels that they have" if labels.named else ""
            say(f"{len(folder_of) - len(new)} of {len(folder_of)} runs are in the lake as they are{unused}")
        done = 0
        for some in _commits(new):
            digests = {run: contents[run][0] for run in some}
            _write(spark, where, {run: folder_of[run] for run in some}, digests, labels)
            done += len(some)
            say(f"{done} of {len(new)} runs ingested")
    return rows_in_lake(where, "runs", folder_of)


def _commits(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Runs that are written and committed together."""
    some: list[str] = []
    total = 0
    for run, size in sizes.items():
        if some and (len(some) == RUNS_OF_A_COMMIT or total + size > BYTES_OF_A_COMMIT):
            yield some
            some, total = [], 0
        some.append(run)
        total += size
    if some:
        yield some


def _write(
    spark: "SparkSession | None",
    where: str,
    folder_of: Mapping[str, Path],
    digests: Mapping[str, str],
    labels: LabelsOfIngest,
) -> None:
    lake, batch = Lake(where), new_batch()
    folders = list(folder_of.values())
    described = dict(zip(folder_of, in_tasks(spark, _manifest_row, folders), strict=True))
    by_whom = (datetime.now(UTC).isoformat(timespec="seconds"), __version__)
    rows = [
        (*row, list(labels.of(folder_of[run]).items()), *by_whom)
        for run, (row, _) in described.items()
        if row is not None
    ]
    written = write_file(lake.where, "runs", batch, tables.batches(rows, arrow_schema(tables.RUNS)))
    judged = dict(zip(folder_of, judge_each(spark, folders), strict=True))
    written += _write_tables(spark, partial(_write_task, lake.where, batch), sources.tasks(folders))
    totals = totals_of(written, folder_of, tables.LAKE_SCHEMAS)
    entries = []
    for run, (_, reason) in described.items():
        totals[run]["rejects"] += reason is not None
        entries.append(Entry(run, of_this_version(digests[run]), dict(totals[run]), reason or ""))
    written += write_file(lake.where, VERDICTS, batch, verdict_rows(judged))
    lake.commit(batch, [*tables.LAKE_SCHEMAS, VERDICTS], entries, [one.file for one in written])


def _write_tables(
    spark: "SparkSession | None", write: Callable[[sources.Task], list[Written]], to_do: Sequence[sources.Task]
) -> list[Written]:
    if spark is None:
        return [one for task in to_do for one in write(task)]
    written: list[Written] = spark.sparkContext.parallelize(to_do, len(to_do)).flatMap(write).collect()
    return written


def _write_task(where: str, batch: str, task: sources.Task) -> list[Written]:
    settle()
    return write_file(where, task.table, batch, task.batches())


def _manifest_row(path: str) -> tuple[tuple[Any, ...] | None, str | None]:
    """The row of a run, or why there is none."""
    folder = Path(path)
    run = RunFolder(folder)
    try:
        m = run.read_manifest()
    except HarnessError as error:
        return None, str(error)
    converged = m.converge is not None and m.converge.reached
    start = (m.run_id, path, m.runtime, m.members, m.profile, m.sync_level)
    return (*start, m.seed, m.created, m.host, converged, m.to_json(), _controls(run), _title(folder)), None


def _controls(run: RunFolder) -> str | None:
    """The commands of operators as JSON text; None when they cannot be read, which their verdict says."""
    try:
        return json.dumps([asdict(control) for control in run.read_controls()])
    except HarnessError:
        return None


def _title(folder: Path) -> str | None:
    """Of the scenario that made the run, if one did."""
    try:
        lines = RunFolder(folder).scenario_file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.partition(" ")[2].strip() for line in lines if line.startswith("title ")), None)
