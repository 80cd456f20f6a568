"""The planted bug in containers: the test image has it, the image of the product cannot have it."""

from pathlib import Path

import pytest

from support.docker_runs import left_of
from upheaval import images
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.run_folder import RunFolder
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.scenario_live import LiveStage
from upheaval.scenario_run import run_scenario
from upheaval.scenario_text import load_scenario
from upheaval_chaos.planted.bug import CATALOGUE, PlantedBug


@pytest.fixture(scope="session")
def node_test_image(engine: Client, node_image: str) -> str:
    """The tag of the test build, built from what is here on the image of the product."""
    if not images.image_state(engine, images.NODE_TEST).is_current:
        images.build(engine, images.NODE_TEST, base=None, offline=True, say=print)
    return images.NODE_TEST.tag


@pytest.mark.heavy
@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize("bug", CATALOGUE, ids=[bug.name for bug in CATALOGUE])
def test_the_bug_breaks_its_promise(
    bug: PlantedBug, planted: bool, tmp_path: Path, engine: Client, node_test_image: str
) -> None:
    folder = RunFolder(tmp_path / "run")
    scenario, name = load_scenario(bug.scenario), bug.name if planted else None
    stage = LiveStage(scenario, "docker", 1, folder.path, name)
    result = run_scenario(scenario, stage, runtime="docker", seed=1, say=print, planted=name)
    broken = [finding.promise for finding in result.report.findings if finding.verdict is Verdict.INVALID]
    assert broken == ([bug.caught_by] if planted else []), result.report.findings
    assert result.verdict is (Verdict.INVALID if planted else Verdict.VALID), result.report.findings
    assert folder.read_manifest().planted == name
    assert ("test build with a planted bug" in (folder.member(0).path / "all.log").read_text()) is planted
    assert left_of(engine, folder.read_manifest().run_id) == []


def test_the_image_of_the_product_has_no_bugs_in_it(engine: Client, node_image: str, node_test_image: str) -> None:
    script = "import importlib.util; print(importlib.util.find_spec('upheaval_chaos') is not None)"
    has_bugs = [
        engine.containers.run(tag, ["-c", script], entrypoint="python3", remove=True, network_mode="none").decode()
        for tag in (node_image, node_test_image)
    ]
    assert has_bugs == ["False\n", "True\n"]


def test_an_image_that_may_be_without_the_bug_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out the image upheaval/node:1"):
        DockerCluster.create(tmp_path / "run", image="upheaval/node:1", planted=CATALOGUE[0].name)
    assert not (tmp_path / "run").exists()
