"""The library of scenarios as parameters of tests: all of it once a night, some of it every time."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from upheaval.checkers.promises import Promise
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.scenario import Inject, load_scenario, scenario_names


def scenarios_of(runtime: str, often: Sequence[str]) -> list[Any]:
    """Every scenario that runs there; those that are not in `often` are marked as nightly."""
    names = [name for name in scenario_names() if runtime in load_scenario(name).runtimes]
    unknown = set(often) - set(names)
    assert not unknown, unknown
    return [pytest.param(name, marks=() if name in often else pytest.mark.nightly) for name in names]


def planned_faults(name: str) -> int:
    return sum(isinstance(step, Inject) for step in load_scenario(name).steps)


def promises_in_the_simulation(folder: Path) -> list[str]:
    """What is judged of a scenario that names no promises of its own, in order."""
    scenario = load_scenario("leader-killed")
    assert not scenario.promises
    stage = SimulatedStage(scenario, 1, folder)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None)
    return judged_everywhere(finding.promise for finding in result.report.findings)


def judged_everywhere(promises: Iterable[str]) -> list[str]:
    """Those of them that do not depend on a change of leaders, which not every scenario has on every runtime."""
    return [promise for promise in promises if promise != Promise.SESSIONS_OUTLIVE_LEADERS]
