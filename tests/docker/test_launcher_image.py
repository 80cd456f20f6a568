"""Members in containers that a program of the user's starts: in an image of its own, or in a copy of its folder."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aeron_jar import jar
from support.docker_runs import left_of
from support.stranger import copy_of, pytest_in
from upheaval import images
from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.docker.hosts import DockerHosts
from upheaval.runtimes.renewal import Renewal
from upheaval.system import ClusterSpec

pytestmark = pytest.mark.nightly

EXAMPLE: Final = "java-launcher"
TIMEOUT_S: Final = 900


@pytest.fixture(scope="module", autouse=True)
def _built(engine: Client) -> None:
    for image in (images.AERON, images.NETFAULT):
        images.build(engine, image, base=None, offline=True, say=print)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, compiled."""
    folder = copy_of(EXAMPLE, tmp_path_factory.mktemp("desk") / EXAMPLE)
    sources = [str(path) for path in (folder / "src" / "main").rglob("*.java")]
    subprocess.run(["javac", "-cp", str(jar()), "-d", str(folder / "target/classes"), *sources], check=True)
    return folder


@pytest.fixture(scope="module")
def image(desk: Path, engine: Client) -> Iterator[str]:
    """The image of the example, on a base without anything of the harness."""
    tag = f"upheaval-test-desk:{desk.parent.name}"
    base = images.AERON.offline_base
    assert base is not None
    engine.images.build(path=str(desk), tag=tag, buildargs={"BASE_IMAGE": base.tag}, rm=True, forcerm=True)
    yield tag
    engine.images.remove(tag)


@pytest.mark.parametrize("way", ["image", "copy"])
def test_a_kill_and_a_partition_of_members_of_a_launcher_are_valid(way: str, desk: Path, image: str) -> None:
    """The other test of the example restarts the cluster from a snapshot."""
    what = [] if way == "image" else ["-k", "leaders"]
    options = ["-o", f"upheaval_image={image}"] if way == "image" else []
    done = pytest_in(desk, Path(sys.executable), "--runtime", "docker", *what, *options, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        ("./no-such-program", r"ended with status 2: upheaval-aeron: launcher './no-such-program': no program "),
        ("echo no cluster", "ended with status 0: its launcher started no component of Aeron: no cluster"),
        ("sh -c 'echo waiting; exec tail -f /dev/null'", "has written no trace: .*: waiting"),
    ],
)
def test_an_image_without_a_member_is_refused_in_one_line(
    launcher: str, message: str, tmp_path: Path, image: str, engine: Client
) -> None:
    spec = ClusterSpec(1, system="aeron", launcher=launcher, image=image)
    with DockerCluster.create(tmp_path / "run", spec) as cluster:
        with pytest.raises(EnvironmentFault, match=f"^member 0 {message}"):
            cluster.up(timeout_s=60)
        assert left_of(engine, cluster.config.run_id) == []


def test_a_launcher_that_starts_nothing_in_a_new_container_is_refused_at_once(
    desk: Path, tmp_path: Path, engine: Client
) -> None:
    """The trace of the old container is in the volume."""
    run = "exec java -cp {aeron}:target/classes desk.DeskMember"
    once = f"sh -c 'test -e ../once && echo it runs already && exit 0; touch ../once; {run}'"
    spec = ClusterSpec(1, system="aeron", launcher=once, source=str(desk), service="target/classes:desk.DeskService")
    with DockerCluster.create(tmp_path / "run", spec) as cluster:
        cluster.up()
        cluster.member(0).stop()
        DockerHosts(cluster).renew(0, Renewal())
        cluster.member(0).node.start()
        says = r"ended with status 0: its launcher started no component .*it runs already"
        with pytest.raises(EnvironmentFault, match=says):
            cluster.wait_until_leader(120)
