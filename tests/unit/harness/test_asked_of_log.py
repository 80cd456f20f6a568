"""Whether the log has what a service asked for: right logs, and each with one thing changed."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.own.asked_of_log import CROSSING_MS, LATE_MS, Unasked, log_against_asked
from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.checkers.own.own_replay import is_timed
from upheaval.records import RunFolder
from upheaval_chaos.record import FaultRecord

QUIET = Effects()


@dataclass
class Log:
    """Entries with what a copy does at each; time goes on by `step` with each of them."""

    entries: list[Entry] = field(default_factory=list)
    effects: list[Effects] = field(default_factory=list)
    time: int = 1000

    def add(
        self, kind: EntryKind = EntryKind.REQUEST, effects: Effects = QUIET, *, step: int = 10, **of: object
    ) -> "Log":
        self.time += step
        payload, subject = of.get("payload", b""), of.get("subject", 0)
        assert isinstance(payload, bytes)
        assert isinstance(subject, int)
        self.entries.append(Entry(32 * (len(self.entries) + 1), kind, self.time, subject, payload))
        self.effects.append(effects)
        return self

    def sets(self, timer: int, deadline: int | None) -> "Log":
        return self.add(effects=Effects(timers=((timer, deadline),)))

    def fires(self, timer: int, *, step: int = 10) -> "Log":
        return self.add(EntryKind.TIMER, subject=timer, step=step)

    def offers(self, *messages: bytes) -> "Log":
        return self.add(effects=Effects(offers=messages))

    def has(self, message: bytes) -> "Log":
        return self.add(EntryKind.OWN_MESSAGE, payload=message)

    def goes_on(self, ms: int) -> "Log":
        for _ in range(ms // 10):
            self.add()
        return self

    def judged(self, **options: bool) -> Unasked | None:
        return log_against_asked(self.entries, self.effects, **options)


@pytest.mark.parametrize(
    "log",
    [
        Log(),
        Log().sets(7, 1020).fires(7),
        Log().sets(7, 1050).sets(7, None).goes_on(5000),
        Log().sets(7, 1020).sets(7, 1100).fires(7, step=100),
        Log().offers(b"a", b"b").has(b"a").offers(b"a").has(b"b").has(b"a"),
        Log().offers(b"a").goes_on(LATE_MS - 100),
        Log().sets(7, 1020).add(step=60_000).fires(7),
        Log().sets(7, 1020).goes_on(LATE_MS - 100).add(EntryKind.TERM).goes_on(LATE_MS - 100).fires(7),
        Log().sets(7, 1020).add(effects=Effects(timers=((7, None),)), step=5).fires(7, step=20),
        Log().sets(7, 1020).add(effects=Effects(timers=((7, 1500),)), step=5).fires(7, step=20).fires(7, step=500),
        Log().sets(7, 1020).add(effects=Effects(timers=((7, 1500),)), step=5).fires(7, step=20).goes_on(5000),
    ],
    ids=[
        "empty",
        "fires",
        "cancelled",
        "set anew",
        "messages",
        "message on its way",
        "a pause",
        "an election",
        "an expiry crosses its cancellation",
        "an expiry crosses another setting",
        "and is the only one",
    ],
)
def test_a_right_log_is_right(log: Log) -> None:
    assert log.judged() is None


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (Log().sets(7, 1050).fires(7), "timer 7 fires at position 64, 30 ms before its deadline 1050"),
        (
            Log().sets(7, 1020).fires(7).sets(7, 1080).fires(7),
            "40 ms before its deadline 1080; it fired last at position 64",
        ),
        (Log().sets(7, 1020).fires(7).fires(7), "timer 7 fires at position 96, and it fired before at position 64"),
        (Log().sets(7, 1020).goes_on(5000), "timer 7, which a replay sets at position 32 for 1020, has not fired by"),
        (Log().sets(7, 1020).goes_on(LATE_MS).add(step=50).fires(7, step=20), "timer 7, which a replay sets"),
        (Log().fires(7), "timer 7 fires at position 32, and a replay does not set it"),
        (
            Log().sets(7, 1050).sets(7, None).goes_on(CROSSING_MS + 100).fires(7),
            "timer 7 fires at position 3616, and a replay cancels it long before",
        ),
        (Log().has(b"a"), "the service's message 'a' at position 32, and a replay has offered none by then"),
        (Log().offers(b"a").has(b"a").has(b"a"), "'a' at position 96 once more, and a replay offers it once"),
        (Log().offers(b"a", b"b").has(b"b"), "lacks the one that a replay offers before it, 'a' at position 32"),
        (Log().offers(b"a").has(b"A"), "the service's message 'A' at position 64, and what a replay offers is 'a'"),
        (Log().offers(b"a").goes_on(5000), "a replay offers 'a' at position 32, and the log does not have it by"),
    ],
    ids=[
        "early",
        "twice, and set anew between",
        "twice",
        "lost",
        "late",
        "never set",
        "cancelled",
        "no offer",
        "again",
        "dropped",
        "garbled",
        "late message",
    ],
)
def test_what_the_log_does_not_have_as_it_was_asked_for_is_found(log: Log, says: str) -> None:
    found = log.judged()
    assert found is not None
    assert says in found.detail
    assert found.position > 0


def test_an_unknown_timer_may_be_that_of_another_service() -> None:
    assert Log().fires(7).judged(has_other_services=True) is None


@pytest.mark.parametrize(
    "log",
    [
        Log().sets(7, 1020).goes_on(5000).fires(7),
        Log().sets(7, 1020).goes_on(5000).sets(7, None).goes_on(5000).fires(7),
        Log().offers(b"a").goes_on(5000).has(b"a"),
    ],
)
def test_what_a_stopped_service_asks_late_is_right(log: Log) -> None:
    assert log.judged() is not None
    assert log.judged(is_timed=False) is None


def test_a_log_without_bounds_on_time_still_has_each_message_once_and_in_order() -> None:
    for log in (Log().offers(b"a", b"b").has(b"b"), Log().offers(b"a").has(b"a").has(b"a"), Log().fires(7)):
        assert log.judged(is_timed=False) is not None


def test_bounds_are_in_the_unit_of_the_log() -> None:
    log = Log().sets(7, 1020).goes_on(5000)
    assert log_against_asked(log.entries, log.effects, units_per_ms=1000) is None


@pytest.mark.parametrize(("component", "expected"), [("service", False), ("consensus", True), (None, True)])
def test_a_run_has_bounds_unless_a_service_was_stopped_alone(
    component: str | None, expected: bool, tmp_path: Path
) -> None:
    good_run(1).write(tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    assert is_timed(run)
    run.add_fault(FaultRecord("pause", "member-0", 1, 2, 3, 4, members=(0,), component=component))
    assert is_timed(run) is expected
