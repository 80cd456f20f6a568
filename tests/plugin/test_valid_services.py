"""Right services are valid, whatever happens to their clusters."""

from pathlib import Path

import pytest

from support.own_services import RIGHT, RIGHT_WITH_USERS, judged_right
from support.valid import require_valid

pytestmark = pytest.mark.usefixtures("shared")
SEED = 2
"""Neighbouring services get different happenings; all services together cover every one."""
SEEDS_OF_A_NIGHT = {**dict.fromkeys(RIGHT, range(3, 207)), **dict.fromkeys(RIGHT_WITH_USERS, range(3, 7))}
"""Those with users have campaigns of their own, `tests/load/test_right_services.py`."""
RUNS_OF_A_NIGHT = {**dict.fromkeys(RIGHT, range(1, 21)), **dict.fromkeys(RIGHT_WITH_USERS, range(1, 11))}


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *((name, SEED) for name in SEEDS_OF_A_NIGHT),
        *(
            pytest.param(name, seed, marks=pytest.mark.nightly)
            for name, seeds in SEEDS_OF_A_NIGHT.items()
            for seed in seeds
        ),
    ],
)
def test_a_right_service_is_valid_whatever_happens_to_its_cluster(name: str, seed: int, tmp_path: Path) -> None:
    require_valid(judged_right(name, tmp_path / "run", runtime="simulated", seed=seed))


@pytest.mark.heavy
@pytest.mark.nightly
@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in RUNS_OF_A_NIGHT.items() for seed in seeds])
def test_a_right_service_is_valid_on_processes(name: str, seed: int, tmp_path: Path) -> None:
    require_valid(judged_right(name, tmp_path / "run", runtime="process", seed=seed))
