"""Clusters that never start: judged when a member failed in an election, an error of the caller otherwise."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import EnvironmentFault, HarnessError, UnknownOutcome
from upheaval.execution.run import RESULT_FILE, run_scenario
from upheaval.execution.stage import Steered
from upheaval.records import Json, Manifest, RunFolder
from upheaval.scenario import parse_scenario
from upheaval.workload import LoadCounts
from upheaval_chaos.record import FaultRecord

S = 10**9
SCENARIO = parse_scenario("title It starts\ncluster members=1\nwait operations 1\n", name="starts", where="here")


def line(second: int, event: str, **fields: Json) -> dict[str, Json]:
    return {"ts": second * S, "epoch_ms": second * 1000, "event": event, "component": "all", **fields}


START = line(1, "process-start")
ELECTION = line(2, "election_state", old="INIT", state="INIT")


def end(status: int) -> dict[str, Json]:
    return line(3, "process-end", status=status)


class Unstarted:
    """A stage whose cluster does not start, with the trace of its member. Implements `Stage`."""

    def __init__(self, folder: Path, trace: list[dict[str, Json]], error: HarnessError) -> None:
        self.run = RunFolder(folder)
        self._trace = trace
        self._error = error
        self.is_closed = False

    @property
    def target(self) -> Steered:
        raise AssertionError("nothing started")

    def open(self, say: Callable[[str], None]) -> None:
        self.run.create(Manifest("run-1", "process", 1, "test", 0))
        member = self.run.member(0)
        member.path.mkdir()
        member.trace.write_text("".join(json.dumps(each) + "\n" for each in self._trace))
        raise self._error

    def record_fault(self, fault: FaultRecord) -> None: ...

    def end_load(self) -> LoadCounts:
        raise AssertionError("nothing started")

    def close(self) -> None:
        self.is_closed = True

    def digest(self) -> None: ...


ENDED = EnvironmentFault("member 0 ended with status 7: no leader for me")


@pytest.mark.parametrize("status", [1, 6, 7, 9])
def test_a_member_that_fails_in_an_election_is_judged_with_what_was_seen(status: int, tmp_path: Path) -> None:
    stage = Unstarted(tmp_path / "run", [START, ELECTION, end(status)], ENDED)
    result = run_scenario(SCENARIO, stage, runtime="process", seed=1, say=lambda _: None)
    findings = {finding.promise: finding for finding in result.report.findings}
    assert result.verdict is Verdict.INVALID
    assert findings[Promise.NO_UNEXPLAINED_END].verdict is Verdict.INVALID
    assert findings[Promise.RUN_ENDED].verdict is Verdict.UNKNOWN
    assert str(ENDED) in findings[Promise.RUN_ENDED].detail
    assert stage.is_closed
    assert (stage.run.path / RESULT_FILE).is_file()


@pytest.mark.parametrize(
    "trace",
    [[START, end(7)], [START, ELECTION, end(4)], [START, ELECTION, end(0)], [START, ELECTION], []],
    ids=["before an election", "its disk failed", "in order", "still there", "no trace"],
)
def test_a_start_that_fails_without_a_member_of_its_own_fault_is_an_error(
    trace: list[dict[str, Json]], tmp_path: Path
) -> None:
    stage = Unstarted(tmp_path / "run", trace, ENDED)
    with pytest.raises(EnvironmentFault, match=str(ENDED)):
        run_scenario(SCENARIO, stage, runtime="process", seed=1, say=lambda _: None)
    assert stage.is_closed


def test_a_cluster_without_a_leader_is_judged_unknown(tmp_path: Path) -> None:
    stage = Unstarted(tmp_path / "run", [START, ELECTION], UnknownOutcome("no leader: member 0 in INIT"))
    result = run_scenario(SCENARIO, stage, runtime="process", seed=1, say=lambda _: None)
    findings = {finding.promise: finding for finding in result.report.findings}
    assert result.verdict is Verdict.UNKNOWN
    assert findings[Promise.RUN_ENDED].detail == "no leader: member 0 in INIT"
