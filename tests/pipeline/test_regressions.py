"""A change in the last 20 of 200 runs: what became worse is named, and nothing else. Without files, lakes and Spark."""

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from support.run_rows import Rows, RunRows, alarms, answer_to, bad, engine_with
from upheaval_pipeline.question_page import page
from upheaval_pipeline.questions import QUESTIONS, SUMMARY

SLOWDOWN_MS = 15
LATENCY = "latency without faults, ms"
SINCE = 180
"""The number of the first run that is not as those before."""


def runs(*, slower_ms: int = 0, failing: float = 0, versions: Sequence[str] = ("1.9.0", "1.10.0")) -> list[RunRows]:
    """200 runs of two scenarios, of which one changes from the 180th on; one in twenty of all others is not valid."""
    random = Random(37)
    made = []
    for number in range(200):
        is_changed = number >= SINCE and number % 2 == 0
        latency = random.randrange(20, 30) + slower_ms * is_changed
        made.append(
            RunRows(
                f"run-{number:03}",
                [(begin, begin + latency) for begin in range(100, 1100, 100)],
                findings=[bad()] if number % 20 == 7 or (is_changed and random.random() < failing) else [],
                scenario=("bank", "locks")[number % 2],
                version=versions[number >= SINCE],
                labels={"commit": f"{number * 20 // 200:02x}"},
                created=f"2026-11-{1 + number // 10:02}T{number % 10:02}:00",
            )
        )
    return made


def named(rows: Rows) -> list[tuple[str, ...]]:
    """What, since which version, of which scenario."""
    return [(row["what"], row["base_version"], row["version"], row["scenario"]) for row in rows]


def test_a_slowdown_in_the_last_runs_is_named_and_nothing_else() -> None:
    made = runs(slower_ms=SLOWDOWN_MS)
    rows = alarms("regressions", answer_to("regressions", made))
    assert named(rows) == [(LATENCY, "1.9.0", "1.10.0", "bank")]
    assert (rows[0]["base_runs"], rows[0]["runs"]) == (90, 10)
    assert 0 < rows[0]["lowest"] < SLOWDOWN_MS < rows[0]["highest"]
    changed = alarms("changes", answer_to("changes", made))
    assert {(row["what"], row["scenario"], row["label"], row["value"]) for row in changed} == {
        (LATENCY, "bank", "commit", "12"),
        (LATENCY, "bank", "version", "1.10.0"),
    }


def test_more_failures_are_a_regression_of_their_scenario() -> None:
    rows = alarms("regressions", answer_to("regressions", runs(failing=0.8)))
    assert named(rows) == [("not valid", "1.9.0", "1.10.0", "bank")]


@pytest.mark.parametrize("versions", [("1.9.0", "1.10.0"), ("4f2a91c", "0b7d3e2"), ("2.0-rc1", "2.0")])
def test_what_became_better_is_no_alarm(versions: tuple[str, str]) -> None:
    """Versions follow each other by their numbers, others by when they were first run."""
    better = answer_to("regressions", runs(slower_ms=-SLOWDOWN_MS, versions=versions))
    assert alarms("regressions", better) == []
    (faster,) = (row for row in better if row["outcome"] == "better")
    assert (faster["what"], faster["base_version"], faster["version"]) == (LATENCY, *versions)
    worse = answer_to("regressions", runs(slower_ms=SLOWDOWN_MS, versions=versions))
    assert named(alarms("regressions", worse)) == [(LATENCY, *versions, "bank")]


def test_an_older_version_that_is_run_later_is_the_base() -> None:
    rows = answer_to("regressions", runs(slower_ms=SLOWDOWN_MS, versions=("1.10.0", "1.9.0")))
    assert alarms("regressions", rows) == []
    assert {(row["base_version"], row["version"]) for row in rows} == {("1.9.0", "1.10.0")}


def of_the_newest(made: Sequence[RunRows]) -> list[RunRows]:
    """Those runs on 1.11.0."""
    return [replace(run, run=f"{run.run}-b", version="1.11.0", created="2026-12-01") for run in made]


def with_a_third_version(slower_ms: int) -> list[RunRows]:
    """1.10.0 is slower than 1.9.0; 1.11.0 by so much."""
    return runs(slower_ms=SLOWDOWN_MS) + of_the_newest(runs(slower_ms=slower_ms)[SINCE:])


def test_what_the_newest_version_has_mended_is_listed_and_is_no_alarm() -> None:
    rows = answer_to("regressions", with_a_third_version(0))
    assert alarms("regressions", rows) == []
    assert named([row for row in rows if row["outcome"] == "mended"]) == [(LATENCY, "1.9.0", "1.10.0", "bank")]
    rows = alarms("regressions", answer_to("regressions", with_a_third_version(SLOWDOWN_MS)))
    assert {row["version"] for row in rows} == {"1.10.0", "1.11.0"}


def test_one_valid_run_of_the_newest_version_has_mended_nothing() -> None:
    made = runs(failing=0.8)
    rows = alarms("regressions", answer_to("regressions", made + of_the_newest(made[:1])))
    assert named(rows) == [("not valid", "1.9.0", "1.10.0", "bank")]


def on_systems(before: str, after: str) -> Rows:
    """The answer about runs of a slowdown, all with one version of Upheaval."""
    made = runs(slower_ms=SLOWDOWN_MS, versions=("1.9.0", "1.9.0"))
    return answer_to(
        "regressions", [replace(run, system=after if number >= SINCE else before) for number, run in enumerate(made)]
    )


def test_versions_of_aeron_follow_each_other_and_other_systems_do_not() -> None:
    (upgraded,) = alarms("regressions", on_systems("aeron:1.9.0", "aeron:1.51.0"))
    assert (upgraded["base_system"], upgraded["system"]) == ("aeron:1.9.0", "aeron:1.51.0")
    assert alarms("regressions", on_systems("aeron:1.51.0", "aeron:1.9.0")) == []
    assert (upgraded["base_version"], upgraded["version"]) == ("1.9.0", "1.51.0")
    others = on_systems("aeron:1.51.0", "upheaval")
    assert alarms("regressions", others) == []
    assert {row["outcome"] for row in others} == {"another system"}


def test_too_few_runs_of_a_version_say_nothing_of_times() -> None:
    made = runs(slower_ms=SLOWDOWN_MS)[: SINCE + 4]  # two of the slower scenario
    rows = answer_to("regressions", made)
    assert {row["what"] for row in rows} == {"not valid"}


def test_the_page_has_a_plot_for_each_unit() -> None:
    (question,) = (question for question in QUESTIONS if question.name == "regressions")
    with engine_with(runs(slower_ms=SLOWDOWN_MS)) as engine:
        summary, answer = (engine.answer(sql, 100) for sql in (SUMMARY, question.sql))
    text = page("lake", summary, [(question, answer)])
    plots = json.loads(text.partition('<script type="application/json" id="data">')[2].partition("</script>")[0])
    assert {name: plot["unit"] for name, plot in plots.items()} == {"regressions-1": "ms", "regressions-2": "share"}
    assert [len(plot["lanes"]) for plot in plots.values()] == [2, 2]
    assert all(f'id="plot-{name}"' in text for name in plots)
