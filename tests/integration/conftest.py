"""Fixtures of the integration tests: clusters of real processes that are gone when the test is over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

NewCluster = Callable[..., ProcessCluster]


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[NewCluster]:
    """Makes clusters of a `ClusterSpec`; each is ended, without a trace, after the test."""
    made: list[ProcessCluster] = []

    def make(**options: object) -> ProcessCluster:
        cluster = ProcessCluster.create(tmp_path / f"c{len(made)}", ClusterSpec(**options))  # type: ignore[arg-type]
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        end_without_trace(cluster)
