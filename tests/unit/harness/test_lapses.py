"""Mistakes that users make about pieces, order, numbers, roles and clocks: each is named on a log made by hand."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from support.other_interpreter import PATIENCE_S, other_interpreter
from support.service_logs import SERVICES, used
from upheaval.checkers.own.replay_judgement import Judgement, judge_replays

LEADS = "a copy that leads asks for all of it"


Judge = Callable[[str], Judgement]


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with other_interpreter(str(SERVICES)) as pool:
        yield pool


@pytest.fixture
def judged(pool: ProcessPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> Judge:
    monkeypatch.syspath_prepend(str(SERVICES))

    def judge(service: str) -> Judgement:
        log = used(service, module="lapses")
        return pool.submit(judge_replays, log.service, log.messages).result(PATIENCE_S)

    return judge


@pytest.mark.parametrize("service", ["Numbered", "InPieces", "Limited"])
def test_the_service_without_the_mistake_is_not_accused(judged: Judge, service: str) -> None:
    judgement = judged(service)
    findings = (judgement.difference, judgement.unsteady, judgement.answers, judgement.unasked, judgement.form_error)
    assert findings == ("", "", "", "", "")


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("NumbersAgain", "['pushes'] is"),
        ("ReadsOnePiece", "['listener'] is 3 in the one that it began with and 0"),
        ("SkipsOnePiece", "['answers'] is"),
        ("DropsSmall", '"do": "deposit"'),
        ("NewestFirst", "writes another snapshot at once"),
        ("CountsSinceStart", '"do": "deposit"'),
        ("DrawsAgain", '"do": "deposit"'),
        ("TotalsOnce", "sends '["),
        ("ForgetsInFlight", "['settled'] is"),
        ("ListenersByObject", "sends nothing where one that read the whole log sends 'o"),
    ],
)
def test_what_a_start_from_a_snapshot_loses_is_named(judged: Judge, service: str, says: str) -> None:
    assert says in judged(service).difference


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("SetsTimersAsLeader", "and a replay does not set it"),
        ("OffersOfLeader", """'{"amount": 0, "by": "LEADER"}'"""),
    ],
)
def test_what_the_leader_alone_does_is_named_with_its_cause(judged: Judge, service: str, says: str) -> None:
    judgement = judged(service)
    assert says in judgement.unasked
    assert LEADS in judgement.unasked


@pytest.mark.parametrize(
    ("service", "says"),
    [
        ("ClockInAnswer", '"id": "listen"'),
        ("DrawInAnswer", '"id": "listen"'),
        ("ClockInPush", '"do": "deposit"'),
    ],
)
def test_what_is_not_in_the_log_and_goes_to_sessions_is_named_with_its_request(
    judged: Judge, service: str, says: str
) -> None:
    assert says in judged(service).answers


def test_a_canonical_form_without_digits_is_refused(judged: Judge) -> None:
    assert judged("HidesAmounts").form_error.startswith("does not change with any value that does")
