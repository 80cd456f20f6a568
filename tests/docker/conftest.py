"""A real engine, the image built from these sources, and a proof after each test that nothing of it is left."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.compose_projects import remove_abandoned
from support.docker_runs import left_of, require_whole
from support.stranger import FOR_CONTAINERS, make_environment
from upheaval import images
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.engine import Client, connected
from upheaval.system import ClusterSpec


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """A connection that was never closed is a warning, and with that a failure, of the test that made it."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel of this tree and what its extra for containers brings."""
    return make_environment(tmp_path_factory.mktemp("stranger"), FOR_CONTAINERS)


@pytest.fixture(scope="session")
def engine() -> Iterator[Client]:
    with connected() as client:
        yield client


@pytest.fixture(scope="session")
def tidy(engine: Client) -> Client:
    """An engine without what killed test runs left of their compose projects."""
    remove_abandoned(engine)
    return engine


@pytest.fixture(scope="session")
def node_image(engine: Client) -> str:
    """The tag of an image that was built from what is here, without a registry."""
    if not images.image_state(engine, images.NODE).is_current:
        images.build(engine, images.NODE, base=None, offline=True, say=print)
    return images.NODE.tag


@pytest.fixture(scope="session")
def node_test_image(engine: Client, node_image: str) -> str:
    """The tag of the test build, built from what is here on the image of the product."""
    if not images.image_state(engine, images.NODE_TEST).is_current:
        images.build(engine, images.NODE_TEST, base=None, offline=True, say=print)
    return images.NODE_TEST.tag


@pytest.fixture(scope="session")
def link_images(engine: Client) -> None:
    """What breaks links: Toxiproxy and the filters of packets."""
    for image in (images.TOXIPROXY, images.NETFAULT):
        if not images.image_state(engine, image).is_current:
            images.build(engine, image, base=None, offline=True, say=print)


@pytest.fixture(scope="module")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, node_image: str, engine: Client
) -> Iterator[DockerCluster]:
    """Three members that serve, for the tests of a module."""
    cluster = DockerCluster.create(tmp_path_factory.mktemp("shared") / "run", ClusterSpec(image=node_image))
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
    assert left_of(engine, cluster.config.run_id) == []


@pytest.fixture
def cluster(shared_cluster: DockerCluster) -> Iterator[DockerCluster]:
    """The same for a test that heals what it breaks: whole before it and after it."""
    require_whole(shared_cluster)
    yield shared_cluster
    require_whole(shared_cluster)
