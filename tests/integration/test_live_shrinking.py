"""`upheaval shrink` on runs of live members: which lines a failure does not need, and how often it fails without."""

import shutil
from pathlib import Path

import pytest

from support.shrunk_runs import require_shrunk
from upheaval.cli.main import main
from upheaval.execution.run import RESULT_FILE
from upheaval.records import jsonfields
from upheaval.runtime_names import PROCESS

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
    require_shrunk(PROCESS, 12, capsys)


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
        ([], 2, "breaks no promise: name a run that is invalid"),
    ):
        assert main(["shrink", "run", *words]) == status
        error = capsys.readouterr().err
        assert why in error
        assert error.count("\n") == 1
    assert not Path("run-smallest").exists()
