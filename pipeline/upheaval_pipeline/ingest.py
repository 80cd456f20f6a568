"""`upheaval ingest`: run folders become a lake of Parquet tables, one partition a run.

A partition is replaced as a whole, so ingesting a run again changes nothing, and a run that was repaired loses its
rejects. Bad lines and files are rows of the table `rejects`; the rest of their run is there all the same.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession, functions as F

from upheaval.errors import HarnessError, UsageError
from upheaval.records import RunFolder
from upheaval_pipeline import sources, tables
from upheaval_pipeline.run_tables import aside_of, partition, rejects

TABLES: Final = {
    "runs": "a run: its manifest, and what was judged of its small files when it was ingested (`aside`)",
    "history": "an operation: what was asked, when, and what came of it",
    "faults": "a fault or what else was done to the cluster, with its evidence",
    "trace": "an event of a member; `fields` is JSON text",
    "recording": "a frame of a member's log; `fields` is JSON text",
    "rejects": "a line or file that could not be read",
}
"""What a row of each is."""


def ingest(spark: SparkSession, folders: Sequence[Path], lake: str) -> dict[str, dict[str, int]]:
    """Write the tables of each run; return the number of rows by run and table."""
    require_different_runs(folders)
    return {tables.run_id(RunFolder(folder)): _ingest_run(spark, folder, lake) for folder in folders}


def require_different_runs(folders: Sequence[Path]) -> None:
    """Raises `UsageError` for a folder that is no run, and for two of the same run."""
    seen: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is not a run folder: no such folder")
        if not RunFolder(folder).manifest_file.exists():
            raise UsageError(f"{folder} is not a run folder: it has no manifest.json")
        other = seen.setdefault(tables.run_id(RunFolder(folder)), folder)
        if other is not folder:
            raise UsageError(f"{other} and {folder} are the same run: give one of them")


def _ingest_run(spark: SparkSession, folder: Path, lake: str) -> dict[str, int]:
    run = tables.run_id(RunFolder(folder))
    runs, bad = _manifest_rows(folder, run)
    read: list[DataFrame] = []
    gathered = spark.createDataFrame(bad, tables.REJECTS)
    frames = {"runs": spark.createDataFrame(runs, tables.RUNS).coalesce(1)}
    for source in sources.SOURCES:
        name = source.name()
        frame = sources.load(spark, name, [folder]).persist()
        read.append(frame)
        gathered = gathered.union(rejects(frame, name))
        # How far frames reach is known also where they end in something that is none.
        kept = frame.where("kind IS NOT NULL") if name == "recording" else frame.where("_reject IS NULL")
        frames[name] = kept if name == "recording" else kept.drop("_reject")
    frames["rejects"] = gathered.coalesce(1)
    written = {name: _replace(frames[name], partition(lake, name, run)) for name in TABLES}
    for frame in read:
        frame.unpersist()
    return written


def _manifest_rows(folder: Path, run: str) -> tuple[list[Any], list[Any]]:
    """The row of the run, or the reject of its manifest."""
    try:
        m = RunFolder(folder).read_manifest()
    except HarnessError as error:
        return [], [(run, "manifest", None, None, str(error))]
    converged = m.converge is not None and m.converge.reached
    traced = json.dumps([i for i in range(m.members) if RunFolder(folder).member(i).trace.exists()])
    try:
        aside = aside_of(RunFolder(folder)).to_json()
    except HarnessError as error:
        return [], [(run, "controls", None, None, str(error))]
    start = (run, str(folder), m.runtime, m.members, m.profile, m.sync_level)
    return [(*start, m.seed, m.created, m.host, converged, traced, m.to_json(), aside, _title(folder))], []


def _title(folder: Path) -> str | None:
    """Of the scenario that made the run, if one did."""
    try:
        lines = RunFolder(folder).scenario_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.partition(" ")[2].strip() for line in lines if line.startswith("title ")), None)


def _replace(frame: DataFrame, path: str) -> int:
    """Write a partition in place of what is there; the rows are counted on their way."""
    rows = Observation()
    counted = frame.drop("run").observe(rows, F.count(F.lit(1)).alias("rows"))
    counted.write.mode("overwrite").parquet(path)
    return int(rows.get["rows"])
