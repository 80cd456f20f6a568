"""A member whose kill was healed in a run that converged has a process that began after it."""

import json
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval_chaos.record import FaultRecord, Proof

AT = 500_000
PROOF = Proof(True, "seen")


def killed(what: str, *, is_healed: bool = True) -> FaultRecord:
    healed = (AT + 9_000, AT + 9_010) if is_healed else (None, None)
    return FaultRecord(what, "member-1", AT, AT + 10, *healed, PROOF, PROOF if is_healed else None, members=(1,))


@pytest.mark.parametrize("what", ["kill", "power-cut", "wipe"])
@pytest.mark.parametrize(
    ("is_healed", "started_ns", "converged", "verdict"),
    [
        (True, None, True, Verdict.UNKNOWN),
        (True, AT + 9_005, True, Verdict.VALID),
        (True, None, False, Verdict.VALID),
        (False, None, True, Verdict.VALID),
    ],
    ids=["no start", "started", "did not converge", "not healed"],
)
def test_a_heal_without_a_start_is_contradicted(
    what: str, is_healed: bool, started_ns: int | None, converged: bool, verdict: Verdict, tmp_path: Path
) -> None:
    run = good_run()
    run.converged = converged
    run.faults = [killed(what, is_healed=is_healed)]
    if started_ns is not None:
        run.traces[1].append(json.dumps({"ts": started_ns, "component": "all", "event": "process-start"}))
    run.write(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.FAULTS_IN_TIME)
    assert finding.verdict is verdict, finding
    assert ("no process began after it (member-1/trace.jsonl)" in finding.detail) is (verdict is Verdict.UNKNOWN)
