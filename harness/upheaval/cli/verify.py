"""`upheaval verify`: the promises of a run as a table, and the verdict."""

import json
from pathlib import Path

from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Report
from upheaval.cli.tables import table


def verify(run: Path, *, as_json: bool) -> int:
    return show(verify_run(run), as_json=as_json)


def show(report: Report, *, as_json: bool) -> int:
    """Print a report; return what the command ends with."""
    if as_json:
        print(_json(report))
    else:
        print_report(report)
    return report.verdict.exit_status


def print_report(report: Report) -> None:
    """The table, then the verdict as the last line but one and the run folder as the last."""
    rows = [["promise", "verdict", "what it rests on"]]
    rows.extend([finding.promise, finding.verdict.text, finding.detail] for finding in report.findings)
    print(table(rows))
    print(f"verdict: {report.verdict.text}")
    print(Path(report.run).absolute(), flush=True)


def _json(report: Report) -> str:
    findings = [
        {"promise": finding.promise, "verdict": finding.verdict.text, "detail": finding.detail}
        for finding in report.findings
    ]
    return json.dumps({"run": report.run, "verdict": report.verdict.text, "findings": findings}, indent=2)
