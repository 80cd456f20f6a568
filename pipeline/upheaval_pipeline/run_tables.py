"""The tables of one run as data frames, read from its folder or from a lake.

Both have the same columns, so that what judges or measures a run does not know where its tables lie.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F

from upheaval.checkers.absence import TakenSnapshots, taken_snapshots
from upheaval.checkers.causes import parse_explanation
from upheaval.checkers.client_times import ClientTimes, client_times
from upheaval.checkers.endings import check_endings
from upheaval.checkers.faults import admin_commands_proved
from upheaval.checkers.log_time import LeaderClock, leader_clocks
from upheaval.checkers.positions import TracedPositions, traced_positions
from upheaval.checkers.promises import promise_of
from upheaval.checkers.run import judge_backups, judge_by_model, judge_files, judge_identities, judge_snapshots
from upheaval.checkers.trace_facts import facts_of_members
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.errors import UsageError
from upheaval.records import ControlRecord, FieldError, Manifest, RunFolder, jsonfields, parse_control, parse_manifest
from upheaval_pipeline import sources, tables

_NOTHING_TAKEN = TakenSnapshots((), -1, sys.maxsize)


@dataclass(frozen=True)
class Aside:
    """Findings on the commands of operators and what came of them; on snapshots, states, identities and backups; and on
    what traces and small files say by themselves. What the traces say of the leaders' clocks and of positions.
    """

    commands: tuple[Finding, ...] = ()
    snapshots: tuple[Finding, ...] = ()
    model: tuple[Finding, ...] = ()
    """By a model and promises of the user's own."""
    files: tuple[Finding, ...] = ()
    controls: tuple[ControlRecord, ...] = ()
    clocks: tuple[LeaderClock, ...] = ()
    clients: ClientTimes = field(default_factory=ClientTimes)
    """What clients say of themselves, and how long they may have to wait."""
    positions: TracedPositions = field(default_factory=TracedPositions)
    taken: TakenSnapshots = _NOTHING_TAKEN
    """What there is of the snapshots that the log may ask for."""
    malformed: str = ""
    """The line of a file of which none of this could be found out; then it has the commands only."""

    def to_json(self) -> str:
        """As it stands in a column of the lake."""
        return json.dumps(asdict(self))


def aside_of(run: RunFolder) -> Aside:
    """Raises `UsageError` for malformed commands; what else is malformed is a part of the answer."""
    controls = tuple(run.read_controls())
    try:
        return _aside_of(run, controls)
    except UsageError as error:
        return Aside(controls=controls, malformed=str(error))


def _aside_of(run: RunFolder, controls: tuple[ControlRecord, ...]) -> Aside:
    manifest = run.read_manifest()
    commands = (*admin_commands_proved(controls), *check_endings(run, manifest, controls))
    traced = traced_positions(run, manifest)
    snapshots = (*judge_snapshots(run, traced), *judge_identities(run, traced), *judge_backups(run, traced))
    clocks, clients = leader_clocks(run, manifest.members), client_times(run, manifest)
    traces = facts_of_members(run, manifest.members)
    files = tuple(judge_files(run, manifest, traces))
    taken = taken_snapshots(run, manifest, traces)
    return Aside(
        commands, snapshots, tuple(judge_by_model(run, traced)), files, controls, clocks, clients, traced, taken
    )


def _parse_aside(lake: str, run: str, text: str | None) -> Aside:
    told = json.loads(text or "null")
    if not isinstance(told, dict):
        raise _too_old(lake, run)
    if told.get("malformed"):
        return Aside(controls=tuple(map(parse_control, told["controls"])), malformed=told["malformed"])
    try:
        parts = ("commands", "snapshots", "model", "files")
        commands, snapshots, model, files = (tuple(map(_finding, told[part])) for part in parts)
        clocks = tuple(LeaderClock(**clock) for clock in told["clocks"])
        clients = jsonfields.decode(ClientTimes, told["clients"])
        positions = jsonfields.decode(TracedPositions, told["positions"])
        taken = jsonfields.decode(TakenSnapshots, told["taken"], ("positions", "start", "sure_from"))
    except KeyError:
        raise _too_old(lake, run) from None
    controls = tuple(map(parse_control, told["controls"]))
    return Aside(commands, snapshots, model, files, controls, clocks, clients, positions, taken)


def _too_old(lake: str, run: str) -> UsageError:
    return UsageError(f"{lake}: run {run!r} was ingested by an older version: ingest its folder again")


