"""Folders in which no cluster may start: a copy of another one, and the finished run of a scenario."""

import shutil
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.records import seal
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

COMMANDS = (["up"], ["start", "0"], ["kill", "0"], ["down"], ["status"])


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_copied_or_moved_cluster_is_refused_and_both_folders_stay_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_moved: bool
) -> None:
    made, other = tmp_path / "made", tmp_path / "other"
    ProcessCluster.create(made, ClusterSpec(members=1))
    if is_moved:
        made.rename(other)
    else:
        shutil.copytree(made, other)
    before = contents(tmp_path)
    for name, *words in COMMANDS:
        assert main([name, "--dir", str(other), *words]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith(f"upheaval: {other} was made in {made}: ")
        assert captured.err.count("\n") == 1
    assert contents(tmp_path) == before


def test_a_cluster_is_the_same_by_a_link(tmp_path: Path) -> None:
    ProcessCluster.create(tmp_path / "made", ClusterSpec(members=1))
    (tmp_path / "link").symlink_to("made")
    assert main(["status", "--dir", str(tmp_path / "link")]) == 0


def test_the_finished_run_of_a_scenario_does_not_start_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = ProcessCluster.create(tmp_path / "other", ClusterSpec(members=1))
    seal(other.run)
    other.require_unfinished()
    cluster = ProcessCluster.create(tmp_path / "run", ClusterSpec(members=1))
    cluster.run.write_scenario("title x\nwait operations 1\n")
    cluster.require_unfinished()
    seal(cluster.run)
    before = contents(tmp_path)
    for name, *words in COMMANDS[:2]:
        assert main([name, "--dir", str(cluster.folder), *words]) == 2
        why = "is the finished run of a scenario: start a cluster in a new folder"
        assert capsys.readouterr().err == f"upheaval: {cluster.folder} {why}\n"
    with pytest.raises(UsageError, match="finished run"):
        cluster.up()
    assert contents(tmp_path) == before
