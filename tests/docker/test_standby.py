"""A standby in a container of its own: the flow of `support.flows_standby`, and nothing left of it."""

from functools import partial
from pathlib import Path

import pytest

from support.docker_runs import left_of
from support.flows_standby import standby_snapshot_and_promotion
from upheaval.runtimes.docker.engine import Client
from upheaval.testing.cluster import Cluster


@pytest.mark.nightly
@pytest.mark.parametrize("deaths", [False, True])
def test_standby_snapshot_and_promotion_in_containers(
    deaths: bool, tmp_path: Path, node_image: str, engine: Client
) -> None:
    made: list[Cluster] = []

    def make(**options: object) -> Cluster:
        made.append(partial(Cluster, runtime="docker", image=node_image)(**options))  # type: ignore[arg-type]
        return made[-1]

    standby_snapshot_and_promotion(make, tmp_path, deaths=deaths)
    assert [left_of(engine, cluster.run.read_manifest().run_id) for cluster in made] == [[], []]