def _finding(told: dict[str, Any]) -> Finding:
    known = {
        "promise": promise_of(told["promise"]),
        "verdict": Verdict(told["verdict"]),
        "members": tuple(told["members"]),
        "explanation": None if told["explanation"] is None else parse_explanation(told["explanation"]),
    }
    return Finding(**{**told, **known})


@dataclass(frozen=True)
class RunTables:
    """One run. `bad` has the columns of the rejects: what could not be read, `source` by `source`."""

    name: str
    """Where the run lies, for people."""
    manifest: Manifest
    traced: frozenset[int]
    """The members whose traces are there."""
    history: DataFrame
    faults: DataFrame
    trace: DataFrame
    recording: DataFrame
    """Frames without their payloads, and extents with what ended them in `_reject`."""
    bad: DataFrame
    aside: Aside
    """What is judged from small files of the run, by the in-process checkers."""
    history_file: Path | None
    """The file whose byte offsets `line` holds, where it is at hand."""


@contextmanager
def of_folder(spark: SparkSession, folder: Path) -> Iterator[RunTables]:
    """Raises `UsageError` for a folder that is no run folder."""
    run = RunFolder(folder, at_rest=True)
    manifest = run.read_manifest()
    read = {
        source.name(): sources.load(spark, source.name(), [folder]).drop("payload").persist()
        for source in sources.SOURCES
    }
    known = F.col("member") < manifest.members
    bad = [
        rejects(read["history"], "history"),
        rejects(read["faults"], "faults"),
        rejects(read["trace"].where(known), "trace"),
        rejects(read["recording"].where(known & F.col("kind").isNull()), "recording"),
    ]
    gathered = bad[0]
    for more in bad[1:]:
        gathered = gathered.union(more)
    good = F.col("_reject").isNull()
    try:
        yield RunTables(
            name=str(run.path),
            manifest=manifest,
            traced=frozenset(m for m in range(manifest.members) if run.member(m).trace.exists()),
            history=read["history"].where(good),
            faults=read["faults"].where(good),
            trace=read["trace"].where(good & known),
            recording=read["recording"].where(known & F.col("kind").isNotNull()),
            bad=gathered,
            aside=aside_of(run),
            history_file=run.history_file,
        )
    finally:
        for frame in read.values():
            frame.unpersist()


def rejects(frame: DataFrame, source: str) -> DataFrame:
    """The rows of a source that say why something could not be read."""
    place = [
        F.col(name) if name in frame.columns else F.lit(None).cast(kind).alias(name)
        for name, kind in (("member", "int"), ("line", "long"))
    ]
    bad = frame.where("_reject IS NOT NULL")
    return bad.select("run", F.lit(source).alias("source"), *place, F.col("_reject").alias("reason"))


def runs_of_lake(spark: SparkSession, lake: str) -> list[str]:
    """The ids of the runs of a lake, in order. Raises `UsageError` for a folder that is none."""
    return sorted(row.run for row in _table(spark, lake, "runs").select("run").distinct().collect())


def of_lake(spark: SparkSession, lake: str, run: str) -> RunTables:
    """Raises `UsageError` when the lake has no such run."""
    found = _table(spark, lake, "runs").where(F.col("run") == run).first()
    if found is None:
        raise UsageError(f"{lake} has no run {run!r}")
    manifest = _manifest(lake, run, found.manifest)
    read: dict[str, Any] = {
        name: spark.read.schema(schema).parquet(partition(lake, name, run)).withColumn("run", F.lit(run))
        for name, schema in tables.LAKE_SCHEMAS.items()
    }
    return RunTables(
        name=found.folder,
        manifest=manifest,
        traced=frozenset(json.loads(found.traced)),
        history=read["history"],
        faults=read["faults"],
        trace=read["trace"].where(F.col("member") < manifest.members),
        recording=read["recording"].where(F.col("member") < manifest.members),
        bad=read["rejects"],
        aside=_parse_aside(lake, run, found.asDict().get("aside")),
        history_file=None,
    )


def partition(lake: str, table: str, run: str) -> str:
    """The folder of a run's rows of a table."""
    return f"{lake}/{table}/run={quote(run, safe='')}"


def _table(spark: SparkSession, lake: str, name: str) -> Any:
    try:
        return spark.read.parquet(f"{lake}/{name}")
    except AnalysisException as error:
        raise UsageError(f"{lake} is not a lake: it has no table {name!r} (make one with `upheaval ingest`)") from error


def _manifest(lake: str, run: str, text: str) -> Manifest:
    try:
        return parse_manifest(jsonfields.parse_object(text))
    except FieldError as error:
        raise UsageError(f"{lake}: the manifest of run {run!r}: {error}") from None
