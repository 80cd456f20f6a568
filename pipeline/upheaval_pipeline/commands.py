"""What `verify`, `measure`, `ingest` and `query` do on Spark. Whether Spark is there is found out before anything of it
is imported.
"""

import argparse
import json
import sys
from typing import Any

from upheaval.cli import report, verify
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval_pipeline.session import LOCAL, require_spark, session


def verify_on_spark(options: argparse.Namespace) -> int:
    """Judge run folders, or runs of a lake, which keeps the verdicts."""
    require_spark()
    from upheaval_pipeline import verify as judge
    from upheaval_pipeline.verdicts import write_verdicts

    for run in options.runs:
        RunFolder(run).read_manifest()
    with session(options.master or LOCAL) as spark:
        if options.lake is None:
            judged = list(judge.verify(spark, options.runs))
        else:
            runs = _runs(spark, options)
            judged = list(judge.verify_lake(spark, options.lake, runs))
            write_verdicts(spark, options.lake, zip(runs, judged, strict=True))
    return verify.show_judged(judged, as_list=verify.are_several(options), as_json=options.json)


def measure_on_spark(options: argparse.Namespace) -> int:
    """Figures of run folders, or of runs of a lake."""
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


def ingest(options: argparse.Namespace) -> int:
    """Write run folders to a lake."""
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


def query(options: argparse.Namespace) -> int:
    """Print what a query over a lake gives, or what can be asked."""
    if options.list == (options.sql is not None):
        raise UsageError("name a query, or --list, and not both")
    require_spark()
    from upheaval_pipeline.query import ask, shown_tables

    with session(options.master or LOCAL) as spark:
        if options.list:
            print(table([["name", "a row is", "columns"], *map(list, shown_tables(spark, options.lake))]))
            return 0
        answer = ask(spark, options.lake, options.sql, options.limit)
    if options.json:
        for row in answer.rows:
            print(json.dumps(dict(zip(answer.columns, row, strict=True)), default=str))
    else:
        print(table([list(answer.columns), *([_shown(value) for value in row] for row in answer.rows)]))
    if answer.is_cut:
        print(f"upheaval: there are more rows than {options.limit}: --limit N prints more", file=sys.stderr)
    return 0


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _runs(spark: Any, options: argparse.Namespace) -> list[str]:
    from upheaval_pipeline.run_tables import runs_of_lake

    return [options.run_id] if options.run_id is not None else runs_of_lake(spark, options.lake)
