"""A run of live members with more faults than its failure needs, made simpler by the command line."""

import json
import shlex
from pathlib import Path
from typing import Final

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main

BUG: Final = "new-leader-closes-all-sessions"
PROMISE: Final = "sessions-outlive-leaders"
TEXT: Final = """title A leader dies, and more happens
cluster members=3
workload rate=60
wait operations 60
begin slow slow member-2 -> member-0 latency-ms=20
wait operations 20
end slow
inject dead kill leader
wait leader other-than dead
heal dead
wait caught-up dead
"""


def require_shrunk(runtime: str, runs: int, capsys: pytest.CaptureFixture[str]) -> None:
    """In the current folder: the fault that the failure does not need is gone, and the text fails when it is run."""
    Path("more.scenario").write_text(TEXT, encoding="utf-8")
    assert main(["run", "more.scenario", "--runtime", runtime, "--planted", BUG, "--dir", "run"]) == 1
    capsys.readouterr()
    assert main(["shrink", "run", "--runs", str(runs), "--json"]) == 0
    shrunk = json.loads(capsys.readouterr().out)
    scenario = shrunk["scenario"]
    assert shrunk["fingerprint"]["promise"] == PROMISE
    lines = scenario["text"].splitlines()
    assert not [line for line in lines if "slow" in line]
    assert "inject dead kill leader" in lines
    assert scenario["fresh_failures"] > scenario["fresh_runs"] / 2
    assert scenario["interval"][0] < scenario["fresh_failures"] / scenario["fresh_runs"] <= scenario["interval"][1]
    assert PROMISE in {str(finding.promise) for finding in verify_run(Path("run-smallest/run")).worst_first[:1]}
    program, *words = shlex.split(scenario["command"])
    assert (program, main([*words, "--dir", "again"])) == ("upheaval", 1)
