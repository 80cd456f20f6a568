"""The commands that read many runs, and the report of one: their options, and how they print.

What needs Spark is imported when it is asked for, after it was found out whether Spark is there.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.run_folder import RunFolder

LOCAL = "local[*]"


def add_commands(commands: Any) -> None:
    """Add `verify`, `measure`, `report` and `ingest` to the command line."""
    verify = commands.add_parser("verify", help="judge a run from its folder alone, or runs of a lake")
    verify.add_argument("run", type=Path, nargs="?", metavar="RUN", help="the run folder")
    verify.add_argument("--json", action="store_true")
    verify.add_argument("--engine", choices=["python", "spark"], default="python", help="what judges (default python)")
    _add_lake(verify)
    verify.set_defaults(command=_verify)
    measure = commands.add_parser("measure", help="throughput, latency, outages, catching up, what each fault did")
    measure.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    measure.add_argument("--json", action="store_true")
    measure.add_argument("--engine", choices=["python", "spark"], default="python", help="default python")
    _add_lake(measure)
    measure.set_defaults(command=_measure)
    report = commands.add_parser("report", help="one run as one HTML page")
    report.add_argument("run", type=Path)
    report.add_argument("--output", type=Path, help="the page's file (default: report.html in the run folder)")
    report.set_defaults(command=_report)
    ingest = commands.add_parser("ingest", help="write run folders to a lake of Parquet tables (Spark)")
    ingest.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    ingest.add_argument("--lake", required=True, help="folder or address of the lake")
    ingest.add_argument("--json", action="store_true")
    _add_master(ingest)
    ingest.set_defaults(command=_ingest)


def _add_master(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", help=f"Spark master (default {LOCAL})")


def _add_lake(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", help="read the runs of a lake instead (--engine spark)")
    parser.add_argument("--run", dest="run_id", metavar="ID", help="one run of the lake (default: all of them)")
    _add_master(parser)


def _require_one_place(options: argparse.Namespace, folders: Sequence[Path]) -> None:
    if (options.lake is None) != bool(folders):
        raise UsageError("name a run folder, or a lake with --lake, and not both")
    if options.lake is not None and options.engine != "spark":
        raise UsageError("a lake is read by Spark: add --engine spark")
    if options.master is not None and options.engine != "spark":
        raise UsageError("--master is Spark's: add --engine spark")
    if options.lake is None and options.run_id is not None:
        raise UsageError("--run names a run of a lake: add --lake")


def _verify(options: argparse.Namespace) -> int:
    from upheaval.cli import verify

    _require_one_place(options, [] if options.run is None else [options.run])
    if options.engine == "python":
        return verify.verify(options.run, as_json=options.json)
    from upheaval_pipeline.session import require_spark, session

    require_spark()
    from upheaval_pipeline import verify as judge

    if options.lake is None:
        RunFolder(options.run).read_manifest()
        with session(options.master or LOCAL) as spark:
            report = judge.verify(spark, options.run)
        return verify.show(report, as_json=options.json)
    with session(options.master or LOCAL) as spark:
        reports = [judge.verify_lake(spark, options.lake, run) for run in _runs(spark, options)]
    if options.run_id is not None:
        return verify.show(reports[0], as_json=options.json)
    return verify.show_several(reports, as_json=options.json)


def _runs(spark: Any, options: argparse.Namespace) -> list[str]:
    from upheaval_pipeline.run_tables import runs_of_lake

    return [options.run_id] if options.run_id is not None else runs_of_lake(spark, options.lake)


def _measure(options: argparse.Namespace) -> int:
    from upheaval.cli import report

    _require_one_place(options, options.runs)
    if options.engine == "python":
        return report.measure(options.runs, as_json=options.json)
    from upheaval_pipeline.session import require_spark, session

    require_spark()
    from upheaval_pipeline.measure import measure, measure_lake

    for run in options.runs:
        RunFolder(run).read_manifest()
    with session(options.master or LOCAL) as spark:
        if options.lake is None:
            measured = {str(run): measure(spark, run) for run in options.runs}
        else:
            measured = {run: measure_lake(spark, options.lake, run) for run in _runs(spark, options)}
    return report.show_figures(measured, as_json=options.json)


def _report(options: argparse.Namespace) -> int:
    from upheaval.cli import report

    return report.report(options.run, options.output)


def _ingest(options: argparse.Namespace) -> int:
    from upheaval_pipeline.session import require_spark, session

    require_spark()
    from upheaval_pipeline.ingest import TABLES, ingest, require_different_runs

    require_different_runs(options.runs)
    with session(options.master or LOCAL) as spark:
        written = ingest(spark, options.runs, options.lake)
    if options.json:
        print(json.dumps(written, indent=2))
    else:
        print(table([["run", *TABLES], *([run, *(str(n[t]) for t in TABLES)] for run, n in written.items())]))
    return 0
