"""The promise that every fault took effect and was healed, judged from what was recorded."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.faults import faults_proved
from upheaval.checkers.verdict import Verdict
from upheaval.records import (
    Converge,
    Manifest,
)
from upheaval_chaos.record import FaultRecord, Proof

Y = Proof(False, "y")
HEALED = FaultRecord("kill", "member-0", 1, 2, 3, 4, Proof(True, "gone: process 7"), Proof(True, "running"))
OPEN = FaultRecord("kill", "member-1", 1, 2, inject_proof=Proof(True, "gone: process 8"))


def manifest(*, converged: bool) -> Manifest:
    return Manifest("run", "process", 3, "test", 1, converge=Converge(converged, 9, ()))


def test_a_fault_that_was_planned_and_not_done_was_not_proved() -> None:
    planned = replace(manifest(converged=True), planned_faults=("first", "second", "second"))
    done = [replace(HEALED, name=name) for name in ("first", "second")]
    found = faults_proved(done, planned)
    assert (found.verdict, found.detail) == (Verdict.UNKNOWN, "planned and not done: fault 'second'")
    assert faults_proved([*done, done[1]], planned).verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("faults", "converged", "verdict", "text"),
    [
        ([], False, Verdict.VALID, "there were none"),
        ([HEALED], False, Verdict.VALID, "kill of member-0: gone: process 7; healed: running"),
        ([HEALED, OPEN], True, Verdict.VALID, "running; kill of member-1: gone: process 8"),
        ([replace(HEALED, heal_proof=None)], True, Verdict.UNKNOWN, "kill of member-0: gone: process 7"),
        ([HEALED, OPEN], False, Verdict.UNKNOWN, "kill of member-1 was not healed"),
        ([FaultRecord("kill", "member-0", 1, 2, 3, 4)], True, Verdict.UNKNOWN, "kill of member-0: no proof"),
        ([FaultRecord("cut", "x", 1, 2, 3, 4, Y)], True, Verdict.UNKNOWN, "cut of x: effect not proved: y"),
        ([replace(HEALED, heal_proof=Y)], True, Verdict.UNKNOWN, "gone: process 7; healing not proved: y"),
        ([replace(HEALED, inject_proof=None)], True, Verdict.UNKNOWN, "no proof"),
    ],
)
def test_verdicts(faults: list[FaultRecord], converged: bool, verdict: Verdict, text: str) -> None:
    finding = faults_proved(faults, manifest(converged=converged))
    assert finding.verdict is verdict
    assert text in finding.detail
