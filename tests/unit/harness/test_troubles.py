"""A killed member is in trouble from its last line until it is back, however long its injector took by its own word."""

import pytest

from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts
from upheaval.checkers.evidence.troubles import Trouble, fault_troubles
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import NEVER_NS, S

LAST, BACK = 100, 130
"""When the member wrote its last line, and its next process the first one of an election."""


def life(component: str, begin: float, last: float, started: float | None = None) -> ProcessLife:
    started_ns = None if started is None else int(started * S)
    return ProcessLife(1, component, 1, int(begin * S), int(last * S), started_ns=started_ns)


LIVES = (life("all", 0, LAST, 1), life("all", BACK - 1, 500, BACK))
SPLIT = (
    life("consensus", 0, LAST, 1),
    life("service-0", 0, LAST - 40),
    life("consensus", BACK - 1, 500, BACK),
    life("service-0", BACK + 3, 400),
)


def fault(what: str, begin: float, end: float | None, *, component: str | None = None) -> FaultRecord:
    heal_ns = (None, None) if end is None else (129 * S, int(end * S))
    return FaultRecord(what, "", int(begin * S), 101 * S, *heal_ns, members=(1,), component=component)


def window(hit: FaultRecord, *lives: ProcessLife) -> tuple[float, float]:
    (trouble,) = fault_troubles(
        [hit], [TraceFacts(0, True, [life("all", 0, 500, 1)]), TraceFacts(1, True, list(lives))]
    )
    assert trouble.members == (1,)
    return trouble.begin_ns / S, trouble.end_ns / S


@pytest.mark.parametrize("what", ["kill", "power-cut", "wipe", "purge", "damage"])
@pytest.mark.parametrize(
    ("begin", "end", "lives", "expected"),
    [
        (0, 499, LIVES, (LAST - 0.5, BACK + 0.5)),
        (97, 130.25, LIVES, (LAST - 0.5, 130.25)),
        (99.8, 129, LIVES, (99.8, 129)),
        (0, 499, SPLIT, (LAST - 40.5, BACK + 3.5)),
        (0, 900, LIVES, (LAST - 0.5, BACK + 0.5)),
        (0, 499, LIVES[:1], (LAST - 0.5, 499)),
        (0, 499, (LIVES[0], life("all", BACK - 1, 140, BACK)), (LAST - 0.5, 499)),
        (0, 499, (LIVES[0], life("all", BACK - 1, 500)), (LAST - 0.5, 499)),
        (99.8, 499, (life("all", 0, 60, 1), LIVES[1]), (99.8, BACK + 0.5)),
        (99.8, 499, (), (99.8, 499)),
    ],
    ids=[
        "the whole run",
        "a slow injection",
        "at once",
        "in several processes",
        "beyond all traces",
        "not started",
        "started and gone",
        "no election",
        "down before",
        "no trace",
    ],
)
def test_a_member_is_in_trouble_no_longer_than_its_trace_shows(
    what: str, begin: float, end: float, lives: tuple[ProcessLife, ...], expected: tuple[float, float]
) -> None:
    assert window(fault(what, begin, end), *lives) == expected


def test_a_member_that_ends_in_order_may_be_in_trouble_before_its_last_line() -> None:
    assert window(fault("stop", 0, 499), *LIVES) == (0, BACK + 0.5)


def test_a_fault_that_was_not_healed_goes_on() -> None:
    assert window(fault("kill", 99, None), *LIVES) == (LAST - 0.5, NEVER_NS / S)


def test_a_member_is_in_trouble_at_the_end_of_the_injection_at_the_latest() -> None:
    assert window(fault("kill", 99, 499), life("all", 0, 300, 1)) == (101, 499)


@pytest.mark.parametrize("what", ["pause", "blackhole", "restart", "die-in-change", "disk-full"])
def test_other_faults_last_as_recorded(what: str) -> None:
    assert window(fault(what, 0, 499), *LIVES) == (0, 499)


def test_the_kill_of_another_component_lasts_as_recorded() -> None:
    assert window(fault("kill", 0, 499, component="archive"), *SPLIT) == (0, 499)


def test_each_member_of_a_fault_is_back_by_itself() -> None:
    both = FaultRecord("kill", "", 99 * S, 101 * S, 129 * S, 499 * S, members=(0, 1))
    facts = [TraceFacts(0, True, [life("all", 0, LAST, 1)]), TraceFacts(1, True, list(LIVES))]
    assert list(fault_troubles([both], facts)) == [
        Trouble(int(99.5 * S), 499 * S, (0,)),
        Trouble(int(99.5 * S), int(130.5 * S), (1,)),
    ]
