"""Whether the log has what a service asked for: right logs, and each with one thing changed."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from upheaval.checkers.own.asked_of_log import CROSSING_MS, LATE_MS, Unasked, log_against_asked
from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.checkers.own.own_replay import untimed_ms
from upheaval.records import Manifest, RunFolder
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import MS, NEVER_NS, S

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

    def judged(
        self, *untimed_ms: tuple[int, int], units_per_ms: int = 1, has_other_services: bool = False
    ) -> Unasked | None:
        return log_against_asked(
            self.entries,
            self.effects,
            units_per_ms,
            has_other_services=has_other_services,
            untimed_ms=untimed_ms,
        )


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
    assert log.judged((1000, log.time)) is None
    assert log.judged((1000, 1500)) is not None
    assert log.judged((log.time, NEVER_NS)) is not None


def test_a_log_without_bounds_on_time_still_has_each_message_once_and_in_order() -> None:
    for log in (Log().offers(b"a", b"b").has(b"b"), Log().offers(b"a").has(b"a").has(b"a"), Log().fires(7)):
        assert log.judged((0, NEVER_NS)) is not None


def test_bounds_are_in_the_unit_of_the_log() -> None:
    log = Log().sets(7, 1020).goes_on(5000)
    assert log.judged(units_per_ms=1000) is None


LONG = 1_000_000
"""Cluster time in milliseconds at which the service is stopped."""


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (Log().offers(b"a").goes_on(LONG), "and the log does not have it by position"),
        (Log().sets(7, 1020).goes_on(LONG), "has not fired by position"),
        (
            Log().sets(7, 1050).sets(7, None).goes_on(250_000).fires(7).goes_on(LONG),
            "and a replay cancels it long before",
        ),
    ],
    ids=["lost message", "lost timer", "cancelled timer"],
)
def test_a_service_that_is_stopped_at_the_end_excuses_nothing_before(log: Log, says: str) -> None:
    found = log.judged((LONG, NEVER_NS))
    assert found is not None
    assert says in found.detail


def untimed(path: Path, *faults: FaultRecord) -> tuple[tuple[int, int], ...]:
    """Of a run whose members' wall clocks are 1000 to 1200 ms ahead."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 1))
    for member_id in range(3):
        run.member(member_id).path.mkdir()
        epoch_ms = 1000 + member_id * 100 + 5
        run.member(member_id).trace.write_text(f'{{"ts":5000000,"epoch_ms":{epoch_ms},"event":"process-start"}}\n')
    for fault in faults:
        run.add_fault(fault)
    return untimed_ms(run, 3)


STOPPED = FaultRecord("pause", "", 10 * S, 11 * S, 12 * S, 13 * S, members=(0,), component="service")


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ((), ()),
        ((replace(STOPPED, component="consensus"), replace(STOPPED, component=None)), ()),
        ((STOPPED,), ((11_000, 17_200),)),
        ((replace(STOPPED, heal_begin_ns=None, heal_end_ns=None),), ((11_000, NEVER_NS // MS + 1200),)),
        ((STOPPED, replace(STOPPED, what="clock-jump", component=None)), ((-49_000, 77_200),)),
    ],
    ids=["none", "others", "stopped", "for ever", "with other clocks"],
)
def test_the_time_in_which_a_service_alone_was_stopped_does_not_count(
    faults: tuple[FaultRecord, ...], expected: tuple[tuple[int, int], ...], tmp_path: Path
) -> None:
    """Afterwards it has as long again to catch up with the log."""
    assert untimed(tmp_path, *faults) == expected


def test_without_the_clock_of_any_member_no_time_counts(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 3, "test", 1))
    run.add_fault(STOPPED)
    assert untimed_ms(run, 3) == ((0, NEVER_NS),)
