"""Planted bugs: the catalogue is true, a bug stays in the members it was put into, and the node has no trace of any."""

import json
from pathlib import Path

import pytest

import upheaval_node
from upheaval.checkers.promises import Promise
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.runtimes import cluster_file
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.world import World
from upheaval.scenario import scenario_names
from upheaval.system import ClusterSpec
from upheaval.workload import Load, WorkloadSettings
from upheaval_chaos.planted import program as test_build
from upheaval_chaos.planted.catalogue import CATALOGUE, bug_named
from upheaval_node.types import S

BUG = "commit-without-a-quorum"
NO_SUCH_BUG = f"unknown planted bug 'no-such-bug': use {', '.join(bug.name for bug in CATALOGUE)}"


def test_the_catalogue_names_promises_and_scenarios_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["planted", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [bug.name for bug in CATALOGUE] == sorted({bug.name for bug in CATALOGUE})
    assert {promise for row in rows for promise in row["caught_by"]} <= set(Promise)
    assert all(row["caught_by"] and row["breaks"].endswith(".") for row in rows)
    assert len(rows) >= 45
    assert {row["scenario"] for row in rows} <= {*scenario_names(), None}
    assert main(["planted"]) == 0
    assert BUG in capsys.readouterr().out


def test_the_node_knows_nothing_of_planted_bugs() -> None:
    sources = list(Path(upheaval_node.__file__).parent.rglob("*.py"))
    assert len(sources) > 50
    texts = {source: source.read_text(encoding="utf-8").lower() for source in sources}
    assert [source for source, text in texts.items() if "planted" in text or "upheaval_chaos" in text] == []


def test_a_bug_stays_in_the_cluster_that_it_was_put_into() -> None:
    """Two clusters step by step in one thread, one of them wrong: alone, only its leader goes on answering."""
    clusters = [SimulatedCluster(World(seed=3), ClusterSpec(planted=planted)) for planted in (None, BUG)]
    loads = [_lead_under_load(cluster) for cluster in clusters]
    for cluster in clusters:
        leader = cluster.leader()
        for member_id in cluster.member_ids:
            if member_id != leader:
                cluster.members[member_id].kill()
    for cluster in clusters:
        # What was on its way when the followers died may still be answered.
        cluster.world.run_for(S // 10)
    before = [load.counts.ok for load in loads]
    for _ in range(5):
        for cluster in clusters:
            cluster.world.run_for(S // 10)
    right, wrong = (load.counts.ok - count for load, count in zip(loads, before, strict=True))
    assert right == 0
    assert wrong > 50


def _lead_under_load(cluster: SimulatedCluster) -> Load:
    cluster.start_all()
    cluster.wait_until_leader()
    load = cluster.start_load(WorkloadSettings(rate=200, slots=8, seed=3))
    cluster.wait_until(lambda: load.counts.ok >= 20, 10, "operations")
    return load


def test_the_manifest_names_the_bug(tmp_path: Path) -> None:
    for planted in (None, BUG):
        folder = RunFolder(tmp_path / str(planted))
        SimulatedCluster(World(seed=1), ClusterSpec(planted=planted), folder=folder).write()
        assert folder.read_manifest().planted == planted


def test_an_unknown_bug_is_one_line_before_anything_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    for runtime in ("simulated", "process"):
        arguments = ["run", "leader-left-alone", "--runtime", runtime, "--planted", "no-such-bug", "--dir", str(folder)]
        assert main(arguments) == 2
        assert capsys.readouterr() == ("", f"upheaval: {NO_SUCH_BUG}\n")
    assert not folder.exists()
    with pytest.raises(UsageError, match="unknown planted bug"):
        cluster_file.check(ClusterSpec(planted="no-such-bug"), "process")


@pytest.mark.parametrize("is_variable", [False, True])
def test_the_test_build_does_not_start_without_a_bug_that_it_knows(
    is_variable: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--config", "nothing.json"]
    if is_variable:
        monkeypatch.setenv(test_build.VARIABLE, "no-such-bug")
    else:
        arguments += ["--planted", "no-such-bug"]
    assert test_build.main(arguments) == 2
    assert capsys.readouterr().err == f"upheaval-member: {NO_SUCH_BUG}\n"


def test_bugs_are_found_by_their_names() -> None:
    assert [bug_named(bug.name) for bug in CATALOGUE] == list(CATALOGUE)
