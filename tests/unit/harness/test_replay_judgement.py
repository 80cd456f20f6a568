"""Copies of a custom service that begin with snapshots, on logs made by hand: no cluster and no time."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from upheaval.checkers.own.canonical_form import what_it_hides
from upheaval.checkers.own.replay_judgement import Judgement, judge_replays
from upheaval.checkers.states.replay import LoggedMessage, Member, Replay
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.api import ClusterRole, ClusterTimeUnit

SERVICES = Path(__file__).parents[2] / "support" / "services"
FIRST_NUMBER = -(1 << 63) + 1
LEADER = Member(role=ClusterRole.LEADER)

Change = Callable[[int], bool]


@dataclass
class Log:
    """What a leader's cluster logs of the requests to a service: timers when they are due, its messages at once."""

    service: str
    time_unit: ClusterTimeUnit = ClusterTimeUnit.MILLIS
    messages: list[LoggedMessage] = field(default_factory=list)
    time: int = 1_000_000
    number: int = FIRST_NUMBER
    position: int = 0
    fired: int = 0
    lost_timers: Change = lambda number: False
    lost_messages: Change = lambda number: False

    def __post_init__(self) -> None:
        self._replay = Replay(self.service, is_own=True, member=LEADER)
        self._timers: dict[int, int] = {}
        self._offered: list[bytes] = []
        self.event(
            cm.NewLeadershipTermEvent(
                leadership_term_id=0,
                log_position=0,
                timestamp=self.time,
                term_base_log_position=0,
                leader_member_id=0,
                log_session_id=1,
                time_unit=self.time_unit,
                app_version=1,
            )
        )
        for session in (1, 2, 3):
            self.event(cm.SessionOpenEvent(0, 7, session, self.time, 3, "aeron:tcp?endpoint=client:1", b"ann"))

    def add(self, content: bytes) -> None:
        self.position += 64 + (len(content) + 31 & -32)
        self.messages.append(LoggedMessage(self.position, content))
        effects = self._replay.follow(self.messages[-1])
        self._offered += effects.offers
        for timer, deadline in effects.timers:
            self._timers.pop(timer, None)
            if deadline is not None:
                self._timers[timer] = deadline

    def event(self, event: object) -> None:
        self.add(cm.SCHEMA.encode(event))

    def request(self, session: int, **asked: object) -> None:
        self.time += 50
        for timer, deadline in sorted(self._timers.items(), key=lambda item: item[1]):
            if deadline <= self.time:
                del self._timers[timer]
                self.fired += 1
                if not self.lost_timers(self.fired):
                    self.event(cm.TimerEvent(0, timer, self.time))
        self.add(pack_session_header(0, session, self.time) + json.dumps(asked).encode())
        while self._offered:
            message = self._offered.pop(0)
            self.number += 1
            if not self.lost_messages(self.number - FIRST_NUMBER):
                self.add(pack_session_header(0, self.number, self.time) + message)

    def snapshot(self) -> None:
        self.event(cm.ClusterActionRequest(0, 0, self.time, cm.ClusterAction.SNAPSHOT, 0))


def used(service: str, **options: object) -> Log:
    log = Log(f"accounts:{service}", **options)  # type: ignore[arg-type]
    log.request(3, id="listen", do="listen")
    log.request(1, id="fee", do="fee", amount=3)
    for number in range(90):
        log.request(1 + number % 2, id=f"x{number}", do="deposit", to=f"o{number % 5}", amount=7 + number % 3)
        if number % 20 == 19:
            log.request(1, id=f"x{number - 4}", do="deposit", to="o0", amount=7)
    log.snapshot()
    return log


def judged(service: str, **options: object) -> Judgement:
    log = used(service, **options)
    return judge_replays(log.service, log.messages)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SERVICES))


@pytest.mark.parametrize("service", ["Accounts", "Ordered", "CountsTime"])
@pytest.mark.parametrize("unit", [ClusterTimeUnit.MILLIS, ClusterTimeUnit.MICROS])
def test_a_right_service_does_the_same_from_every_snapshot(service: str, unit: ClusterTimeUnit) -> None:
    judgement = judged(service, time_unit=unit)
    assert (judgement.difference, judgement.unsteady, judgement.answers, judgement.unasked) == ("", "", "", "")
    assert judgement.form_error == ""
    assert judgement.compared == judgement.chosen == 9


def test_a_log_without_entries_compares_nothing() -> None:
    judgement = judge_replays("accounts:Accounts", [])
    assert (judgement.compared, judgement.chosen) == (0, 0)


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
def test_what_a_snapshot_forgets_is_found_without_a_model(service: str, says: str) -> None:
    judgement = judged(service)
    assert says in judgement.difference
    assert judgement.position >= 0


@pytest.mark.parametrize(
    ("service", "says"), [("ClockInMessage", 'offers \'{"amount": 0, "at":'), ("ClockInDeadline", "sets timer 98 for")]
)
def test_what_two_replays_ask_of_the_log_otherwise_is_found(service: str, says: str) -> None:
    judgement = judged(service)
    assert says in judgement.unsteady
    assert judgement.unsteady_position > 0


def test_a_canonical_form_that_hides_every_value_is_refused() -> None:
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
def test_what_the_nodes_lost_of_a_services_own_is_found(options: dict[str, Change], says: str) -> None:
    judgement = judged("Accounts", **options)
    assert says in judgement.unasked
    assert judgement.difference == ""


def test_what_the_leader_alone_offers_is_found_with_its_cause() -> None:
    judgement = judged("OffersAsLeader")
    assert "and a replay has offered none by then" in judgement.unasked
    assert "a copy that leads asks for all of it" in judgement.unasked
