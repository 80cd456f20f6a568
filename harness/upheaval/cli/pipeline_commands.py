"""The commands that read many runs, and the report of one: their options, and how they print.

What needs Spark is imported when it is asked for, after it was found out whether Spark is there.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from upheaval.checkers.verdict import Report
from upheaval.cli.tables import table
from upheaval.run_folder import RunFolder


def add_commands(commands: Any) -> None:
    """Add `measure`, `report` and `ingest` to the command line."""
    measure = commands.add_parser("measure", help="throughput, latency, outages and what each fault did to them")
    measure.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    measure.add_argument("--json", action="store_true")
    measure.add_argument("--engine", choices=["python", "spark"], default="python", help="default python")
    add_master(measure)
    measure.set_defaults(command=_measure)
    report = commands.add_parser("report", help="one run as one HTML page")
    report.add_argument("run", type=Path)
    report.add_argument("--output", type=Path, help="the page's file (default: report.html in the run folder)")
    report.set_defaults(command=_report)
    ingest = commands.add_parser("ingest", help="write run folders to a lake of Parquet tables (Spark)")
    ingest.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    ingest.add_argument("--lake", required=True, help="folder or address of the lake")
    ingest.add_argument("--json", action="store_true")
    add_master(ingest)
    ingest.set_defaults(command=_ingest)


def add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default="local[*]", help="Spark master (default local[*])")


def verify(options: argparse.Namespace) -> Report:
    """The verdict of the Spark engine."""
    from upheaval_pipeline.session import require_spark, session

    require_spark()
    from upheaval_pipeline.verify import verify as judge

    RunFolder(options.run).read_manifest()
    with session(options.master) as spark:
        return judge(spark, options.run)


def _measure(options: argparse.Namespace) -> int:
    from upheaval.cli import report

    if options.engine == "python":
        return report.measure(options.runs, as_json=options.json)
    from upheaval_pipeline.session import require_spark, session

    require_spark()
    from upheaval_pipeline.measure import measure

    for run in options.runs:
        RunFolder(run).read_manifest()
    with session(options.master) as spark:
        measured = {str(run): measure(spark, run) for run in options.runs}
    return report.show_figures(measured, as_json=options.json)


def _report(options: argparse.Namespace) -> int:
    from upheaval.cli import report

    return report.report(options.run, options.output)


def _ingest(options: argparse.Namespace) -> int:
    from upheaval_pipeline.session import require_spark, session

    require_spark()
    from upheaval_pipeline.ingest import TABLES, ingest

    with session(options.master) as spark:
        written = ingest(spark, options.runs, options.lake)
    if options.json:
        print(json.dumps(written, indent=2))
    else:
        print(table([["run", *TABLES], *([run, *(str(n[t]) for t in TABLES)] for run, n in written.items())]))
    return 0
