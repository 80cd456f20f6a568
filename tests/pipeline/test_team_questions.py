"""Questions of a reliability team, on rows made by hand: planned halts, objectives, two values of a label, advice on
tests, and what preceded failures. Without files, lakes and Spark; `test_ask` compares the engines.
"""

import json
from dataclasses import replace

import pytest

from support.run_rows import MS, Command, Fault, Rows, RunRows, alarms, answer_to, bad, engine_with, rows_of
from upheaval.checkers.promises import Promise
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.intervals import FAILOVER
from upheaval_pipeline.query import Asked
from upheaval_pipeline.question_page import page
from upheaval_pipeline.questions import QUESTIONS, SUMMARY


def every_100_ms(begin: int, end: int, latency: int = 10) -> list[tuple[int, int]]:
    return [(ms - latency, ms) for ms in range(begin, end + 1, 100)]


WITH_A_GAP = [*every_100_ms(100, 1000), *every_100_ms(2000, 3000)]
"""2.91 seconds, of which one is without answers."""
HALTS = {
    "nothing": ([], 0, 1),
    "a snapshot halts nothing": ([("snapshot", 1100, 1200)], 0, 1),
    "shutdown": ([("shutdown", 1000, 1100), ("start", 1100, 1200)], 1, 0),
    "abort": ([("abort", 1000, 1100), ("start", 1100, 1200)], 1, 0),
    "suspend": ([("suspend", 1000, 1100), ("resume", 1300, 1350)], 1, 0),
    "silent before it was to be": ([("shutdown", 1400, 1500), ("start", 1500, 1600)], 0.6, 0.4),
    "one in the other": ([("suspend", 1000, 1010), ("shutdown", 1100, 1200), ("start", 1500, 1600)], 1, 0),
    "one after the other": (
        [("suspend", 1000, 1010), ("resume", 1100, 1110), ("shutdown", 1200, 1210), ("start", 1300, 1400)],
        1,
        0,
    ),
    "no member was started by command": ([("suspend", 1000, 1010)], 1, 0),
    "answers came again long before": ([("suspend", 500, 510)], 0.1, 1),
    "answers came again long before the next resume": (
        [("suspend", 500, 510), ("suspend", 2500, 2510), ("resume", 2600, 2610)],
        0.1 + 0.11,
        1,
    ),
    "answers came again long before a refused start": (
        [("suspend", 500, 510), Command("start", 2900, 2950, holds=False)],
        0.1,
        1,
    ),
    "answered while the start goes on": ([("shutdown", 700, 710), ("start", 720, 1200)], 1.3, 0),
    "a suspend that no member took": ([Command("suspend", 500, 800, holds=False)], 0, 1),
    "a shutdown that one member survived": ([Command("shutdown", 900, 1000, holds=False)], 0, 1),
    "one member ended by force": ([Command("end by force", 500, 510, members=[1])], 0, 1),
    "all members ended by force": ([Command("end by force", 1000, 1010)], 1, 0),
    "a refused start ends it": ([("suspend", 1000, 1010), Command("start", 1100, 1500, holds=False)], 1, 0),
    "already over": ([("suspend", 600, 610), ("resume", 700, 710)], 0.11, 1),
}
"""Commands, and how many seconds of that run are planned, and how many of the others without answers."""


def test_what_operators_halt_is_no_outage() -> None:
    runs = [RunRows(name, WITH_A_GAP, controls=controls, scenario=name) for name, (controls, *_) in HALTS.items()]
    with engine_with(runs) as engine:
        spent = {row["scenario"]: (row["seconds"], row["silent_s"]) for row in rows_of(engine, "slo")}
        times = rows_of(engine, "fault_times")
    assert spent == {
        name: (pytest.approx(2.91 - planned_s), pytest.approx(silent_s))
        for name, (_, planned_s, silent_s) in HALTS.items()
    }
    for name, (_, planned_s, silent_s) in HALTS.items():
        assert sum_of(times, name, "none") == (pytest.approx(2.91 - planned_s), pytest.approx(silent_s))


def sum_of(times: Rows, run: str, fault: str) -> tuple[float, float]:
    rows = [row for row in times if (row["run"], row["fault"]) == (run, fault)]
    return sum(row["length_ms"] for row in rows) / 1000, sum(row["silent_ms"] for row in rows) / 1000


