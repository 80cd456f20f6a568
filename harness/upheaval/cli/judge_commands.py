"""The options of the commands that judge: `verify`, `check`, `report`, `elections`, `measure`, `watch`, `trace`,
`logs`, `tamper`, `ingest`, `query`, `ask`.
"""

import argparse
from pathlib import Path

from upheaval.cli.lazy import lazy
from upheaval.cli.parsing import (
    CONFIGURATIONS_MAX,
    KEY_MODELS,
    LOG_LEVELS,
    NOTATIONS,
    QUESTIONS,
    Commands,
    above_zero,
    add_cluster,
    add_json,
    moment,
    question,
)


def add_commands(commands: Commands) -> None:
    """Add the group."""
    commands.group("judge")
    verify = commands.add(
        "verify", "check every promise of runs, from their folders alone", lazy("upheaval.cli.verify:verify")
    )
    verify.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders")
    add_json(verify)
    _add_lake(verify)
    _add_check(commands)
    report = commands.add("report", "write one run as an HTML page", lazy("upheaval.cli.report:report"))
    report.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    report.add_argument("--output", type=Path, help="the page's file (default: report.html in the run folder)")
    elections = commands.add(
        "elections",
        "print the elections of a run, or one of them step by step and as a sequence diagram",
        lazy("upheaval.cli.elections:elections"),
    )
    elections.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    elections.add_argument("number", type=above_zero, nargs="?", metavar="N", help="the number of one, from 1 on")
    add_json(elections)
    measure = commands.add(
        "measure",
        "print throughput, latency, outages and the effect of each fault",
        lazy("upheaval.cli.report:measure"),
    )
    measure.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="run folders")
    add_json(measure)
    _add_lake(measure)
    _add_watch(commands)
    _add_trace(commands)
    _add_logs(commands)
    _add_tamper(commands)
    ingest = commands.add(
        "ingest",
        "write run folders and campaigns to a lake of Parquet tables (Spark)",
        lazy("upheaval_pipeline.commands:ingest"),
    )
    ingest.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="run folders, and folders or lines (seeds.jsonl) of campaigns",
    )
    ingest.add_argument("--lake", required=True, help="folder or address of the lake")
    add_json(ingest)
    _add_master(ingest)
    query = commands.add(
        "query", "ask a lake in SQL: its tables, and views of them (Spark)", lazy("upheaval_pipeline.commands:query")
    )
    query.add_argument("sql", nargs="?", metavar="SQL", help="a query, such as 'SELECT * FROM availability'")
    query.add_argument("--lake", required=True, help="folder or address of the lake")
    query.add_argument("--list", action="store_true", help="print the tables and views with their columns")
    query.add_argument("--limit", type=above_zero, default=1000, metavar="N", help="print so many rows (default 1000)")
    add_json(query, "print one object a line")
    _add_master(query)
    _add_ask(commands)


def _add_ask(commands: Commands) -> None:
    ask = commands.add(
        "ask",
        "answer what people ask of many runs, from a lake: as tables, or as a page with plots (Spark)",
        lazy("upheaval_pipeline.commands:ask"),
    )
    ask.add_argument(
        "questions",
        nargs="*",
        type=question,
        metavar="QUESTION",
        help=f"{', '.join(QUESTIONS)} (default: all of them)",
    )
    ask.add_argument("--lake", required=True, help="folder or address of the lake")
    shape = ask.add_mutually_exclusive_group()
    shape.add_argument("--output", type=Path, metavar="FILE", help="write an HTML page instead")
    shape.add_argument("--json", action="store_true", help="print one object a line")
    _add_master(ask)


def _add_check(commands: Commands) -> None:
    check = commands.add(
        "check",
        "say whether a history without a log is linearizable: history.jsonl alone, or Jepsen's (EDN)",
        lazy("upheaval.cli.check:check"),
    )
    check.add_argument("history", type=Path, metavar="HISTORY", help="the file")
    check.add_argument(
        "--model",
        default=KEY_MODELS[0],
        metavar="MODEL",
        help=f"what a key holds: {', '.join(KEY_MODELS)} (default {KEY_MODELS[0]}), or module:Class of one's own",
    )
    check.add_argument(
        "--limit",
        type=above_zero,
        default=CONFIGURATIONS_MAX,
        metavar="N",
        help=f"configurations to visit for each key before it gives up (default {CONFIGURATIONS_MAX})",
    )
    add_json(check)


def _add_watch(commands: Commands) -> None:
    watch = commands.add(
        "watch",
        "follow a run while it goes on, say what is broken so far, and judge it when it is over",
        lazy("upheaval.cli.watch:watch"),
    )
    add_cluster(watch)
    add_json(watch, "print one object a line")
    watch.set_defaults(ends_with_reader=True)


def _add_trace(commands: Commands) -> None:
    trace = commands.add(
        "trace", "print the messages and state changes of a traced run", lazy("upheaval.cli.trace:trace")
    )
    trace.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    trace.add_argument("--member", type=int, action="append", metavar="N", help="only this member; may be repeated")
    trace.add_argument("--message", action="append", metavar="NAME", help="such as NewLeadershipTerm; may be repeated")
    trace.add_argument("--from", dest="from_s", type=moment, metavar="T", help="seconds since the first entry")
    trace.add_argument("--to", dest="to_s", type=moment, metavar="T", help="seconds since the first entry")
    trace.add_argument(
        "--notation",
        choices=NOTATIONS,
        default=NOTATIONS[0],
        help="plain: messages and state changes; columns: only sent messages, with aligned fields",
    )
    add_json(trace, "print one object a line, as in the run folder")
    trace.set_defaults(ends_with_reader=True)


def _add_logs(commands: Commands) -> None:
    logs = commands.add("logs", "print what members and services said, by time", lazy("upheaval.cli.logs:logs"))
    logs.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    logs.add_argument("--member", type=int, action="append", metavar="N", help="only this member; may be repeated")
    logs.add_argument("--level", choices=LOG_LEVELS, default=LOG_LEVELS[0], help="from this level on (default info)")
    add_json(logs, "print one object a line")
    logs.set_defaults(ends_with_reader=True)


def _add_tamper(commands: Commands) -> None:
    tamper = commands.add(
        "tamper",
        "forge copies of valid runs in every way of a set of edits, and count what the verdict does not notice",
        lazy("upheaval.cli.tamper:tamper"),
    )
    tamper.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of valid runs; they are not changed")
    tamper.add_argument("--only", action="append", metavar="NAME", help="only this edit; may be repeated")
    tamper.add_argument(
        "--every-run",
        action="store_true",
        help="try each edit on every run that has what it changes, not only on the first; the worst outcome counts",
    )
    add_json(tamper)


def _add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", help="Spark master (default local[*])")


def _add_lake(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", choices=["python", "spark"], default="python", help="default python")
    parser.add_argument("--lake", help="read the runs of a lake instead (--engine spark)")
    parser.add_argument("--run", dest="run_id", metavar="ID", help="one run of the lake (default: all of them)")
    _add_master(parser)
