"""`upheaval watch --alert`: a program gets each broken promise once, and its failure changes no verdict."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from support.watching import Reported
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.alerts import Alerts, program_of
from upheaval.cli.main import main

APPEND = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
LOST = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "operation 7 is in no log")
STALE = Finding(Promise.LINEARIZABLE, Verdict.INVALID, "a read of 3 after 4")
EQUAL = Finding(Promise.LOGS_EQUAL, Verdict.VALID, "three logs")


def alerted(program: list[str], folder: Path) -> Reported:
    """What the output behind the alerts got of two findings on one promise, and of the end."""
    reported = Reported()
    alerts = Alerts(reported, program, folder)
    alerts.finding(LOST)
    alerts.finding(LOST)
    alerts.end(Report(str(folder), (EQUAL, LOST, STALE)), 9)
    assert reported.findings == [LOST, LOST]
    assert reported.report is not None
    return reported


def test_each_broken_promise_is_one_line_of_json(tmp_path: Path) -> None:
    got = tmp_path / "got"
    alerted([sys.executable, "-c", APPEND, str(got)], tmp_path)
    first, second = map(json.loads, got.read_text().splitlines())
    assert (first["kind"], first["run"], first["promise"]) == ("finding", str(tmp_path), "acknowledged-not-lost")
    assert (first["verdict"], first["detail"]) == ("invalid", LOST.detail)
    assert second["promise"] == "linearizable"


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("import sys; print('no network'); sys.exit(4)", "ended with status 4: no network"),
        ("import sys; sys.exit(5)", "ended with status 5"),
    ],
)
def test_a_program_that_fails_is_a_line_and_the_watch_goes_on(
    code: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = [sys.executable, "-c", code]
    alerted(program, tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"upheaval: the alert on {promise} failed: {shlex.join(program)} {shown}"
        for promise in ("acknowledged-not-lost", "linearizable")
    ]


def test_a_program_that_does_not_end_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Alerts(Reported(), ["tail", "-f", "/dev/null"], tmp_path, limit_s=0.2).finding(LOST)
    assert capsys.readouterr().err.endswith("tail -f /dev/null did not end within 0.2 s\n")


def test_a_command_is_split_as_a_shell_does() -> None:
    assert program_of("sh -c 'cat > alert.json'") == ["sh", "-c", "cat > alert.json"]


@pytest.mark.parametrize("command", ["", "no-such-program-of-mine --now", "'open"])
def test_a_command_that_is_no_program_is_refused_before_the_run_is_read(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--dir", str(tmp_path), "--alert", command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"upheaval: --alert {command!r}: ")
