"""Orders of an operator by the command line, on processes: each returns when every member shows its effect."""

from pathlib import Path

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import RunFolder
from upheaval.runtimes.process import ProcessCluster

pytestmark = pytest.mark.heavy


def test_a_cluster_by_hand_takes_snapshots_and_ends_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    assert main(["up", "--dir", folder, "--components", "split", "--service", "ledger"]) == 0
    try:
        for order in ("snapshot", "suspend", "resume", "shutdown"):
            assert main([order, "--dir", folder]) == 0
        assert main(["up", "--dir", folder]) == 0
        assert main(["abort", "--dir", folder]) == 0
        capsys.readouterr()
        assert main(["snapshot", "--dir", folder, "--timeout", "1"]) == 3
        assert "no member is running" in capsys.readouterr().err
    finally:
        main(["down", "--dir", folder])
    controls = list(RunFolder(folder).read_controls())
    assert [control.what for control in controls] == ["snapshot", "suspend", "resume", "shutdown", "abort", "snapshot"]
    assert [control.proof.holds for control in controls] == [True] * 5 + [False]
    ended = controls[3].members["0"]
    assert isinstance(ended, dict)
    assert ended["exit_statuses"] == [0, 0, 0]


@pytest.mark.nightly
def test_a_leader_in_several_processes_waits_for_a_dead_follower_and_writes_down_its_end(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    assert main(["up", "--dir", folder, "--components", "split"]) == 0
    try:
        dead = next(status.member_id for status in ProcessCluster.open(folder).status() if status.role == "FOLLOWER")
        assert main(["kill", "--dir", folder, str(dead)]) == 0
        assert main(["shutdown", "--dir", folder]) == 0
    finally:
        main(["down", "--dir", folder])
    finding = verify_run(folder).finding(Promise.ENDS_AT_ONE_POSITION)
    assert finding.verdict is Verdict.VALID, finding
    others = ", ".join(str(member_id) for member_id in range(3) if member_id != dead)
    assert finding.detail.startswith(f"members {others} at ")
