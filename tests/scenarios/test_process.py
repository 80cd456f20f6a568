"""Scenarios on real processes: a kill, a pause and a one-way partition; and a partition that was not done."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.checkers.verdict import Verdict
from upheaval.runtimes.process import ProcessCluster
from upheaval.scenario_live import LiveStage
from upheaval.scenario_run import FAULTS_PROVED, ScenarioResult, run_scenario
from upheaval.scenario_text import load_scenario
from upheaval_chaos.target import Link

pytestmark = pytest.mark.heavy


class NothingCut(LiveStage):
    """Hands that say they did it."""

    def cut(self, links: Sequence[Link]) -> None: ...


def perform(name: str, folder: Path, stage_type: type[LiveStage] = LiveStage) -> ScenarioResult:
    scenario = load_scenario(name)
    stage = stage_type(scenario, "process", 1, folder)
    result = run_scenario(scenario, stage, runtime="process", seed=1, say=lambda _: None)
    end_without_trace(ProcessCluster.open(folder))
    return result


@pytest.mark.parametrize("name", ["leader-killed", "paused-leader", "one-way-partition"])
def test_the_scenario_is_valid_and_its_faults_are_proved(name: str, tmp_path: Path) -> None:
    result = perform(name, tmp_path / "run")
    assert result.verdict is Verdict.VALID, result.report.findings
    assert result.digest is None


def test_a_partition_that_was_not_done_makes_no_valid_run(tmp_path: Path) -> None:
    result = perform("one-way-partition", tmp_path / "run", NothingCut)
    assert result.verdict is Verdict.UNKNOWN
    assert "not proved" in result.report.finding(FAULTS_PROVED).detail
