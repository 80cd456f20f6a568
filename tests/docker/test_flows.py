"""The flows of `support.flows` and the ends of `support.flows_endings` on containers; tests/integration has them on the
other runtimes.
"""

from collections.abc import Callable, Iterator

import pytest

from support.docker_runs import left_of
from support.flows import FLOWS, Books
from support.flows_endings import ENDINGS, SERVICE, require_judged, source_in, without_a_follower
from upheaval.runtimes.docker.engine import Client
from upheaval.testing.cluster import Cluster


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory, node_image: str, engine: Client) -> Iterator[Books]:
    """One cluster for all flows, which go on from one another."""
    folder = tmp_path_factory.mktemp("docker")
    source = source_in(folder / "source")
    with Cluster(SERVICE, source, runtime="docker", folder=folder / "run", image=node_image) as cluster:
        yield Books(cluster)
    assert left_of(engine, cluster.run.read_manifest().run_id) == []


@pytest.mark.parametrize(
    "flow",
    [
        pytest.param(flow, id=flow.__name__, marks=[pytest.mark.nightly] if flow is without_a_follower else [])
        for flow in (*FLOWS, *ENDINGS)
    ],
)
def test_the_flow(flow: Callable[[Books], None], books: Books) -> None:
    flow(books)
    assert books.balances() == books.expected
    assert len(set(books.positions())) == 1


def test_the_run_of_all_flows_is_valid(books: Books) -> None:
    require_judged(books, books.cluster.verify())
    assert books.cluster.run.manifest_file.exists()
