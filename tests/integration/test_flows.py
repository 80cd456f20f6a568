"""The flows of `support.flows` in virtual time and on processes; tests/docker has them on containers."""

from collections.abc import Callable, Iterator

import pytest

from support.flows import FLOWS, SERVICE, SOURCE, Books
from support.valid import require_valid
from upheaval.testing.cluster import Cluster


@pytest.fixture(scope="module", params=["simulated", "process"])
def books(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Books]:
    """One cluster for all flows, which go on from one another."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    with Cluster(SERVICE, SOURCE, runtime=request.param, folder=folder) as cluster:
        yield Books(cluster)


@pytest.mark.parametrize("flow", FLOWS, ids=[flow.__name__ for flow in FLOWS])
def test_the_flow(flow: Callable[[Books], None], books: Books) -> None:
    flow(books)
    assert books.balances() == books.expected
    assert len(set(books.positions())) == 1


def test_the_run_of_all_flows_is_valid(books: Books) -> None:
    report = books.cluster.verify()
    require_valid(report)
