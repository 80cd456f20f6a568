"""`upheaval verify`: the promises of each run as a table, and the verdict."""

import json
from collections.abc import Sequence
from pathlib import Path

from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Report, worst
from upheaval.cli.judge_commands import VerifyOptions
from upheaval.cli.lake_options import from_one_place, in_pipeline
from upheaval.cli.screen import screen_of
from upheaval.cli.verdict_text import detail_asked, verdict_text
from upheaval.errors import EnvironmentFault, HarnessError, UsageError


def verify(options: VerifyOptions) -> int:
    """Judge run folders here, or whatever the options name on Spark; returns the exit status."""
    options = from_one_place(options)
    if options.lake is not None:
        return in_pipeline("verify_lake", options)
    if options.engine == "spark":
        return in_pipeline("verify_on_spark", options)
    judged = [_judged(run) for run in options.runs]
    return show_judged(judged, as_list=options.are_several, as_json=options.json)


def _judged(run: Path) -> Report | HarnessError:
    try:
        return verify_run(run)
    except (UsageError, EnvironmentFault) as error:
        return error


def show_judged(judged: Sequence[Report | HarnessError], *, as_list: bool, as_json: bool) -> int:
    """Print the reports; return what the command ends with, the worst of them counts.

    Raises `UsageError` with why any could not be judged, after the reports of all others.
    """
    reports = [outcome for outcome in judged if isinstance(outcome, Report)]
    if as_list and as_json:
        print(json.dumps([report.to_fields() for report in reports], indent=2))
    else:
        for report in reports:
            show(report, as_json=as_json)
    refused = [str(outcome) for outcome in judged if isinstance(outcome, HarnessError)]
    if refused:
        raise UsageError("; ".join(refused))
    return worst([report.verdict for report in reports]).exit_status


def show(report: Report, *, as_json: bool) -> int:
    """Print a report; return what the command ends with."""
    if as_json:
        print(json.dumps(report.to_fields(), indent=2))
    else:
        print_report(report)
    return report.verdict.exit_status


def print_report(report: Report) -> None:
    """As people read it, on standard output; the last line is the run folder."""
    print(verdict_text(report, screen_of(), detail_asked()), flush=True)
