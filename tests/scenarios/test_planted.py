"""Every planted bug breaks the promise that is to find it, on virtual and real members; without it nothing breaks."""

import json
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from support.planted_runs import LIVE_BUGS, broken, named_bugs, run, says_so
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.runtimes.process import ProcessCluster
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import SHOWN_BY_SCENARIOS

BUGS = pytest.mark.parametrize("bug", SHOWN_BY_SCENARIOS, ids=[bug.name for bug in SHOWN_BY_SCENARIOS])


@BUGS
def test_simulated(bug: PlantedBug, tmp_path: Path) -> None:
    assert run(bug, "simulated", tmp_path / "before", planted=False) == 0
    assert run(bug, "simulated", tmp_path / "wrong", planted=True) == 1
    assert broken(tmp_path / "wrong") == sorted([bug.caught_by[0], *bug.breaks_too])
    assert named_bugs(tmp_path / "wrong") == {bug.name}
    # The bug went with its run: the next one in this process is the same execution as the one before.
    assert run(bug, "simulated", tmp_path / "after", planted=False) == 0
    assert digest(tmp_path / "after") == digest(tmp_path / "before") != digest(tmp_path / "wrong")
    assert named_bugs(tmp_path / "after") == {None}


@BUGS
def test_a_replay_has_the_bug_too(bug: PlantedBug, tmp_path: Path) -> None:
    assert run(bug, "simulated", tmp_path / "wrong", planted=True) == 1
    assert main(["replay", str(tmp_path / "wrong"), "--dir", str(tmp_path / "again")]) == 1
    assert digest(tmp_path / "again") == digest(tmp_path / "wrong")
    assert named_bugs(tmp_path / "again") == {bug.name}


def test_a_member_that_refuses_to_go_on_leaves_no_valid_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ["--planted", "commit-without-a-quorum", "--dir", str(folder)]
    assert main(["run", "leader-isolated-blackhole", *options]) in (1, 3)
    first = json.loads((folder / "result.json").read_text())["promises"][0]
    assert (first["promise"], first["verdict"]) == (Promise.RUN_ENDED, Verdict.UNKNOWN.text)
    assert "below the commit position" in first["detail"]
    assert verify_run(folder).finding(Promise.RUN_ENDED).to_fields() == first


@pytest.mark.heavy
@pytest.mark.parametrize("planted", [pytest.param(False, marks=pytest.mark.nightly), True])
@pytest.mark.parametrize("bug", LIVE_BUGS)
def test_processes(bug: PlantedBug, planted: bool, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    status = run(bug, "process", folder, planted=planted)
    end_without_trace(ProcessCluster.open(folder))
    assert (status, broken(folder)) == ((1, sorted([bug.caught_by[0], *bug.breaks_too])) if planted else (0, []))
    assert named_bugs(folder) == {bug.name if planted else None}
    assert says_so(folder, bug) is planted


def digest(folder: Path) -> str:
    return str(json.loads((folder / "result.json").read_text())["digest"])