def test_a_fault_in_a_halt_is_not_charged_with_it() -> None:
    controls = [("shutdown", 1400, 1500), ("start", 1500, 1600)]
    run = RunRows("one", WITH_A_GAP, faults=[("kill", 990, 1500)], controls=controls)
    of = {row["fault"]: row["silent_s"] for row in answer_to("availability", [run])}
    assert of == {"kill": pytest.approx(0.4), "planned": pytest.approx(0.6), "none": 0}


LED_TWICE = [
    (50, TraceKind.ELECTION_STATE, {"state": "LEADER_INIT"}),
    (60, TraceKind.LEADERSHIP_TERM, {"leadership_term_id": 0, "leader_member_id": 0}),
    (70, TraceKind.ELECTION_STATE, {"state": "CLOSED"}),
    (1600, TraceKind.PROCESS_START, {}),
    (1610, TraceKind.ELECTION_STATE, {"state": "INIT"}),
    (1700, TraceKind.ELECTION_STATE, {"state": "LEADER_INIT"}),
    (1750, TraceKind.LEADERSHIP_TERM, {"leadership_term_id": 1, "leader_member_id": 0}),
    (1800, TraceKind.ELECTION_STATE, {"state": "CLOSED"}),
]
"""A member that leads, begins anew in the gap of `WITH_A_GAP`, and leads again."""


def test_a_failover_in_a_halt_is_planned_and_no_level_of_its_run() -> None:
    halt = [("shutdown", 1000, 1100), ("start", 1600, 1850)]
    runs = [
        RunRows("planned", WITH_A_GAP, controls=halt, trace=LED_TWICE),
        RunRows("killed", WITH_A_GAP, faults=[("kill", 1000, 1600)], trace=LED_TWICE),
        RunRows("killed in a halt", WITH_A_GAP, [("kill", 1200, 1600)], halt, trace=LED_TWICE),
        RunRows("by itself", WITH_A_GAP, trace=LED_TWICE),
        RunRows("halted before", WITH_A_GAP, [], [("suspend", 500, 510), ("resume", 600, 610)], trace=LED_TWICE),
    ]
    with engine_with(runs) as engine:
        phases = {row["run"]: row["faults"] for row in rows_of(engine, "failover_phases")}
        levels = {row["run"] for row in rows_of(engine, "levels") if row["what"] == FAILOVER}
        faults = {row["fault"] for row in rows_of(engine, "failovers")}
    assert phases == {
        "planned": ["planned"],
        "killed": ["kill"],
        "killed in a halt": ["kill", "planned"],
        "by itself": [],
        "halted before": [],
    }
    assert levels == {"killed", "by itself", "halted before"}
    assert faults == {"kill", "none", "planned"}


def test_only_a_fault_that_was_proved_covers_a_state() -> None:
    runs = [
        RunRows("seen", WITH_A_GAP, [("kill", 1000, 1850)], trace=LED_TWICE),
        RunRows("unseen", WITH_A_GAP, [Fault("clock-jump", 1000, 1850, holds=False)], trace=LED_TWICE),
        RunRows("halted", WITH_A_GAP, controls=[("shutdown", 1000, 1100), ("start", 1600, 1850)], trace=LED_TWICE),
    ]
    rows = [row for row in answer_to("coverage", runs) if row["runs"]]
    assert {(row["state"], row["fault"]) for row in rows} == {
        (state, fault) for state in ("INIT", "LEADER_INIT", "CLOSED") for fault in ("kill", "planned")
    }


def test_no_verdict_is_not_drawn_as_none_that_failed() -> None:
    runs = [
        RunRows("bad", ANSWERED, findings=[bad()], labels={"commit": "a"}),
        RunRows("unjudged", ANSWERED, findings=None, labels={"commit": "b"}, created="2026-11-02"),
        RunRows("good", ANSWERED, labels={"commit": "c"}, created="2026-11-03"),
    ]
    (trend,) = (question for question in QUESTIONS if question.name == "trend")
    for some, lanes in ((runs, [1, 0]), (runs[1:2], None)):
        with engine_with(some) as engine:
            text = page("lake", engine.answer(SUMMARY, 9), [(trend, engine.answer(trend.sql, 9))])
        data = text.partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
        plots = [[lane["whole"] for lane in plot["lanes"]] for plot in json.loads(data).values()]
        assert plots == ([] if lanes is None else [lanes])
        assert text.count("<td>b</td>") == 1


