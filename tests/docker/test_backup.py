"""A backup in a container of its own: the flow of `support.flows_backup`, the image's entry, and nothing left of it."""

from pathlib import Path
from typing import Any

import pytest

from support.built_images import require
from support.docker_runs import left_of
from support.flows_backup import backup_under_load_and_restore
from upheaval import images
from upheaval.runtimes.docker.engine import Client
from upheaval.system import AERON
from upheaval.testing.cluster import Cluster


def left_after_the_flow(folder: Path, engine: Client, **of: Any) -> list[list[str]]:
    """What each of its clusters, which are made so, leaves in the engine."""
    made: list[Cluster] = []

    def make(**options: Any) -> Cluster:
        made.append(Cluster(runtime="docker", **of, **options))
        return made[-1]

    backup_under_load_and_restore(make, folder)
    return [left_of(engine, cluster.run.read_manifest().run_id) for cluster in made]


@pytest.mark.nightly
def test_backup_under_load_and_restore_in_containers(tmp_path: Path, node_image: str, engine: Client) -> None:
    assert left_after_the_flow(tmp_path, engine, image=node_image) == [[], []]


@pytest.mark.nightly
def test_a_backup_of_aeron_under_load_and_restore_in_containers(tmp_path: Path, engine: Client) -> None:
    require(engine, images.AERON)
    assert left_after_the_flow(tmp_path, engine, system=AERON) == [[], []]


def test_a_configuration_that_is_none_is_one_line(node_image: str, engine: Client) -> None:
    container = engine.containers.run(
        node_image, ["backup"], environment={"UPHEAVAL_BACKUP_CONFIG": "{"}, detach=True, network_mode="none"
    )
    try:
        assert container.wait()["StatusCode"] == 2
        said = container.logs().decode()
    finally:
        container.remove(force=True, v=True)
    assert said.startswith("upheaval-node: UPHEAVAL_BACKUP_CONFIG cannot be used: ")
    assert said.count("\n") == 1
