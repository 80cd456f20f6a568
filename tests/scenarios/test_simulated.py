"""Every scenario on the simulated runtime; and that a fault that was not done, or elsewhere, makes no valid run."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.saboteur import Sabotage, Saboteur
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.execution.run import ScenarioResult, run_scenario
from upheaval.execution.simulated import SimulatedStage, SimulatedTarget
from upheaval.records import RunFolder
from upheaval.scenario import Inject, load_scenario, parse_scenario, scenario_names
from upheaval_chaos import faults, link_faults
from upheaval_chaos.target import Link, LinkEffect, Node

NAMES = [name for name in scenario_names() if "simulated" in load_scenario(name).runtimes]
WITH_FAULTS = [name for name in NAMES if any(isinstance(step, Inject) for step in load_scenario(name).steps)]


def kinds_of(name: str) -> set[tuple[str, bool, str]]:
    """What an injector does in a scenario: the kind of each fault, and of links which directions and channel."""
    faults = [step.fault for step in load_scenario(name).steps if isinstance(step, Inject)]
    return {(each.kind, getattr(each, "both_ways", False), getattr(each, "channel", "")) for each in faults}


def often(names: list[str]) -> list[object]:
    """Those with a kind of fault that none before has; the others are for a night."""
    seen: set[tuple[str, bool, str]] = set()
    params: list[object] = []
    for name in names:
        params.append(pytest.param(name, marks=pytest.mark.nightly) if kinds_of(name) <= seen else name)
        seen |= kinds_of(name)
    return params


class NothingDone(SimulatedStage):
    """An injector that says it did it."""

    def node(self, member_id: int) -> Node:
        return Saboteur(SimulatedTarget(self.cluster), Sabotage.IDLE).node(member_id)

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None: ...


class NotHealed(SimulatedStage):
    """An injector that leaves links as they are."""

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None: ...


class WrongLink(SimulatedStage):
    """An injector that takes one direction for the other."""

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        super().impose([link.reverse for link in links], effect)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What will never happen need not be waited for as long as in earnest."""
    for module in (faults, link_faults):
        monkeypatch.setattr(module, "TAKES_EFFECT_S", 2.0)
        monkeypatch.setattr(module, "COMES_BACK_S", 2.0)


def perform(name: str, folder: Path, stage_type: type[SimulatedStage] = SimulatedStage) -> ScenarioResult:
    scenario = load_scenario(name)
    stage = stage_type(scenario, 1, folder)
    return run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None)


@pytest.mark.parametrize("name", NAMES)
def test_the_scenario_is_valid_and_its_faults_are_proved(name: str, tmp_path: Path) -> None:
    result = perform(name, tmp_path)
    assert result.verdict is Verdict.VALID, result.report.findings
    assert verify_run(tmp_path) == result.report
    records = list(RunFolder(tmp_path).read_faults())
    assert len(records) == sum(isinstance(step, Inject) for step in load_scenario(name).steps)
    assert all(record.heal_end_ns is not None for record in records)
    assert all(record.heal_proof for record in records)


@pytest.mark.parametrize("name", often(WITH_FAULTS))
def test_a_fault_that_was_not_done_makes_no_valid_run(name: str, tmp_path: Path, impatient: None) -> None:
    result = perform(name, tmp_path, NothingDone)
    assert result.verdict is Verdict.UNKNOWN
    finding = result.report.finding(Promise.FAULTS_PROVED)
    assert finding.verdict is Verdict.UNKNOWN
    assert "not proved" in finding.detail


THIN = """title A follower with a thin link
workload rate=300
wait operations 50
inject thin slow leader -> follower bytes-per-second=10000
heal thin
wait operations 50
"""


@pytest.mark.parametrize(("stage_type", "verdict"), [(SimulatedStage, Verdict.VALID), (NothingDone, Verdict.UNKNOWN)])
def test_a_limit_of_bandwidth_is_proved(stage_type: type[SimulatedStage], verdict: Verdict, tmp_path: Path) -> None:
    scenario = parse_scenario(THIN, name="inconclusive", where="inconclusive")
    result = run_scenario(scenario, stage_type(scenario, 1, tmp_path), runtime="simulated", seed=1, say=lambda _: None)
    assert result.report.finding(Promise.FAULTS_PROVED).verdict is verdict, result.report.findings


@pytest.mark.parametrize("name", ["one-way-partition", "slow-link"])
def test_a_fault_of_the_wrong_link_makes_no_valid_run(name: str, tmp_path: Path, impatient: None) -> None:
    result = perform(name, tmp_path, WrongLink)
    assert result.report.finding(Promise.FAULTS_PROVED).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("name", ["one-way-partition", "slow-link", "leader-isolated-reset"])
def test_a_fault_that_was_not_healed_makes_no_valid_run(name: str, tmp_path: Path, impatient: None) -> None:
    result = perform(name, tmp_path, NotHealed)
    assert result.report.finding(Promise.FAULTS_PROVED).verdict is Verdict.UNKNOWN


def test_run_and_replay_are_the_same_execution(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, other = (str(tmp_path / name) for name in ("first", "second", "other"))
    assert main(["run", "leader-killed", "--seed", "5", "--dir", first, "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert main(["replay", first, "--dir", second, "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert main(["run", "leader-killed", "--seed", "6", "--dir", other, "--json"]) == 0
    assert (ran["verdict"], ran["run"], ran["seed"]) == ("valid", first, 5)
    assert replayed["digest"] == ran["digest"]
    assert json.loads(capsys.readouterr().out)["digest"] != ran["digest"]


def test_a_replay_that_comes_out_differently_is_not_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "first"
    assert main(["run", "leader-killed", "--dir", str(folder)]) == 0
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**result, "digest": "0" * 64}))
    assert main(["replay", str(folder), "--dir", str(tmp_path / "second")]) == 3
    assert "the digest was 0000" in capsys.readouterr().err


def test_what_cannot_be_replayed_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path)]) == 2
    assert "is not a run of a scenario" in capsys.readouterr().err