def test_a_test_for_quarantine_comes_before_any_number_of_others() -> None:
    """An answer ends after its first rows, and these decide about `--fail-if`."""
    fixed = RunRows("fixed", findings=[bad()], runtime="simulated", scenario="fixed")
    flaky = [RunRows(f"flaky-{n}", findings=[bad()] * (n % 2), scenario="flaky") for n in range(10)]
    rows = answer_to("flakes", [fixed, *flaky])
    assert [(row["scenario"], row["rate"], row["advice"]) for row in rows] == [
        ("flaky", 0.5, "quarantine"),
        ("fixed", 1, "fix"),
    ]


def test_an_objective_has_a_budget_that_outages_use_up() -> None:
    runs = [RunRows("quiet", every_100_ms(100, 2100), scenario="quiet"), RunRows("gap", WITH_A_GAP)]
    with engine_with(runs, Asked(objective=0.5)) as engine:
        rows = rows_of(engine, "slo")
    gap, quiet = rows
    assert (gap["scenario"], gap["objective"], gap["runs"], gap["runs_below"]) == ("bank", 0.5, 1, 0)
    assert (gap["available"], gap["budget_s"]) == (pytest.approx(1.91 / 2.91), pytest.approx(1.455))
    assert (gap["spent"], quiet["spent"]) == (pytest.approx(1 / 1.455), 0)
    assert alarms("slo", rows) == []
    worse = answer_to("slo", runs, Asked(objective=0.9))
    assert [(row["scenario"], row["runs_below"]) for row in alarms("slo", worse)] == [("bank", 1)]


ANSWERED = every_100_ms(100, 1000)
OUTAGES = {
    "to the end": ((ANSWERED, range(1100, 4001, 100)), (3.91, 3)),
    "to the end, with one request left": ((ANSWERED, [900]), (0.91, 0)),
    "no answer at all": (([], range(100, 1101, 100)), (1, 1)),
    "no answer to the only request": (([], [100]), (1e-9, 1e-9)),
    "the first answer late": (([(100, 1100), *every_100_ms(1200, 2000)], []), (1.9, 1)),
    "requests that were left early": ((ANSWERED, [300, 500]), (0.91, 0)),
}
"""Answers and requests without one, and seconds of load and of outages."""


def test_an_outage_to_the_end_of_a_run_or_from_its_begin_counts() -> None:
    runs = [
        RunRows(name, answers, unanswered=others, scenario=name) for name, ((answers, others), _) in OUTAGES.items()
    ]
    rows = answer_to("slo", runs)
    assert {row["scenario"]: (row["seconds"], row["silent_s"]) for row in rows} == {
        name: pytest.approx(seconds) for name, (_, seconds) in OUTAGES.items()
    }
    outages = {name for name, (_, (_, silent_s)) in OUTAGES.items() if silent_s}
    assert {row["scenario"] for row in alarms("slo", rows)} == outages
    assert {row["scenario"] for row in rows if row["runs_below"]} == outages
    assert {row["available"] for row in rows if row["scenario"].startswith("no answer")} == {0}


def test_requests_in_a_halt_need_no_answer() -> None:
    halted = RunRows("one", ANSWERED, controls=[("shutdown", 1000, 1100)], unanswered=range(1100, 4001, 100))
    (row,) = answer_to("slo", [halted])
    assert (row["seconds"], row["silent_s"]) == (pytest.approx(0.91), 0)


def on_branch(branch: str, day: int, latency: int, findings: bool = False) -> list[RunRows]:
    """Four runs, which differ a little."""
    return [
        RunRows(
            f"{branch}-{number}",
            every_100_ms(1000, 2000, latency + number),
            findings=[bad()] if findings else [],
            labels={"commit": f"{day}{branch}", "branch": branch},
            created=f"2026-11-{day:02}T0{number}:00",
        )
        for number in range(4)
    ]


