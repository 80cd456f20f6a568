"""What an interval of 95 % is: over noise without a change, and where two values come at one time. On DuckDB."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from support.run_rows import Rows, RunRows, alarms, answer_to, bad
from upheaval_pipeline.duck import duck_engine
from upheaval_pipeline.intervals import LATENCY, NOT_VALID, Z2, student2
from upheaval_pipeline.views import VIEWS

TREND = (
    "label string, value string, scenario string, system string, runtime string, what string, first string,"
    " runs bigint, level double, total double, squares double"
)


def of_commit(scenario: int, what: str, number: int, levels: Sequence[float]) -> tuple[Any, ...]:
    """A row of `trend`."""
    place = ("commit", f"{number:02}", f"s{scenario:03}", "upheaval", "process", what, f"{number:02}")
    total = sum(levels)
    return *place, len(levels), total / len(levels), total, sum(level * level for level in levels)


def over_trend(name: str, rows: Sequence[tuple[Any, ...]]) -> Rows:
    """What a view over `trend` makes of its rows."""
    with duck_engine() as engine:
        engine.add_rows("trend", TREND, rows)
        for view in VIEWS:
            if view.name in ("splits", "pairs", "changes"):
                engine.add_view(view.name, view.sql)
        answer = engine.answer(f"SELECT * FROM {name}", 100_000)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_noise_is_no_change(seed: int) -> None:
    """Of 100 tests that fail in one of twenty runs at each of 30 commits, and whose times scatter, nothing changed."""
    random = Random(seed)
    rows = []
    for scenario in range(100):
        for commit in range(30):
            failed = [float(random.random() < 0.05) for _ in range(20)]
            times = [random.lognormvariate(0, 0.3) for _ in range(3)]
            rows += [of_commit(scenario, NOT_VALID, commit, failed), of_commit(scenario, LATENCY, commit, times)]
    assert over_trend("changes", rows) == []


def test_a_change_in_noise_is_found_since_its_commit() -> None:
    random = Random(6)
    rows = [
        of_commit(
            scenario, LATENCY, commit, [random.gauss(20 + 8 * (scenario == 7 and commit >= 20), 1) for _ in "abc"]
        )
        for scenario in range(20)
        for commit in range(30)
    ]
    (change,) = over_trend("changes", rows)
    assert (change["scenario"], change["value"], change["base_runs"], change["runs"]) == ("s007", "20", 60, 30)
    assert change["lowest"] < 8 < change["highest"]


@pytest.mark.parametrize("runs", [2, 3, 5])
def test_an_interval_of_few_times_misses_in_one_of_twenty_at_most(runs: int) -> None:
    random = Random(7)
    rows = [
        of_commit(scenario, LATENCY, commit, [random.lognormvariate(0, 0.3) for _ in range(runs)])
        for scenario in range(1000)
        for commit in range(2)
    ]
    pairs = [row for row in over_trend("pairs", rows) if row["base_value"] < row["value"]]
    assert len(pairs) == 1000
    assert sum(row["lowest"] > 0 or row["highest"] < 0 for row in pairs) <= 50


QUANTILES = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 10: 2.2281, 30: 2.0423, 100: 1.9840}
"""Of Student's distribution, 97.5 %, by degrees of freedom."""


def test_the_quantile_is_never_too_small_and_soon_right() -> None:
    columns = ", ".join(f"sqrt({student2(f'{freedom}D', Z2)})" for freedom in QUANTILES)
    with duck_engine() as engine:
        (row,) = engine.answer(f"SELECT {columns}", 1).rows
    for (freedom, quantile), approximate in zip(QUANTILES.items(), row, strict=True):
        assert quantile - 5e-5 < approximate < quantile * (1.4 if freedom == 1 else 1.05 if freedom == 2 else 1.015)


def at_one_time(old: str, new: str, created: str = "2026-11-01T10:00:00") -> list[RunRows]:
    """Ten valid runs of a commit and ten of another that are not, ingested in one second."""
    return [
        RunRows(f"{commit}-{n}", findings=findings, labels={"commit": commit}, runtime="simulated", created=created)
        for commit, findings in ((old, []), (new, [bad()]))
        for n in range(10)
    ]


@pytest.mark.parametrize(("old", "new"), [("ffff", "0aaa"), ("0aaa", "ffff")])
def test_neither_of_two_values_of_one_time_is_the_later_one(old: str, new: str) -> None:
    runs = at_one_time(old, new)
    assert answer_to("compare", runs) == []
    assert answer_to("changes", runs) == []
    versions = [RunRows(run.run, findings=run.findings, version=run.labels["commit"]) for run in runs]
    assert answer_to("regressions", versions) == []
    before = [RunRows(f"b-{n}", labels={"commit": "9"}, runtime="simulated", created="2026-10-01") for n in range(20)]
    assert answer_to("compare", before + runs) == []
    (change,) = (row for row in alarms("changes", answer_to("changes", before + runs)) if row["label"] == "commit")
    assert (change["value"], change["base_runs"], change["runs"]) == ("0aaa or ffff", 20, 20)
    after = [RunRows(f"a-{n}", labels={"commit": "7"}, runtime="simulated", created="2026-12-01") for n in range(20)]
    assert answer_to("compare", runs + after) == []
