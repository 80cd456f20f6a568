"""Copies of a custom service that begin with snapshots, on logs made by hand: no cluster and no time."""

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from support.other_interpreter import PATIENCE_S, other_interpreter
from support.service_logs import SERVICES, Change, Log, used
from upheaval.checkers.own.canonical_form import what_it_hides
from upheaval.checkers.own.own_replay import BUDGET_VARIABLE, replay_budget_s
from upheaval.checkers.own.replay_judgement import BUDGET_S, Judgement, judge_replays
from upheaval.errors import EnvironmentFault
from upheaval_node.service.api import ClusterTimeUnit


class Judge:
    """Judges logs in another interpreter."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def __call__(self, service: str, **options: object) -> Judgement:
        return self.of_log(used(service, **options))

    def of_log(self, log: Log, **limits: object) -> Judgement:
        return self._pool.submit(judge_replays, log.service, log.messages, **limits).result(PATIENCE_S)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with other_interpreter(str(SERVICES)) as pool:
        yield pool


@pytest.fixture
def judged(pool: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> Judge:
    monkeypatch.syspath_prepend(str(SERVICES))
    return Judge(pool)


@pytest.mark.parametrize("service", ["Accounts", "Ordered", "CountsTime"])
@pytest.mark.parametrize(
    "unit", [ClusterTimeUnit.MILLIS, pytest.param(ClusterTimeUnit.MICROS, marks=pytest.mark.nightly)]
)
def test_a_right_service_does_the_same_from_every_snapshot(judged: Judge, service: str, unit: ClusterTimeUnit) -> None:
    judgement = judged(service, time_unit=unit)
    assert (judgement.difference, judgement.unsteady, judgement.answers, judgement.unasked) == ("", "", "", "")
    assert judgement.form_error == ""
    assert judgement.compared == judgement.chosen == 9


def test_a_log_without_entries_compares_nothing(judged: Judge) -> None:
    log = used("Accounts")
    log.messages.clear()
    judgement = judged.of_log(log)
    assert (judgement.compared, judgement.chosen) == (0, 0)


def test_a_budget_that_is_spent_leaves_places_out_and_is_named(judged: Judge) -> None:
    log = used("Accounts")
    judgement = judged.of_log(log, budget_s=1e-6)
    assert (judgement.compared, judgement.chosen, judgement.difference) == (1, 9, "")
    assert judgement.why_cut == "the budget of 1e-06 s of a processor was spent"
    assert judged("Accounts").why_cut == ""


@pytest.mark.parametrize(
    ("snapshots_max", "compared"), [(1 << 12, range(1, 9)), (1, range(1)), (1 << 20, range(9, 10))]
)
def test_snapshots_that_are_too_large_together_leave_places_out(
    judged: Judge, snapshots_max: int, compared: range
) -> None:
    log = used("Accounts")
    judgement = judged.of_log(log, snapshots_max=snapshots_max)
    assert (judgement.compared in compared, judgement.chosen, judgement.difference) == (True, 9, ""), judgement
    is_cut = judgement.compared < judgement.chosen
    why = f"their snapshots are longer than {snapshots_max / (1 << 20):.3g} MiB together"
    assert judgement.why_cut == (why if is_cut else "")
    if judgement.compared:
        assert judgement.position == log.messages[-1].position, "the last snapshot shows more than the others"


def test_the_budget_is_a_positive_number_of_the_environment() -> None:
    assert replay_budget_s({}) == replay_budget_s({BUDGET_VARIABLE: ""}) == BUDGET_S
    assert replay_budget_s({BUDGET_VARIABLE: "2.5"}) == 2.5
    for wrong in ("0", "-1", "nan", "inf", "long"):
        with pytest.raises(EnvironmentFault, match=f"UPHEAVAL_REPLAY_SECONDS: expected a positive .*, got '{wrong}'"):
            replay_budget_s({BUDGET_VARIABLE: wrong})


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("ForgetsBalances", "sends '"),
        ("ForgetsFee", "sends '"),
        ("ForgetsListener", "sends "),
        ("ForgetsAnswers", "where one that read the whole log"),
        ("ForgetsSettled", "['settled'] is"),
        ("ForgetsDue", "raises KeyError where one that read the whole log raises nothing, at TimerEvent"),
        ("RoundsMean", "['mean'] is"),
        ("LimitsTexts", "raises TypeError: '<' not supported"),
        ("SendsAtStart", "sets timer 99 for"),
        ("CannotLoad", "raises KeyError: 'accounts'"),
        ("Empty", "where one that read the whole log"),
    ],
)
def test_what_a_snapshot_forgets_is_found_without_a_model(judged: Judge, service: str, says: str) -> None:
    judgement = judged(service)
    assert says in judgement.difference
    assert judgement.position >= 0


@pytest.mark.parametrize(
    ("service", "says"), [("ClockInMessage", 'offers \'{"amount": 0, "at":'), ("ClockInDeadline", "sets timer 98 for")]
)
def test_what_two_replays_ask_of_the_log_otherwise_is_found(judged: Judge, service: str, says: str) -> None:
    judgement = judged(service)
    assert says in judgement.unsteady
    assert judgement.unsteady_position > 0


def test_a_canonical_form_that_hides_every_value_is_refused(judged: Judge) -> None:
    judgement = judged("KeepsKeys")
    assert judgement.form_error.startswith("is the same for")
    assert not judgement.has_form


def test_a_form_that_keeps_the_keys_of_a_growing_object_is_refused() -> None:
    states = [[json.dumps({f"o{number}": count for number in range(count)}).encode()] for count in (1, 2, 3)]

    def keys(state: object) -> tuple[bytes, ...]:
        return (json.dumps(sorted(json.loads(b"".join(state)))).encode(),)  # type: ignore[call-overload]

    assert what_it_hides(keys, states) == "does not change with any value that does, such as ['o0']"
    assert what_it_hides(tuple, states) == ""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lost_timers": lambda number: number % 7 == 0}, "timer "),
        ({"lost_messages": lambda number: number == 7}, "lacks the one that a replay offers before it"),
    ],
)
def test_what_the_nodes_lost_of_a_services_own_is_found(judged: Judge, options: dict[str, Change], says: str) -> None:
    judgement = judged("Accounts", **options)
    assert says in judgement.unasked
    assert judgement.difference == ""


def test_what_the_leader_alone_offers_is_found_with_its_cause(judged: Judge) -> None:
    judgement = judged("OffersAsLeader")
    assert "and a replay has offered none by then" in judgement.unasked
    assert "a copy that leads asks for all of it" in judgement.unasked