def test_two_values_of_a_label_are_compared_with_an_interval() -> None:
    runs = [*on_branch("main", 1, 20), *on_branch("slow", 2, 40), *on_branch("broken", 3, 20, findings=True)]
    pairs = (("branch", "main", "slow"), ("branch", "slow", "main"), ("branch", "main", "broken"))
    rows = answer_to("compare", runs, Asked(compared=pairs))
    outcomes = {(row["base_value"], row["value"], row["what"].split(",")[0]): row["outcome"] for row in rows}
    assert outcomes == {
        ("main", "slow", "latency without faults"): "worse",
        ("slow", "main", "latency without faults"): "better",
        ("main", "broken", "latency without faults"): "not shown",
        ("main", "slow", "not valid"): "not shown",
        ("slow", "main", "not valid"): "not shown",
        ("main", "broken", "not valid"): "worse",
    }
    slow = next(row for row in rows if row["outcome"] == "worse" and row["value"] == "slow")
    assert (slow["base_runs"], slow["runs"], slow["difference"]) == (4, 4, pytest.approx(20))
    assert slow["lowest"] < 20 < slow["highest"]
    assert alarms("compare", rows) == [row for row in rows if row["outcome"] == "worse"]


def test_without_values_the_last_two_commits_are_compared() -> None:
    runs = [*on_branch("main", 1, 20), *on_branch("slow", 3, 40), *on_branch("fast", 2, 20)[:1]]
    rows = answer_to("compare", runs)
    assert {(row["label"], row["base_value"], row["value"]) for row in rows} == {("commit", "2fast", "3slow")}
    # One run has no spread, and so its times have no interval.
    latency = next(row for row in rows if row["what"] != "not valid")
    assert (latency["base_runs"], latency["lowest"], latency["outcome"]) == (1, None, "too few runs")
    versions = [replace(run, labels={}, version=run.labels["commit"]) for run in runs]
    assert {row["value"] for row in answer_to("compare", versions)} == {"3slow"}


def of_test(name: str, failed: int, of: int, **more: str) -> list[RunRows]:
    return [
        RunRows(f"{name}-{more}-{number}", findings=[bad()] if number < failed else [], scenario=name, **more)
        for number in range(of)
    ]


def test_a_test_gets_advice() -> None:
    runs = [
        *of_test("good", 0, 3),
        *of_test("same code gives both", 2, 6),
        *of_test("once in many", 1, 60),
        *of_test("always", 3, 3),
        *of_test("since a version", 0, 3, version="1"),
        *of_test("since a version", 3, 3, version="2"),
        *of_test("a seed decides", 1, 6, runtime="simulated"),
    ]
    rows = answer_to("flakes", runs)
    assert {row["scenario"]: row["advice"] for row in rows} == {
        "good": "keep",
        "same code gives both": "quarantine",
        "once in many": "observe",
        "always": "fix",
        "since a version": "fix",
        "a seed decides": "fix",
    }
    assert [row["scenario"] for row in alarms("flakes", rows)] == ["same code gives both"]


def test_a_run_of_a_test_has_its_name_for_a_scenario() -> None:
    runs = [
        RunRows("one", scenario=None, labels={"test": "tests/test_it.py::test_it"}),
        RunRows("two", labels={"test": "another"}),
    ]
    assert {row["scenario"] for row in answer_to("flakes", runs)} == {"tests/test_it.py::test_it", "bank"}


def test_failures_that_nothing_preceded_come_first() -> None:
    answers = every_100_ms(100, 2000)
    faults, controls = [("kill", 500, 600), ("pause", 700, 800)], [("snapshot", 1500, 1600)]
    runs = [
        RunRows("before", answers, faults, controls, [bad(operation=2)]),
        RunRows("after", answers, faults, controls, [bad(operation=6), bad(Promise.LINEARIZABLE, position=9)]),
        RunRows("commanded", answers, faults, controls, [bad(operation=18)]),
        RunRows("dated", answers, faults, controls, [replace(bad(position=18), when_ns=(450 * MS, 550 * MS))]),
        RunRows("of an entry past it", answers, faults, controls, [bad(operation=2, position=6)]),
        RunRows("at no moment", answers, faults, [], [bad()]),
        RunRows("without faults", answers, findings=[bad()]),
        RunRows("valid", answers, faults),
    ]
    rows = answer_to("preceded-by", runs)
    assert rows[0]["act"] == "none"
    assert {(row["act"], row["kind"], row["promise"]): (row["failures"], row["after_ms"]) for row in rows} == {
        ("none", None, "logs-equal"): (2, None),
        ("kill", "fault", "logs-equal"): (1, 50),
        ("pause", "fault", "logs-equal"): (3, 0),
        ("pause", "fault", "linearizable"): (1, 300),
        ("snapshot", "command", "logs-equal"): (1, 400),
    }
    assert alarms("preceded-by", rows) == rows[:1]
    assert rows[0]["folders"] == ["/runs/before", "/runs/without faults"]
