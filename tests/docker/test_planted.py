"""The planted bug in containers: the test image has it, the image of the product cannot have it."""

from pathlib import Path

import pytest

from support.built_images import output_of
from support.docker_runs import left_of
from support.planted_runs import LIVE_BUGS, broken, named_bugs, run, says_so
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.system import ClusterSpec
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import CATALOGUE


@pytest.mark.heavy
@pytest.mark.parametrize("planted", [pytest.param(False, marks=pytest.mark.nightly), True])
@pytest.mark.parametrize("bug", LIVE_BUGS)
def test_the_bug_breaks_its_promise(
    bug: PlantedBug, planted: bool, tmp_path: Path, engine: Client, node_test_image: str
) -> None:
    folder = tmp_path / "run"
    status = run(bug, "docker", folder, planted=planted)
    assert (status, broken(folder)) == ((1, sorted([bug.caught_by[0], *bug.breaks_too])) if planted else (0, []))
    assert named_bugs(folder) == {bug.name if planted else None}
    assert says_so(folder, bug) is planted
    assert left_of(engine, RunFolder(folder).read_manifest().run_id) == []


def test_the_image_of_the_product_has_no_bugs_in_it(engine: Client, node_image: str, node_test_image: str) -> None:
    program = "import importlib.util; print(importlib.util.find_spec('upheaval_chaos') is not None)"
    script = f'python3 -c "{program}"'
    assert [output_of(engine, tag, script) for tag in (node_image, node_test_image)] == [["False"], ["True"]]


def test_an_image_that_may_be_without_the_bug_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out the image upheaval/node:1"):
        DockerCluster.create(tmp_path / "run", ClusterSpec(image="upheaval/node:1", planted=CATALOGUE[0].name))
    assert not (tmp_path / "run").exists()
