"""`upheaval shrink` on runs of live members: which lines a failure does not need, and how often it fails without."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main
from upheaval.execution.run import RESULT_FILE
from upheaval.records import jsonfields

BUG, PROMISE = "new-leader-closes-all-sessions", "sessions-outlive-leaders"
TEXT = """title A leader dies, and more happens
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
QUIET = """title Nothing happens
workload rate=100
wait operations 100
"""


@pytest.mark.nightly
@pytest.mark.heavy
def test_a_run_of_processes_is_made_simpler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("more.scenario").write_text(TEXT, encoding="utf-8")
    assert main(["run", "more.scenario", "--runtime", "process", "--planted", BUG, "--dir", "run"]) == 1
    capsys.readouterr()
    assert main(["shrink", "run", "--runs", "12", "--json"]) == 0
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


def test_what_live_members_cannot_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a valid run, taken for one of processes."""
    monkeypatch.chdir(tmp_path)
    Path("quiet.scenario").write_text(QUIET, encoding="utf-8")
    assert main(["run", "quiet.scenario", "--runtime", "simulated", "--dir", "simulated"]) == 0
    shutil.copytree("simulated", "run")
    result = jsonfields.parse_object(Path("run", RESULT_FILE).read_text(encoding="utf-8"))
    Path("run", RESULT_FILE).write_text(jsonfields.to_json({**result, "runtime": "process"}), encoding="utf-8")
    capsys.readouterr()
    for words, status, why in (
        (["--jobs", "2"], 2, "clusters on the process runtime run one after the other: leave out --jobs"),
        ([], 3, "breaks no promise: shrink a run that is invalid"),
    ):
        assert main(["shrink", "run", *words]) == status
        error = capsys.readouterr().err
        assert why in error
        assert error.count("\n") == 1
    assert not Path("run-smallest").exists()
