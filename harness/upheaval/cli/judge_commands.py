"""The commands that judge, and their options: `verify`, `check`, `export`, `report`, `elections`, `explain`,
`measure`, `watch`, `trace`, `logs`, `tamper`, `ingest`, `query`, `ask`, `lake`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upheaval.cli.parsing import (
    ALARMS,
    CONFIGURATIONS_MAX,
    EXPORT_FORMATS,
    EXPORT_KINDS,
    INGEST_ENGINES,
    KEY_MODELS,
    LAKE_ENGINES,
    LOG_LEVELS,
    NOTATIONS,
    QUESTIONS,
    TABLE_FORMATS,
    Commands,
    above_zero,
    age,
    alarm,
    cluster_option,
    engine_option,
    json_option,
    labels_option,
    master_option,
    moment,
    objective,
    question,
    run_argument,
    two_values,
)
from upheaval_chaos.options import option


def _lake() -> Any:
    return option("--lake", required=True, help="folder or address of the lake")


def _engine() -> Any:
    return option(
        "--engine",
        choices=LAKE_ENGINES,
        default=LAKE_ENGINES[0],
        help="what reads the lake; auto is DuckDB; Spark with --master or if the lake outgrows memory (default auto)",
    )


def _format() -> Any:
    return option("--format", choices=TABLE_FORMATS, help="rows for other programs: print them, or write them to --out")


def _members() -> Any:
    return option("--member", action="append", default=[], metavar="N", help="only this member; may be repeated")


@dataclass(frozen=True)
class RunsOptions:
    """Of `measure`: run folders, or a lake, whose figures Spark computes."""

    runs: tuple[Path, ...] = option(nargs="*", metavar="RUN", help="run folders (default: the newest one in ./runs)")
    json: bool = json_option()
    engine: str = engine_option()
    lake: str | None = option("--lake", help="read the runs of a lake instead")
    run_id: str | None = option("--run", metavar="ID", help="one run of the lake (default: all of them)")
    master: str | None = master_option()

    @property
    def are_several(self) -> bool:
        """Whether they name any number of runs, and not a single one."""
        return len(self.runs) > 1 or (self.lake is not None and self.run_id is None)


@dataclass(frozen=True)
class VerifyOptions(RunsOptions):
    """Of `verify`: run folders, or a lake."""

    new: bool = option("--new", help="only those runs of the lake that this version has not judged")


@dataclass(frozen=True)
class CheckOptions:
    history: Path = option(metavar="HISTORY", help="the file")
    model: str = option(
        "--model",
        default=KEY_MODELS[0],
        metavar="MODEL",
        help=f"what a key holds: {', '.join(KEY_MODELS)} (default {KEY_MODELS[0]}), or your own module:Class",
    )
    initial: str | None = option(
        "--initial",
        metavar="VALUE",
        help="what a key holds at first, as JSON or EDN (default: what the model begins with, as nil in a register)",
    )
    limit: int = option(
        "--limit",
        type=above_zero,
        default=CONFIGURATIONS_MAX,
        metavar="N",
        help=f"configurations to visit for each key before it gives up (default {CONFIGURATIONS_MAX})",
    )
    json: bool = json_option()


@dataclass(frozen=True)
class ExportOptions:
    run: Path = run_argument()
    format: str = option("--format", required=True, choices=EXPORT_FORMATS, help="the other judge")
    kind: str = option(
        "--kind",
        choices=EXPORT_KINDS,
        default=EXPORT_KINDS[0],
        help=f"which keys of the service workbench (default {EXPORT_KINDS[0]})",
    )
    out: Path | None = option(
        "-o", "--out", former=["--output"], metavar="FILE", help="the file (default: standard output)"
    )


@dataclass(frozen=True)
class ReportOptions:
    run: Path = run_argument()
    out: Path | None = option(
        "-o", "--out", former=["--output"], metavar="FILE", help="the page (default: report.html in the run folder)"
    )
    for_maintainers: bool = option(
        "--for-maintainers", help="Markdown for an issue: each broken promise in a fixed form (maintainers.md)"
    )
    json: bool = json_option()


@dataclass(frozen=True)
class ElectionsOptions:
    run: Path = run_argument()
    number: int | None = option(type=above_zero, nargs="?", metavar="N", help="the number of an election, from 1")
    json: bool = json_option()


@dataclass(frozen=True)
class ExplainOptions:
    run: Path = run_argument()
    promise: str | None = option("--promise", metavar="ID", help="which broken promise (default: the first in time)")
    json: bool = json_option()


@dataclass(frozen=True)
class WatchOptions:
    dir: Path = cluster_option()
    alert: str | None = option(
        "--alert",
        metavar="COMMAND",
        help="run this at the first finding on each promise, with an object of JSON as its standard input",
    )
    json: bool = json_option("print one object per line")


@dataclass(frozen=True)
class TraceOptions:
    run: Path = run_argument()
    members: tuple[int, ...] = _members()
    messages: tuple[str, ...] = option(
        "--message", action="append", default=[], metavar="NAME", help="such as NewLeadershipTerm; may be repeated"
    )
    from_s: float | None = option("--from", type=moment, metavar="T", help="seconds since the first entry")
    to_s: float | None = option("--to", type=moment, metavar="T", help="seconds since the first entry")
    notation: str = option(
        "--notation",
        choices=NOTATIONS,
        default=NOTATIONS[0],
        help="plain: messages and state changes; columns: only sent messages, with aligned fields",
    )
    requests: bool = option(
        "--requests",
        help="print the requests to a custom service and their answers, from the log; --message names requests",
    )
    json: bool = json_option("print one object per line, as in the run folder")


@dataclass(frozen=True)
class LogsOptions:
    run: Path = run_argument()
    members: tuple[int, ...] = _members()
    level: str = option(
        "--level", choices=LOG_LEVELS, default=LOG_LEVELS[0], help="the lowest level to print (default info)"
    )
    json: bool = json_option("print one object per line")


@dataclass(frozen=True)
class TamperOptions:
    runs: tuple[Path, ...] = option(nargs="+", metavar="RUN", help="folders of valid runs; they are not changed")
    only: tuple[str, ...] = option(
        "--only", action="append", default=[], metavar="NAME", help="only this edit; may be repeated"
    )
    every_run: bool = option(
        "--every-run",
        help="try each edit on every run that has what it changes, not only on the first; the worst outcome counts",
    )
    json: bool = json_option()


@dataclass(frozen=True)
class IngestOptions:
    paths: tuple[Path, ...] = option(
        nargs="+", metavar="RUN", help="run folders, and folders or lines (seeds.jsonl) of campaigns"
    )
    lake: str = _lake()
    labels: tuple[tuple[str, str], ...] = labels_option()
    json: bool = json_option()
    engine: str = option(
        "--engine",
        choices=INGEST_ENGINES,
        default=INGEST_ENGINES[0],
        help="what reads and judges the runs; auto is this process (python); Spark with --master or for many "
        "(default auto)",
    )
    master: str | None = master_option()


@dataclass(frozen=True)
class QueryOptions:
    sql: str | None = option(nargs="?", metavar="SQL", help="a query, such as 'SELECT * FROM availability'")
    lake: str = _lake()
    list: bool = option("--list", help="print the tables and views with their columns")
    limit: int = option(
        "--limit", type=above_zero, default=1000, metavar="N", help="print at most N rows (default 1000)"
    )
    format: str | None = _format()
    out: Path | None = option("-o", "--out", former=["--output"], metavar="FILE", help="the file of --format")
    json: bool = json_option("print one object per line")
    engine: str = _engine()
    master: str | None = master_option()


@dataclass(frozen=True)
class AskOptions:
    questions: tuple[str, ...] = option(
        nargs="*", type=question, metavar="QUESTION", help=f"{', '.join(QUESTIONS)} (default: all of them)"
    )
    lake: str = _lake()
    slo: float = option(
        "--slo",
        type=objective,
        default=0.999,
        metavar="PERCENT",
        help="share of the time in which clients should get answers (default 99.9)",
    )
    between: tuple[tuple[str, str, str], ...] = option(
        "--between",
        type=two_values,
        action="append",
        default=[],
        metavar="LABEL=A..B",
        help="what `compare` compares (default: the last two commits or versions); may be repeated",
    )
    fail_if: tuple[str, ...] = option(
        "--fail-if",
        type=alarm,
        action="append",
        default=[],
        metavar="QUESTION",
        help=f"exit with 1 if the answer is bad news: {', '.join(ALARMS)}; may be repeated",
    )
    format: str | None = _format()
    out: Path | None = option(
        "-o", "--out", former=["--output"], metavar="FILE", help="write an HTML page instead, or the rows of --format"
    )
    json: bool = json_option("print one object per line")
    engine: str = _engine()
    master: str | None = master_option()


@dataclass(frozen=True)
class LakeOptions:
    lake: str = _lake()
    json: bool = json_option()


@dataclass(frozen=True)
class DropOptions:
    lake: str = _lake()
    older_than_s: float | None = option(
        "--older-than", type=age, metavar="AGE", help="runs and campaigns older than this, such as 90d"
    )
    runs: tuple[str, ...] = option(
        "--run", action="append", default=[], metavar="ID", help="this run or campaign; may be repeated"
    )
    json: bool = json_option()


@dataclass(frozen=True)
class LakeExportOptions:
    lake: str = _lake()
    out: Path = option("-o", "--out", required=True, metavar="FILE", help="the database; an existing one is replaced")
    json: bool = json_option()


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("judge")
    commands.add(
        "verify",
        "check every promise of runs, from their folders alone",
        VerifyOptions,
        "verify:verify",
        prints_verdict=True,
    )
    commands.add(
        "check",
        "say whether a history without a log is linearizable: history.jsonl alone, or Jepsen's events (EDN, JSON)",
        CheckOptions,
        "check:check",
    )
    commands.add(
        "export",
        "write the history of a run in the notation of another judge: Knossos (EDN) or Porcupine",
        ExportOptions,
        "export:export",
    )
    commands.add("report", "write one run as an HTML page", ReportOptions, "report:report")
    commands.add(
        "elections",
        "print the elections of a run, or one of them step by step and as a sequence diagram",
        ElectionsOptions,
        "elections:elections",
    )
    commands.add(
        "explain",
        "say how a run came to break a promise: the moment, what members knew, and the messages before it",
        ExplainOptions,
        "explain:explain",
    )
    commands.add(
        "measure", "print throughput, latency, outages and the effect of each fault", RunsOptions, "report:measure"
    )
    commands.add(
        "watch",
        "follow a run while it goes on, say what is broken so far, and judge it when it is over",
        WatchOptions,
        "watch:watch",
        prints_verdict=True,
        ends_with_reader=True,
    )
    commands.add(
        "trace",
        "print the messages and state changes of a traced run",
        TraceOptions,
        "trace:trace",
        ends_with_reader=True,
    )
    commands.add(
        "logs", "print what members and services logged, by time", LogsOptions, "logs:logs", ends_with_reader=True
    )
    commands.add(
        "tamper",
        "forge copies of valid runs by each of a set of edits, and count those that the verdict does not notice",
        TamperOptions,
        "tamper:tamper",
    )
    _add_commands_on_lakes(commands)


def _add_commands_on_lakes(commands: Commands) -> None:
    commands.add(
        "ingest",
        "write run folders and campaigns to a lake of Delta tables",
        IngestOptions,
        "upheaval_pipeline.ingest_command:ingest",
    )
    commands.add(
        "query",
        "ask a lake in SQL: its tables, and views of them",
        QueryOptions,
        "upheaval_pipeline.commands:query",
    )
    commands.add(
        "ask",
        "answer common questions about the runs of a lake, as tables or as a page with plots",
        AskOptions,
        "upheaval_pipeline.commands:ask",
    )
    lakes = commands.add_several("lake", "show what a lake holds, compact it, erase runs, export or migrate it")
    for name, text, options in (
        ("info", "print the files, bytes and rows of each table, and the age of its runs", LakeOptions),
        ("optimize", "compact small files, and remove rows that were replaced", LakeOptions),
        ("drop", "erase runs and campaigns, with all files that had rows of them", DropOptions),
        ("export", "write tables and views to a DuckDB database, for programs that show charts", LakeExportOptions),
        ("migrate", "convert a lake of an older version to the format of this one", LakeOptions),
    ):
        lakes.add(name, text, options, f"upheaval_pipeline.lake_commands:{name}")
