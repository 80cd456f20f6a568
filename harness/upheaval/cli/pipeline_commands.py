"""The commands that read many runs, and the report of one: their options. What they do, they import when called."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upheaval.cli.lazy import lazy
from upheaval.errors import UsageError


def add_commands(commands: Any) -> None:
    """Add `verify`, `measure`, `report` and `ingest` to the command line."""
    verify = commands.add_parser("verify", help="judge a run from its folder alone, or runs of a lake")
    verify.add_argument("run", type=Path, nargs="?", metavar="RUN", help="the run folder")
    verify.add_argument("--json", action="store_true")
    verify.add_argument("--engine", choices=["python", "spark"], default="python", help="what judges (default python)")
    _add_lake(verify)
    verify.set_defaults(command=lazy("upheaval.cli.verify:verify"))
    measure = commands.add_parser("measure", help="throughput, latency, outages, catching up, what each fault did")
    measure.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    measure.add_argument("--json", action="store_true")
    measure.add_argument("--engine", choices=["python", "spark"], default="python", help="default python")
    _add_lake(measure)
    measure.set_defaults(command=lazy("upheaval.cli.report:measure"))
    report = commands.add_parser("report", help="one run as one HTML page")
    report.add_argument("run", type=Path)
    report.add_argument("--output", type=Path, help="the page's file (default: report.html in the run folder)")
    report.set_defaults(command=lazy("upheaval.cli.report:report"))
    ingest = commands.add_parser("ingest", help="write run folders to a lake of Parquet tables (Spark)")
    ingest.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    ingest.add_argument("--lake", required=True, help="folder or address of the lake")
    ingest.add_argument("--json", action="store_true")
    _add_master(ingest)
    ingest.set_defaults(command=lazy("upheaval_pipeline.commands:ingest"))


def _add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", help="Spark master (default local[*])")


def _add_lake(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", help="read the runs of a lake instead (--engine spark)")
    parser.add_argument("--run", dest="run_id", metavar="ID", help="one run of the lake (default: all of them)")
    _add_master(parser)


def require_one_place(options: argparse.Namespace, folders: Sequence[Path]) -> None:
    """Raises `UsageError` unless the options name run folders or a lake, and only what their engine can read."""
    if (options.lake is None) != bool(folders):
        raise UsageError("name a run folder, or a lake with --lake, and not both")
    if options.lake is not None and options.engine != "spark":
        raise UsageError("a lake is read by Spark: add --engine spark")
    if options.master is not None and options.engine != "spark":
        raise UsageError("--master is Spark's: add --engine spark")
    if options.lake is None and options.run_id is not None:
        raise UsageError("--run names a run of a lake: add --lake")
