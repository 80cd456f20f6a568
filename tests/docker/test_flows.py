"""The flows of `support.flows` on containers; tests/integration has them on the other runtimes."""

from collections.abc import Callable, Iterator

import pytest

from support.docker_runs import left_of
from support.flows import FLOWS, SERVICE, SOURCE, Books
from upheaval import Verdict
from upheaval.runtimes.docker.engine import Client
from upheaval.testing.cluster import Cluster


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory, node_image: str, engine: Client) -> Iterator[Books]:
    """One cluster for all flows, which go on from one another."""
    folder = tmp_path_factory.mktemp("docker") / "run"
    with Cluster(SERVICE, SOURCE, runtime="docker", folder=folder, image=node_image) as cluster:
        yield Books(cluster)
    assert left_of(engine, cluster.run.read_manifest().run_id) == []


@pytest.mark.parametrize("flow", FLOWS, ids=[flow.__name__ for flow in FLOWS])
def test_the_flow(flow: Callable[[Books], None], books: Books) -> None:
    flow(books)
    assert books.balances() == books.expected
    assert len(set(books.positions())) == 1


def test_the_run_of_all_flows_is_valid(books: Books) -> None:
    report = books.cluster.verify()
    assert report.verdict is Verdict.VALID, report.findings
