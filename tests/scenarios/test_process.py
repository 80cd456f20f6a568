"""Scenarios of the library on real processes: the same promises as in the simulation; what happened is replayed."""

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.library import judged_everywhere, planned_faults, promises_in_the_simulation, scenarios_of
from support.live_clusters import end_without_trace
from support.valid import require_valid, require_valid_end
from upheaval.checkers.judge import verify_run
from upheaval.cli.main import main
from upheaval.execution.live import LiveStage
from upheaval.execution.run import ScenarioResult, run_scenario
from upheaval.records import (
    RunFolder,
)
from upheaval.runtimes.process import ProcessCluster
from upheaval.scenario import load_scenario, parse_scenario
from upheaval_chaos.record import FaultRecord, Proof

pytestmark = pytest.mark.heavy
OFTEN = ("leader-killed", "one-way-partition")


@pytest.fixture(scope="module")
def perform(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, ScenarioResult]]:
    """Runs a scenario, once for all tests, and says where that was."""

    @functools.cache
    def performed(name: str) -> tuple[Path, ScenarioResult]:
        folder = tmp_path_factory.mktemp(name) / "run"
        scenario = load_scenario(name)
        stage = LiveStage(scenario, "process", 1, folder)
        result = run_scenario(scenario, stage, runtime="process", seed=1, say=lambda _: None)
        end_without_trace(ProcessCluster.open(folder))
        return folder, result

    return performed


@pytest.fixture(scope="module")
def promises(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return promises_in_the_simulation(tmp_path_factory.mktemp("simulated") / "run")


@pytest.mark.parametrize("name", scenarios_of("process", OFTEN))
def test_the_scenario_is_valid_and_its_faults_are_proved(
    name: str, perform: Callable[[str], tuple[Path, ScenarioResult]], promises: list[str]
) -> None:
    folder, result = perform(name)
    require_valid(result.report)
    assert judged_everywhere(finding.promise for finding in result.report.findings) == promises
    assert verify_run(folder) == result.report
    assert len(list(RunFolder(folder).read_faults())) == planned_faults(name)
    assert result.digest is None


def progress_of(text: str, folder: Path) -> list[str]:
    """The lines that a valid run of the scenario prints."""
    lines: list[str] = []
    scenario = parse_scenario(text, name="steps", where="steps")
    stage = LiveStage(scenario, "process", 1, folder)
    require_valid(run_scenario(scenario, stage, runtime="process", seed=1, say=lines.append).report)
    return lines


def test_a_step_begins_when_a_message_was_sent(tmp_path: Path) -> None:
    text = """title A vote for another leader
        wait operations 60
        inject dead kill leader
        wait sent Vote from=all!dead to=all!dead vote=true
        wait leader other-than dead
        heal dead
        wait caught-up dead
        wait operations 60"""
    lines = progress_of(text, tmp_path / "run")
    assert [line.split()[0] for line in lines if line.endswith(("is sent", "leads"))] == ["Vote", "member"]


def test_a_step_begins_when_a_member_enters_a_state(tmp_path: Path) -> None:
    text = """title A follower dies while it joins
        wait operations 60
        inject dead kill member-1
        wait leader
        heal dead
        wait state follower-replay of=victim!dead as=joining
        inject again kill victim!joining
        heal again
        wait caught-up joining
        wait operations 60"""
    assert "follower-replay of member 1 is entered" in progress_of(text, tmp_path / "run")
    assert [fault.members for fault in RunFolder(tmp_path / "run").read_faults()] == [(1,), (1,)]


def test_what_happened_is_replayed_there_and_in_the_simulation(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    perform: Callable[[str], tuple[Path, ScenarioResult]],
) -> None:
    first, result = perform("leader-killed")
    require_valid(result.report)
    (killed,) = RunFolder(first).read_faults()
    for runtime in ("process", "simulated"):
        folder = tmp_path / runtime
        status = main(["replay", str(first), "--runtime", runtime, "--dir", str(folder), "--json"])
        printed = capsys.readouterr()
        require_valid_end(status, folder, printed)
        replayed = json.loads(printed.out)
        assert (replayed["scenario"], replayed["runtime"]) == ("leader-killed", runtime)
        (again,) = RunFolder(folder).read_faults()
        assert (again.name, again.statement) == (killed.name, killed.statement)
        assert _moments(again) >= _moments(killed)
    text = (tmp_path / "simulated" / "run.scenario").read_text()
    assert f"inject dead {killed.statement}" in text


def _moments(fault: FaultRecord) -> tuple[int, int]:
    assert fault.inject_operations is not None
    assert fault.heal_operations is not None
    return fault.inject_operations, fault.heal_operations


def test_verify_knows_a_fault_that_was_not_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert main(["run", "leader-killed", "--runtime", "simulated", "--dir", str(folder)]) == 0
    assert main(["verify", str(folder)]) == 0
    run = RunFolder(folder)
    (fault,) = run.read_faults()
    run.unseal()
    run.faults_file.write_text(replace(fault, inject_proof=Proof(False, "it lives")).to_json() + "\n")
    assert main(["verify", str(folder)]) == 3
    assert "not proved: it lives" in capsys.readouterr().out
