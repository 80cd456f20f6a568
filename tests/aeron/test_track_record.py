"""A known bug of Aeron's, found in a version that has it."""

from pathlib import Path

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.execution.known_bugs import known_bugs, tries_of


@pytest.mark.heavy
def test_a_known_bug_is_found_in_the_version_that_has_it(tmp_path: Path) -> None:
    (bug,) = known_bugs(["1739"])
    run = tmp_path / "run"
    system = ["--runtime", "process", "--system", f"aeron:{bug.bad}"]
    assert main(["run", bug.scenario_name, *system, "--dir", str(run)]) == Verdict.INVALID.exit_status
    report = verify_run(run)
    assert tries_of(bug, bug.bad, [report]).caught == 1
    assert "next_session_id" in report.finding(bug.promise).detail
