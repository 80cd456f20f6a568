"""What `verify`, `measure` and `ingest` do on Spark. Whether Spark is there is found out before anything of it is
imported.
"""

import argparse
import json
from typing import Any

from upheaval.cli import report, verify
from upheaval.cli.tables import table
from upheaval.records import RunFolder
from upheaval_pipeline.session import LOCAL, require_spark, session


def verify_on_spark(options: argparse.Namespace) -> int:
    """Judge run folders, or runs of a lake."""
    require_spark()
    from upheaval_pipeline import verify as judge

    for run in options.runs:
        RunFolder(run).read_manifest()
    with session(options.master or LOCAL) as spark:
        if options.lake is None:
            judged = list(judge.verify(spark, options.runs))
        else:
            judged = list(judge.verify_lake(spark, options.lake, _runs(spark, options)))
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


def _runs(spark: Any, options: argparse.Namespace) -> list[str]:
    from upheaval_pipeline.run_tables import runs_of_lake

    return [options.run_id] if options.run_id is not None else runs_of_lake(spark, options.lake)
