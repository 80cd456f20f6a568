"""Commands for whose effect a run does not wait: recorded when every member shows it, with nothing else done before."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.valid import require_valid
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import ScenarioResult, run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import AdminCommand, ControlRecord
from upheaval.scenario import AskFor, Scenario, Step, WaitLeader, WaitOperations, WaitSeconds, parse_scenario

IN_A_FAULT = """title A snapshot is asked for while a follower is down
wait operations 10
inject dead kill follower
ask snapshot
wait seconds 1
heal dead
"""
RESTART: tuple[Step, ...] = (WaitSeconds(2), AskFor(AdminCommand.START), WaitLeader())


def calm(*steps: Step) -> Scenario:
    plain = parse_scenario("title Nothing is done to the cluster\nwait operations 10\n", name="calm", where="calm")
    return replace(plain, steps=(WaitOperations(10), *steps))


def played(scenario: Scenario, folder: Path, planted: str | None = None) -> tuple[ScenarioResult, list[ControlRecord]]:
    stage = SimulatedStage(scenario, 1, folder, planted)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None, planted=planted)
    return result, list(stage.run.read_controls())


def test_a_snapshot_that_all_members_take_is_recorded_with_its_position(tmp_path: Path) -> None:
    result, controls = played(calm(AskFor(AdminCommand.SNAPSHOT), WaitSeconds(1), WaitOperations(10)), tmp_path)
    require_valid(result.report)
    (record,) = [control for control in controls if control.what == AdminCommand.SNAPSHOT]
    positions = {str(seen) for seen in record.members.values()}
    assert (len(record.members), len(positions), record.proof.holds) == (3, 1, True)
    assert record.begin_ns < record.end_ns


def test_one_in_a_fault_is_not(tmp_path: Path) -> None:
    _, controls = played(parse_scenario(IN_A_FAULT, name="fault", where="fault"), tmp_path)
    assert [control.what for control in controls] == []


def test_a_shutdown_is_recorded_with_the_snapshots_that_it_left(tmp_path: Path) -> None:
    result, controls = played(calm(AskFor(AdminCommand.SHUTDOWN), *RESTART), tmp_path)
    assert [control.what for control in controls] == [AdminCommand.SHUTDOWN]
    assert result.report.finding(Promise.ENDS_AT_ONE_POSITION).verdict is Verdict.VALID


@pytest.mark.pure
def test_one_that_left_none_is_found(tmp_path: Path) -> None:
    result, _ = played(calm(AskFor(AdminCommand.SHUTDOWN), *RESTART), tmp_path, "shutdown-without-a-snapshot")
    found = result.report.finding(Promise.ENDS_AT_ONE_POSITION)
    assert found.verdict is Verdict.INVALID
    assert "with its last snapshot at -1" in found.detail


@pytest.mark.parametrize(
    "lines",
    [
        "ask shutdown\n",
        "ask abort\n",
        "ask shutdown\nwait seconds 8\n",
        "ask abort\ninject dead kill leader\nwait seconds 8\nheal dead\n",
        "begin late pause follower\nask abort\nend late\n",
    ],
    ids=["shutdown", "abort", "shutdown and wait", "abort, kill and wait", "a member ends late"],
)
def test_a_cluster_that_is_asked_to_end_starts_again(lines: str, tmp_path: Path) -> None:
    text = f"title t\nwait operations 100\n{lines}start\nwait operations 50\n"
    result, _ = played(parse_scenario(text, name="ends", where="ends"), tmp_path)
    require_valid(result.report)
