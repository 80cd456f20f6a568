"""Services with a mistake that users make: each one is named, with what leads to its line. Right ones are valid."""

from pathlib import Path

import pytest

from support.own_services import RIGHT, RIGHT_WITH_USERS, SERVICES, WRONG, Wrong, judged_right, judged_wrong
from upheaval import Verdict
from upheaval.checkers.verdict import Report

PAGE = Path(__file__).parents[2] / "docs" / "wrong-services.md"
OFTEN_ON_PROCESSES = ("half_done", "clock", "set_pick", "sessions_missing", "lost_update")
SEEDS = range(2, 5)
SEEDS_OF_A_NIGHT = {**dict.fromkeys(RIGHT, range(5, 207)), **dict.fromkeys(RIGHT_WITH_USERS, range(5, 7))}
"""Those with users have campaigns of their own, `tests/load/test_right_services.py`."""
RUNS_OF_A_NIGHT = {**dict.fromkeys(RIGHT, range(1, 21)), **dict.fromkeys(RIGHT_WITH_USERS, range(1, 11))}


def require_named(wrong: Wrong, report: Report, runtime: str) -> None:
    assert report.verdict is Verdict.INVALID, report
    finding = next(each for each in report.findings if each.promise == wrong.promise_on(runtime))
    assert finding.verdict is Verdict.INVALID, report
    for word in (*wrong.says_on(runtime), wrong.where()):
        assert word in finding.evidence


def require_valid(report: Report) -> None:
    assert report.verdict is Verdict.VALID, report


@pytest.mark.parametrize("wrong", [pytest.param(wrong, id=wrong.name) for wrong in WRONG])
def test_a_wrong_service_is_named_on_the_simulated_runtime(
    wrong: Wrong, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in wrong.variables.items():
        monkeypatch.setenv(name, value)
    require_named(wrong, judged_wrong(wrong, tmp_path, runtime="simulated"), "simulated")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(wrong, id=wrong.name, marks=() if wrong.name in OFTEN_ON_PROCESSES else pytest.mark.nightly)
        for wrong in WRONG
    ],
)
def test_a_wrong_service_is_named_on_processes(wrong: Wrong, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in wrong.variables.items():
        monkeypatch.setenv(name, value)
    require_named(wrong, judged_wrong(wrong, tmp_path, runtime="process"), "process")


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *((name, seed) for name in SEEDS_OF_A_NIGHT for seed in SEEDS),
        *(
            pytest.param(name, seed, marks=pytest.mark.nightly)
            for name, seeds in SEEDS_OF_A_NIGHT.items()
            for seed in seeds
        ),
    ],
)
def test_a_right_service_is_valid_whatever_happens_to_its_cluster(name: str, seed: int, tmp_path: Path) -> None:
    """Three seeds in a row are three of the five happenings, others for each service."""
    require_valid(judged_right(name, tmp_path / "run", runtime="simulated", seed=seed))


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "seed"), [(name, seed) for name, seeds in RUNS_OF_A_NIGHT.items() for seed in seeds])
def test_a_right_service_is_valid_on_processes(name: str, seed: int, tmp_path: Path) -> None:
    require_valid(judged_right(name, tmp_path / "run", runtime="process", seed=seed))


def test_the_page_has_a_row_for_each_wrong_service_with_what_is_said_of_it() -> None:
    """A line that is named by its number is there without it."""
    assert {wrong.name for wrong in WRONG} == {
        path.stem for path in (SERVICES / "wrong").glob("*.py") if "ClusteredService" in path.read_text()
    }
    rows = [
        [cell.strip() for cell in line.split("|")] for line in PAGE.read_text().splitlines() if line.startswith("|")
    ]
    by_name = {row[1].strip("`"): " ".join(row[2:]) for row in rows}
    for wrong in WRONG:
        promises = {str(wrong.promise_on(runtime)) for runtime in ("simulated", "process")}
        for word in (*promises, *wrong.says):
            assert word in by_name[wrong.name]
