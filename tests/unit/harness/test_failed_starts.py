"""Clusters that never start: judged when a member failed in an election, an error of the caller otherwise."""

from pathlib import Path

import pytest

from support.unstarted import ELECTION, ENDED, START, Unstarted, end
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.execution.run import RESULT_FILE, run_scenario
from upheaval.records import Json
from upheaval.scenario import parse_scenario

SCENARIO = parse_scenario("title It starts\ncluster members=1\nwait operations 1\n", name="starts", where="here")


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
