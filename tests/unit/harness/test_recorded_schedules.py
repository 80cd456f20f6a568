"""The recorded schedule of a live run as a scenario: which commands it repeats."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.errors import UsageError
from upheaval.records import FORCED_END, AdminCommand, ControlRecord, RunFolder
from upheaval.scenario import GiveCommand, KeepCompanion, Scenario, load_scenario, recorded_scenario
from upheaval.scenario.by_hand import scenario_by_hand
from upheaval_chaos.record import Proof

S = 1_000_000_000
SNAPSHOT = ControlRecord("snapshot", 13 * S, 14 * S, 1, {}, Proof(True, "seen"), 5)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = good_run(20).write(tmp_path / "run")
    run.add_control(SNAPSHOT)
    return run


def recorded(run: RunFolder) -> Scenario:
    return recorded_scenario(load_scenario("leader-killed"), run)


def commands(scenario: Scenario) -> list[str]:
    given = [step for step in scenario.steps if isinstance(step, GiveCommand | KeepCompanion)]
    return [step.command if isinstance(step, GiveCommand) else f"backup {step.action} {step.source}" for step in given]


def test_an_end_by_the_harness_is_none_of_the_schedule(run: RunFolder) -> None:
    run.add_control(replace(SNAPSHOT, what="backup start source=LEADER", begin_ns=15 * S))
    run.add_forced_end([0, 2], 40 * S, 41 * S, "still there after 10 s")
    assert [control.what for control in run.read_controls()][-1] == FORCED_END
    expected = ["snapshot", "backup start LEADER"]
    assert commands(recorded(run)) == commands(scenario_by_hand(run)) == expected


@pytest.mark.parametrize("what", ["standby start", "backup start name=backup-1", "standby-snapshot"])
def test_a_command_without_a_statement_is_named(run: RunFolder, what: str) -> None:
    run.add_control(replace(SNAPSHOT, what=what))
    for made in (recorded, scenario_by_hand):
        with pytest.raises(UsageError, match=f"scenarios have no statement for `{what}`"):
            made(run)


@pytest.mark.parametrize("ending", [AdminCommand.SHUTDOWN, AdminCommand.ABORT])
def test_a_run_that_failed_before_its_start_is_repeated_with_one(run: RunFolder, ending: AdminCommand) -> None:
    run.add_control(replace(SNAPSHOT, what=ending.value, begin_ns=20 * S))
    assert commands(recorded(run)) == ["snapshot", ending, "start"]
    run.add_control(replace(SNAPSHOT, what="start", begin_ns=25 * S))
    assert commands(recorded(run)) == ["snapshot", ending, "start"]
