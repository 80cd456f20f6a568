"""`upheaval verify`: the promises of a run as a table, and the verdict."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Report, worst
from upheaval.cli.lake_options import require_one_place
from upheaval.cli.lazy import lazy
from upheaval.cli.tables import table

NOT_CHECKED: Final = "not checked"


def verify(options: argparse.Namespace) -> int:
    """Judge a run folder here, or whatever the options name on Spark; returns the exit status."""
    require_one_place(options, [] if options.run is None else [options.run])
    if options.engine == "spark":
        return lazy("upheaval_pipeline.commands:verify_on_spark")(options)
    return show(verify_run(options.run), as_json=options.json)


def show(report: Report, *, as_json: bool) -> int:
    """Print a report; return what the command ends with."""
    if as_json:
        print(json.dumps(report.to_fields(), indent=2))
    else:
        print_report(report)
    return report.verdict.exit_status


def show_several(reports: Sequence[Report], *, as_json: bool) -> int:
    """Print the reports of several runs; return what the command ends with: the worst of them counts."""
    if as_json:
        print(json.dumps([report.to_fields() for report in reports], indent=2))
    else:
        for report in reports:
            print_report(report)
    return worst([report.verdict for report in reports]).exit_status


def print_report(report: Report) -> None:
    """The table, the worst first and what was not checked last; the verdict; and as the last line the run folder."""
    rows = [["promise", "verdict", "evidence"]]
    rows.extend([finding.promise.sentence, finding.verdict.text, finding.evidence] for finding in report.worst_first)
    rows.extend([each.promise.sentence, NOT_CHECKED, each.why] for each in report.unchecked)
    print(table(rows))
    print(f"verdict: {report.verdict.text}")
    print(Path(report.run).absolute(), flush=True)
