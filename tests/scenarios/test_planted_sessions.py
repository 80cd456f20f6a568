"""Nodes with a wrong line about sessions are found by one short scenario, by the promise that the catalogue names."""

from pathlib import Path

import pytest

from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.scenario import load_scenario
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import bug_named

pytestmark = pytest.mark.pure

BUGS = tuple(
    map(
        bug_named,
        (
            "new-leader-closes-all-sessions",
            "new-leader-says-nothing",
            "session-lasts-a-quarter",
            "session-lasts-ten-times-too-long",
            "session-never-times-out",
        ),
    )
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_scenario_finds_it(bug: PlantedBug, tmp_path: Path) -> None:
    scenario = load_scenario("sessions-outlive-a-leader")
    stage = SimulatedStage(scenario, 1, tmp_path, bug.name)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None, planted=bug.name)
    finding = next(each for each in result.report.findings if each.promise == bug.caught_by[0])
    assert finding.verdict is Verdict.INVALID
    assert finding.members == (2,)
    assert finding.position is not None
