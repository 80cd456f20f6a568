"""Commands that a leader is asked for, with no wait for what comes of them."""

from pathlib import Path

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import RunFolder
from upheaval.scenario import parse_scenario


@pytest.mark.parametrize(
    "lines",
    [
        "ask snapshot\nwait operations 100\n",
        "ask shutdown\nwait seconds 8\nstart\nwait operations 50\n",
        "ask abort\ninject dead kill leader\nwait seconds 8\nheal dead\nstart\nwait operations 50\n",
    ],
    ids=["snapshot", "shutdown", "abort and kill"],
)
def test_what_comes_of_a_command_that_is_asked_for_is_judged_without_its_record(lines: str, tmp_path: Path) -> None:
    scenario = parse_scenario(f"title t\nwait operations 100\n{lines}", name="asked", where="asked")
    stage = SimulatedStage(scenario, 1, tmp_path)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None)
    assert result.verdict is Verdict.VALID, result.report.to_lines()


def test_a_command_without_a_record_is_unknown_where_none_is_asked_for(tmp_path: Path) -> None:
    scenario = parse_scenario("title t\nwait operations 100\nask snapshot\nwait operations 100\n", name="a", where="a")
    stage = SimulatedStage(scenario, 1, tmp_path)
    run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None)
    run = RunFolder(tmp_path)
    run.scenario_file.write_text(run.scenario_file.read_text().replace("ask snapshot\n", ""))
    finding = verify_run(tmp_path).finding(Promise.ADMIN_COMMANDS_PROVED)
    assert finding.verdict is Verdict.UNKNOWN
    assert "controls.jsonl has no such command" in finding.detail
