"""`upheaval ingest`: run folders become a lake of Parquet tables; of many runs, all tables are written by one job.

Runs are judged on the way, and the lake keeps the findings. A run of which the lake has these very contents, read by
this version of Upheaval, is left as it is. Bad lines and files are rows of their tables that say
why in `_reject`, and of the view `rejects`; the rest of their run is there all the same.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from upheaval.errors import HarnessError, UsageError
from upheaval.records import RunFolder
from upheaval.records.seal import digest_of_file
from upheaval_pipeline import sources, tables
from upheaval_pipeline.lake import Entry, Lake, new_batch, writing
from upheaval_pipeline.lake_files import Written, totals_of, write_file
from upheaval_pipeline.verdicts import NAME as VERDICTS, verdict_rows
from upheaval_pipeline.version import of_this_version
from upheaval_pipeline.whole import in_tasks, judge_each
from upheaval_pipeline.workers import settle

TABLES: Final = {
    "runs": "a run: its manifest, and the commands of operators as JSON text",
    "history": "an operation: what was asked, when, and what came of it",
    "faults": "a fault or what else was done to the cluster, with its evidence",
    "trace": "an event of a member; `fields` is JSON text",
    "recording": "a frame of a member's log; `fields` is JSON text",
    "rejects": "a line or file that could not be read",
}
"""What a row of each is."""
RUNS_OF_A_COMMIT, BYTES_OF_A_COMMIT = 200, 4 << 30
"""So much is lost at most when an ingest is ended in the middle."""
_NOT_READ: Final = "report.html"


def ingest(
    spark: SparkSession,
    folders: Sequence[Path],
    where: str,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[str, int]]:
    """Write the tables of the runs that a lake does not have; return the rows of all of them, by run and table.

    Raises `UsageError` for what is no run folder, two of the same run, and an older lake.
    """
    folder_of = require_different_runs(folders)
    with writing(where) as is_alone:
        lake = Lake(where)
        if is_alone:
            lake.clear()
        contents = dict(zip(folder_of, in_tasks(spark, contents_of, list(folder_of.values())), strict=True))
        new = {run: size for run, (digest, size) in contents.items() if not _has(lake, run, digest)}
        if len(new) < len(folder_of):
            say(f"{len(folder_of) - len(new)} of {len(folder_of)} runs are in the lake as they are")
        done = 0
        for some in _commits(new):
            digests = {run: contents[run][0] for run in some}
            _write(spark, where, {run: folder_of[run] for run in some}, digests)
            done += len(some)
            say(f"{done} of {len(new)} runs ingested")
    lake = Lake(where)
    return {run: dict(entry.rows) for run in folder_of if (entry := lake.entry("runs", run)) is not None}


def require_different_runs(folders: Sequence[Path]) -> dict[str, Path]:
    """The folders by their runs. Raises `UsageError` for a folder that is no run, and for two of the same run."""
    seen: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a run folder: no such folder")
        if not RunFolder(folder).manifest_file.exists():
            raise UsageError(f"{folder} is not a run folder: it has no manifest.json")
        other = seen.setdefault(tables.run_id(RunFolder(folder)), folder)
        if other is not folder:
            raise UsageError(f"{other} and {folder} are the same run: give one of them")
    return {run: folder.absolute() for run, folder in seen.items()}


def contents_of(folder: str) -> tuple[str, int]:
    """A digest of all files of a run, and their length in bytes."""
    whole, size = hashlib.sha256(), 0
    for path in sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.name != _NOT_READ):
        whole.update(f"{path.relative_to(folder)}\0{digest_of_file(path)}\0".encode("utf-8", "surrogateescape"))
        size += path.stat().st_size
    return whole.hexdigest(), size


def _has(lake: Lake, run: str, digest: str) -> bool:
    entry = lake.entry("runs", run)
    return entry is not None and entry.contents == of_this_version(digest) and not lake.damage("runs", run)


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


def _write(spark: SparkSession, where: str, folder_of: Mapping[str, Path], digests: Mapping[str, str]) -> None:
    lake, batch = Lake(where), new_batch()
    folders = list(folder_of.values())
    described = dict(zip(folder_of, in_tasks(spark, _manifest_row, folders), strict=True))
    rows = [row for row, _ in described.values() if row is not None]
    schema = to_arrow_schema(StructType.fromDDL(tables.RUNS))
    written = write_file(lake.where, "runs", batch, tables.batches(rows, schema))
    judged = dict(zip(folder_of, judge_each(spark, folders), strict=True))
    to_do = sources.tasks(folders)
    written += (
        spark.sparkContext.parallelize(to_do, len(to_do)).flatMap(partial(_write_task, lake.where, batch)).collect()
    )
    totals = totals_of(written, folder_of, TABLES)
    entries = []
    for run, (_, reason) in described.items():
        totals[run]["rejects"] += reason is not None
        entries.append(Entry(run, of_this_version(digests[run]), dict(totals[run]), reason or ""))
    written += write_file(lake.where, VERDICTS, batch, verdict_rows(judged))
    lake.commit(batch, [*tables.LAKE_SCHEMAS, VERDICTS], entries, [one.file for one in written])


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
