"""The ends of `support.flows_endings` in virtual time, by several seeds, and on processes."""

from collections.abc import Callable, Iterator

import pytest

from support.flows import Books
from support.flows_endings import ENDINGS, SERVICE, require_judged, source_in
from upheaval.testing.cluster import Cluster

SEEDS = 1
MORE_SEEDS = 20
RUNS = [
    *(pytest.param(("simulated", seed), id=f"seed-{seed}") for seed in range(1, SEEDS + 1)),
    *(
        pytest.param(("simulated", seed), id=f"seed-{seed}", marks=pytest.mark.nightly)
        for seed in range(SEEDS + 1, MORE_SEEDS + 1)
    ),
    pytest.param(("process", 1), id="process"),
]


@pytest.fixture(scope="module", params=RUNS)
def books(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Books]:
    """One cluster for all flows, which go on from one another."""
    runtime, seed = request.param
    folder = tmp_path_factory.mktemp("ends")
    with Cluster(SERVICE, source_in(folder / "source"), runtime=runtime, seed=seed, folder=folder / "run") as cluster:
        yield Books(cluster)


@pytest.mark.parametrize("flow", ENDINGS, ids=[flow.__name__ for flow in ENDINGS])
def test_the_flow(flow: Callable[[Books], None], books: Books) -> None:
    flow(books)
    assert books.balances() == books.expected
    assert len(set(books.positions())) == 1


def test_the_ends_are_judged_from_the_run(books: Books) -> None:
    require_judged(books, books.cluster.verify())
    assert books.cluster.run.manifest_file.exists()
