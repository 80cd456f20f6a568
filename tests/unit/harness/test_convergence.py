"""The promise that a run converged: the time at which the members were looked at is held to what shows."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.convergence import Shown, converged_then
from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts
from upheaval.checkers.verdict import Verdict
from upheaval.records import Converge, FinalPosition, Function, Manifest, Operation, Outcome
from upheaval_chaos.record import FaultRecord, Proof

POSITION, AT_NS = 640, 1000
CONVERGE = Converge(True, AT_NS, tuple(FinalPosition(each, POSITION, POSITION, 0) for each in range(2)))
MANIFEST = Manifest("run-1", "process", 2, "test", 0, converge=CONVERGE)


def facts(member_id: int, *lives: ProcessLife) -> TraceFacts:
    return TraceFacts(member_id, is_there=True, lives=list(lives))


def life(begin_ns: int, last_ns: int, status: int | None = None, next_ns: int | None = None) -> ProcessLife:
    return ProcessLife(1, "all", 1, begin_ns, last_ns, status=status, next_ns=next_ns)


RAN = life(1, 900)


def operation(invoke_ns: int, position: int = POSITION) -> Operation:
    return Operation(7, 0, Function.WRITE, "x", 1, invoke_ns, invoke_ns + 1, Outcome.OK, position=position)


def fault(inject_ns: int, heal_ns: int | None) -> FaultRecord:
    proof = Proof(True, "seen")
    return FaultRecord("pause", "member-1", inject_ns, inject_ns, heal_ns, heal_ns, proof, proof, members=(1,))


GOOD = Shown((operation(900),), (fault(100, 200),), (facts(0, RAN), facts(1, RAN)), POSITION)


def test_what_came_before_is_no_contradiction() -> None:
    assert converged_then(MANIFEST, GOOD).verdict is Verdict.VALID


def test_what_traces_do_not_say_is_none() -> None:
    assert converged_then(MANIFEST, Shown()).verdict is Verdict.VALID


@pytest.mark.parametrize("committed", [-1, POSITION - 32])
def test_a_position_that_no_trace_has_by_then(committed: int) -> None:
    finding = converged_then(MANIFEST, replace(GOOD, committed_then=committed))
    assert (finding.verdict, finding.position) == (Verdict.UNKNOWN, POSITION)


@pytest.mark.parametrize(
    ("late", "verdict"),
    [
        (operation(AT_NS), Verdict.UNKNOWN),
        (operation(AT_NS + 5), Verdict.UNKNOWN),
        (operation(AT_NS - 1), Verdict.VALID),
        (operation(AT_NS + 5, POSITION + 32), Verdict.VALID),
    ],
)
def test_an_operation_in_the_log_was_asked_for_before(late: Operation, verdict: Verdict) -> None:
    finding = converged_then(MANIFEST, replace(GOOD, operations=(late,)))
    assert finding.verdict is verdict
    assert finding.operation == (7 if verdict is Verdict.UNKNOWN else None)


@pytest.mark.parametrize(
    ("lives", "verdict"),
    [
        ((life(1, 900),), Verdict.VALID),
        ((life(1, 900, 0),), Verdict.UNKNOWN),
        ((life(1, 1100, 0),), Verdict.VALID),
        ((life(1, 500, None, 600), life(600, 1200)), Verdict.VALID),
        ((life(1, 500, None, 1200), life(1200, 1300)), Verdict.VALID),
        ((life(1, 500, 0, 1200), life(1200, 1300)), Verdict.UNKNOWN),
        ((life(1001, 1300),), Verdict.UNKNOWN),
        ((), Verdict.UNKNOWN),
    ],
)
def test_every_member_ran_when_it_was_looked_at(lives: tuple[ProcessLife, ...], verdict: Verdict) -> None:
    finding = converged_then(MANIFEST, replace(GOOD, traces=(facts(0, RAN), facts(1, *lives))))
    assert (finding.verdict, finding.members) == (verdict, () if verdict is Verdict.VALID else (1,))


@pytest.mark.parametrize(
    ("open_fault", "verdict"),
    [
        (fault(900, 1100), Verdict.UNKNOWN),
        (fault(900, None), Verdict.VALID),
        (fault(1001, 1100), Verdict.VALID),
        (fault(900, 1000), Verdict.VALID),
    ],
)
def test_no_fault_went_on_then(open_fault: FaultRecord, verdict: Verdict) -> None:
    finding = converged_then(MANIFEST, replace(GOOD, faults=(open_fault,)))
    assert (finding.verdict, finding.members) == (verdict, () if verdict is Verdict.VALID else (1,))


def test_what_did_not_converge_is_no_better_for_it() -> None:
    manifest = replace(MANIFEST, converge=replace(CONVERGE, reached=False))
    assert converged_then(manifest, GOOD).verdict is Verdict.TIMEOUT
