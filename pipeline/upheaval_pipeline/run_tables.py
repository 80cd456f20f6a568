"""The tables of runs as data frames, read from their folders or from a lake.

Both have the same columns, so that what judges or measures runs does not know where their tables lie.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession, functions as F

from upheaval.checkers.evidence.absence import TakenSnapshots
from upheaval.checkers.own.causes import parse_explanation
from upheaval.checkers.liveness.client_times import ClientTimes
from upheaval.checkers.evidence.faults import faults_proved
from upheaval.checkers.liveness.log_time import LeaderClock
from upheaval.checkers.evidence.positions import TracedPositions
from upheaval.checkers.promises import promise_of
from upheaval.checkers.judge import (
    judge_backups,
    judge_by_model,
    judge_identities,
    judge_run,
    judge_snapshots,
    known_of_files,
    no_collector,
)
from upheaval.checkers.unchecked import unchecked
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.errors import UsageError
from upheaval.records import (
    ControlRecord,
    FieldError,
    Manifest,
    Operation,
    RunFolder,
    jsonfields,
    parse_control,
    parse_manifest,
)
from upheaval_pipeline import sources, tables
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.version import version

RUNS_OF_A_JOB = 200
"""So many are read at once: what comes back of them is in this process at one time."""
T = TypeVar("T")
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
    whole: tuple[Finding, ...] = ()
    """All findings on a run that was judged as a whole when it was ingested; none of others."""

    def to_json(self) -> str:
        """As it stands in a column of the lake."""
        return json.dumps(asdict(self))


def aside_of(run: RunFolder, *, is_judged: bool = False) -> Aside:
    """Of what is malformed the answer says where; of malformed commands it has none. `is_judged`: as a whole, too."""
    controls: tuple[ControlRecord, ...] = ()
    try:
        controls = tuple(run.read_controls())
        with no_collector():
            return _aside_of(run, is_judged=is_judged)
    except UsageError as error:
        return Aside(controls=controls, malformed=str(error))


def _aside_of(run: RunFolder, *, is_judged: bool) -> Aside:
    operations: Iterable[Operation] = run.read_history() if run.history_file.exists() else ()
    whole: tuple[Finding, ...] = ()
    if is_judged:
        history = list(operations)
        faults = faults_proved(run.read_faults(), run.read_manifest())
        known = known_of_files(run, history)
        whole = judge_run(run, history, faults, known).findings
    else:
        known = known_of_files(run, operations)
    traced = known.traced
    snapshots = (*judge_snapshots(run, traced), *judge_identities(run, traced), *judge_backups(run, traced))
    return Aside(
        known.commands,
        snapshots,
        tuple(judge_by_model(run, traced)),
        known.findings,
        known.controls,
        known.clocks,
        known.clients,
        traced,
        known.taken,
        whole=whole,
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
        whole = _whole(told)
        clocks = tuple(LeaderClock(**clock) for clock in told["clocks"])
        clients = jsonfields.decode(ClientTimes, told["clients"])
        positions = jsonfields.decode(TracedPositions, told["positions"])
        taken = jsonfields.decode(TakenSnapshots, told["taken"], ("positions", "start", "sure_from"))
    except KeyError:
        raise _too_old(lake, run) from None
    controls = tuple(map(parse_control, told["controls"]))
    return Aside(commands, snapshots, model, files, controls, clocks, clients, positions, taken, whole=whole)


def _whole(told: Mapping[str, Any]) -> tuple[Finding, ...]:
    return tuple(map(_finding, told.get("whole", ())))


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
class Run:
    """What is known of a run beside its tables."""

    name: str
    """Where it lies, for people."""
    manifest: Manifest
    traced: frozenset[int]
    """The members whose traces are there."""
    aside: Aside
    """What is judged from small files of the run, by the in-process checkers."""
    history_file: Path | None = None
    """The file whose byte offsets `line` holds, where it is at hand."""


@dataclass(frozen=True)
class RunTables:
    """Many runs. The column `run` of each table is the place of the run in `runs`."""

    runs: tuple[Run, ...]
    history: DataFrame
    faults: DataFrame
    trace: DataFrame
    recording: DataFrame
    """Frames without their payloads, and extents with what ended them in `_reject`."""
    bad: DataFrame
    """What could not be read, `source` by `source`, with the columns of the rejects."""


@contextmanager
def of_folders(spark: SparkSession, folders: Sequence[Path]) -> Iterator[RunTables]:
    """Raises `UsageError` for a folder that is no run folder."""
    runs = {str(place): _of_folder(folder) for place, folder in enumerate(folders)}
    read = {source.name(): sources.load(spark, source.name(), folders, by_place=True) for source in sources.SOURCES}
    with _by_place(spark, runs, read) as found:
        yield found


def _of_folder(folder: Path) -> Run:
    run = RunFolder(folder, at_rest=True)
    manifest = run.read_manifest()
    traced = frozenset(m for m in range(manifest.members) if run.member(m).trace.exists())
    return Run(str(run.path), manifest, traced, aside_of(run), run.history_file)


@contextmanager
def of_lake(spark: SparkSession, lake: Lake, runs: Sequence[str]) -> Iterator[RunTables]:
    """Of runs that are whole. Raises `UsageError` for one that an older version ingested."""
    rows = {row.run: row for row in lake.rows(spark, "runs", tables.RUNS, runs).collect()}
    known = {run: _of_row(lake.where, run, rows[run]) for run in runs}
    names = (source.name() for source in sources.SOURCES)
    read = {name: lake.rows(spark, name, tables.LAKE_SCHEMAS[name], runs) for name in names}
    with _by_place(spark, known, read) as found:
        yield found


def reports_of_lake(spark: SparkSession, lake: Lake, runs: Sequence[str]) -> dict[str, Report]:
    """What this version of Upheaval said of runs when it ingested them, of those that it judged then."""
    of_this = [run for run in runs if (entry := lake.entry("runs", run)) and entry.contents.endswith(version())]
    if not of_this:
        return {}
    rows = lake.rows(spark, "runs", tables.RUNS, of_this).select("run", "folder", "aside").collect()
    judged = {row.run: (row.folder, _whole(json.loads(row.aside))) for row in rows}
    return {run: Report(name, found, unchecked(found)) for run, (name, found) in judged.items() if found}


def nothing_known(_spark: SparkSession, _lake: Lake, _runs: Sequence[str]) -> Mapping[str, Any]:
    """Work has to be done for every run."""
    return {}


def why_unreadable(lake: Lake, run: str) -> UsageError | None:
    """What keeps a run of a lake from being judged, if anything. Raises `UsageError` when it is not there."""
    entry = lake.entry("runs", run)
    if entry is None:
        raise UsageError(f"{lake.where} has no run {run!r}")
    reason = lake.damage("runs", run) or entry.unreadable
    return UsageError(reason) if reason else None


def each_of_lake(
    spark: SparkSession,
    lake: Lake,
    runs: Sequence[str],
    work: Callable[[RunTables], Sequence[T | UsageError]],
    known: Callable[[SparkSession, Lake, Sequence[str]], Mapping[str, T]] = nothing_known,
) -> Iterator[T | UsageError]:
    """What comes of each run of a lake, in their order, or what keeps it from being read.

    No work is done for those of which it is `known`. Raises `UsageError` when one is not there.
    """
    found: dict[str, T | UsageError] = {run: why for run in runs if (why := why_unreadable(lake, run)) is not None}
    whole = [run for run in runs if run not in found]
    for begin in range(0, len(whole), RUNS_OF_A_JOB):
        some = whole[begin : begin + RUNS_OF_A_JOB]
        found |= known(spark, lake, some)
        left = [run for run in some if run not in found]
        if left:
            with of_lake(spark, lake, left) as tables:
                found |= zip(left, work(tables), strict=True)
    return iter([found[run] for run in runs])


def _of_row(lake: str, run: str, row: Any) -> Run:
    manifest = _manifest(lake, run, row.manifest)
    return Run(row.folder, manifest, frozenset(json.loads(row.traced)), _parse_aside(lake, run, row.aside))


@contextmanager
def _by_place(spark: SparkSession, runs: Mapping[str, Run], read: Mapping[str, DataFrame]) -> Iterator[RunTables]:
    """Tables of the runs with their places for their ids, and nothing of members that they do not have; read once."""
    known = [(run, place, told.manifest.members) for place, (run, told) in enumerate(runs.items())]
    places = F.broadcast(spark.createDataFrame(known, "known_as string, run int, known_members int"))
    found = {}
    for name, frame in read.items():
        rows = frame.drop("payload").withColumnRenamed("run", "known_as").join(places, "known_as").drop("known_as")
        if "member" in frame.columns:
            rows = rows.where("member IS NULL OR member < known_members")
        found[name] = rows.drop("known_members").persist()
    good = {name: readable(name, frame) for name, frame in found.items()}
    bad = {name: frame.where("kind IS NULL") if name == "recording" else frame for name, frame in found.items()}
    try:
        yield RunTables(tuple(runs.values()), **good, bad=reduce(DataFrame.union, map(rejects, bad.values(), bad)))
    finally:
        for frame in found.values():
            frame.unpersist()


def readable(source: str, rows: DataFrame) -> DataFrame:
    """What could be read. How far frames reach is known also where they end in something that is none."""
    return rows.where("kind IS NOT NULL" if source == "recording" else "_reject IS NULL")


def rejects(frame: DataFrame, source: str) -> DataFrame:
    """The rows of a source that say why something could not be read."""
    place = [
        F.col(name) if name in frame.columns else F.lit(None).cast(kind).alias(name)
        for name, kind in (("member", "int"), ("line", "long"))
    ]
    bad = frame.where("_reject IS NOT NULL")
    return bad.select("run", F.lit(source).alias("source"), *place, F.col("_reject").alias("reason"))


def _manifest(lake: str, run: str, text: str) -> Manifest:
    try:
        return parse_manifest(jsonfields.parse_object(text))
    except FieldError as error:
        raise UsageError(f"{lake}: the manifest of run {run!r}: {error}") from None
