"""`upheaval ingest`: run folders become a lake of Parquet tables; of many runs, all tables are written by one job.

Runs are judged on the way, and the lake keeps the findings. A run of which the lake has these very contents, read by
this version of Upheaval, is left as it is; read by another version, it keeps labels, time and version of its ingest.
Bad lines and files are rows of their tables that say why in `_reject`, and of the view `rejects`; the rest of their run
is there all the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from upheaval.records.labels import NO_LABELS, LabelsOfIngest
from upheaval.records.utf8 import storable
from upheaval_node import __version__
from upheaval_pipeline import run_parts, tables
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.contents import Contents, contents_of_runs, new_runs, rows_in_lake
from upheaval_pipeline.known_runs import KnownRun, known_runs, replaced
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_files import Written, files_of, totals_of, write_file
from upheaval_pipeline.manifest_rows import manifest_row
from upheaval_pipeline.own_code import own_code_of
from upheaval_pipeline.tables import VERDICTS_NAME
from upheaval_pipeline.tasks import run_in_tasks
from upheaval_pipeline.verdicts import verdict_rows
from upheaval_pipeline.version import reader_version
from upheaval_pipeline.whole import judge_each, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS_OF_A_COMMIT, BYTES_OF_A_COMMIT = 200, 4 << 30
"""So much is lost at most when an ingest is ended in the middle."""
_RUNS: Final = arrow_schema(tables.STORED["runs"].rpartition(", ")[0])
_WIDTH: Final = len(arrow_schema(tables.RUNS))


def ingest(
    spark: "SparkSession | None",
    folders: Sequence[Path],
    where: str,
    say: Callable[[str], None] = lambda _: None,
    labels: LabelsOfIngest = NO_LABELS,
) -> dict[str, dict[str, int]]:
    """Write the tables of the runs that a lake does not have; return the rows of all of them, by run and table.

    `labels` are of the new ones, beside their own. Without Spark this process writes one file after the
    other. Several processes may write to a lake at the same time.
    Raises `UsageError` for what is no run folder, two of the same run, malformed labels, and an older lake.
    """
    return ingest_runs(spark, contents_of_runs(folders), where, say, labels)


def ingest_runs(
    spark: "SparkSession | None",
    contents: Mapping[str, Contents],
    where: str,
    say: Callable[[str], None] = lambda _: None,
    labels: LabelsOfIngest = NO_LABELS,
    show: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, int]]:
    """`ingest` of runs whose contents are known; `show` gets how far this process is, one text after the other."""
    lake = Lake(where)
    lake.require_room()
    new = sorted(new_runs(lake, contents))
    if len(new) < len(contents):
        unused = " and keep the labels that they have" if labels.named else ""
        say(f"{len(contents) - len(new)} of {len(contents)} runs are in the lake already{unused}")
    known = known_runs(lake, {run: contents[run] for run in new}, say)
    labels_of = {run: labels.of(contents[run].folder) for run in new}
    if lost := replaced(known, labels_of):
        say(f"runs of the same ids replace those of {lost}")
    again = {run: one for run, one in known.items() if one.is_same}
    if again and labels.named:
        say(f"{len(again)} of {len(contents)} runs are read again and keep the labels that they have")
    done = 0
    for some in _commits({run: contents[run].size for run in new}):
        _write(spark, where, {run: contents[run] for run in some}, labels_of, again, show)
        done += len(some)
        say(f"{done} of {len(new)} runs ingested")
    return rows_in_lake(Lake(where), "runs", contents)


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
    contents: Mapping[str, Contents],
    labels_of: Mapping[str, Mapping[str, str]],
    again: Mapping[str, KnownRun],
    show: Callable[[str], None],
) -> None:
    lake = Lake(where)
    batch = lake.new_batch()
    folders = [one.folder for one in contents.values()]
    described = {run: manifest_row(str(one.folder)) for run, one in contents.items()}
    reports = judge_each(spark, folders, lambda number: show(f"{number} of {len(folders)} runs judged"))
    judged = dict(zip(contents, reports, strict=True))
    digests = {run: one.digest for run, one in contents.items()}
    code = {run: own_code_of(one.folder) for run, one in contents.items()}
    written = _write_tables(spark, partial(_write_task, lake.where, batch), run_parts.tasks(folders, tasks_of(spark)))
    totals = totals_of(written, contents, tables.LAKE_SCHEMAS)
    written += write_file(lake.where, VERDICTS_NAME, batch, verdict_rows(judged, digests, code))
    rows = []
    for run, (row, reason) in described.items():
        totals[run]["runs"] += row is not None
        totals[run]["rejects"] += reason is not None
        if run in again:
            by_whom = (list(again[run].labels.items()), again[run].ingested, again[run].ingested_by)
        else:
            of_run = [(storable(name), storable(value)) for name, value in labels_of[run].items()]
            by_whom = (of_run, datetime.now(UTC).isoformat(timespec="seconds"), __version__)
        what = (*row, *by_whom) if row is not None else (run, *[None] * (_WIDTH - 1))
        rows.append((*what, digests[run], reader_version(), reason, list(totals[run].items())))
    written += write_file(lake.where, "runs", batch, tables.batches(rows, _RUNS))
    lake.commit(files_of(written))


def _write_tables(
    spark: "SparkSession | None", write: Callable[[run_parts.Task], list[Written]], to_do: Sequence[run_parts.Task]
) -> list[Written]:
    written: Iterable[list[Written]] = map(write, to_do) if spark is None else run_in_tasks(spark, write, to_do)
    return list(chain.from_iterable(written))


def _write_task(where: str, batch: str, task: run_parts.Task) -> list[Written]:
    return write_file(where, task.reader.name, batch, task.batches())
