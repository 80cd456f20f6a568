"""Members whose log is damaged or gone at their start: proved by a look at the files, and judged as any run."""

from pathlib import Path

import pytest

from support.fault_cases import WORKLOAD, fault_of, settle
from support.saboteur import Sabotage, Saboteur
from support.valid import require_valid
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.execution.live import LiveStage
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.execution.stage import Stage
from upheaval.records import RunFolder
from upheaval.runtime_names import DOCKER, PROCESS, SIMULATED
from upheaval.runtimes.member_files import FolderFiles
from upheaval.runtimes.simulated.files import SimulatedFiles
from upheaval.scenario import Scenario, parse_scenario
from upheaval_chaos import faults, file_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.file_faults import Part, damage_of
from upheaval_chaos.record import FaultRecord
from upheaval_node.trace_kinds import TraceKind

PLAIN = parse_scenario(f"title x\n{WORKLOAD}wait operations 1\n", name="plain", where="plain")
DAMAGE = "damage follower bytes"
WIPE = "wipe follower"


def torn(part: Part, who: str = "follower") -> Scenario:
    """A member that starts with a damaged log, and then without any."""
    text = f"""title A damaged log, and then none
        workload rate=300
        wait operations 150
        inject torn damage {who} {part}
        wait operations 30
        heal torn
        wait operations 30
        inject fresh wipe victim!torn
        heal fresh
        wait caught-up fresh
        wait operations 30"""
    return parse_scenario(text, name="torn", where="torn")


def run_on(stage: Stage, scenario: Scenario, runtime: str) -> list[FaultRecord]:
    """The faults of a run that is valid."""
    result = run_scenario(scenario, stage, runtime=runtime, seed=1, say=lambda _: None)
    require_valid(result.report)
    assert verify_run(stage.run.path) == result.report
    return list(stage.run.read_faults())


def require_evidence(records: list[FaultRecord]) -> None:
    damaged, wiped = records
    assert damaged.is_proved, damaged
    assert wiped.is_proved, wiped
    assert " differs from byte " in damaged.evidence
    assert " bytes are gone" in wiped.evidence
    assert damaged.members == wiped.members


@pytest.mark.parametrize("part", Part)
def test_a_member_with_a_damaged_log_is_down_until_it_has_none(part: Part, tmp_path: Path) -> None:
    stage = SimulatedStage(torn(part), 1, tmp_path / "run")
    records = run_on(stage, torn(part), SIMULATED)
    require_evidence(records)
    (victim,) = records[0].members
    events = RunFolder(tmp_path / "run").member(victim).read_trace()
    # It was durable, so the member must not cut it off.
    reported = [event.fields["kind"] for event in events if event.event == TraceKind.ERROR]
    assert "damage" in reported


def test_a_log_that_a_fault_damaged_is_no_witness(tmp_path: Path) -> None:
    """As a member without checksums leaves it: what the others have was not lost."""
    scenario, run = torn(Part.BYTES, "leader"), RunFolder(tmp_path / "run")
    (first, _) = run_on(SimulatedStage(scenario, 1, run.path), scenario, SIMULATED)
    assert first.members == (0,)
    run.unseal()
    files = FolderFiles(run.member(0).path)
    files.overwrite(*damage_of(Part.BYTES, files, "member 0"))
    broken = {finding.promise for finding in verify_run(run.path).findings if finding.verdict is Verdict.INVALID}
    assert broken == {Promise.LOGS_EQUAL}


@pytest.mark.heavy
def test_members_in_processes_refuse_a_damaged_log_and_return_without_one(tmp_path: Path) -> None:
    scenario = torn(Part.BYTES)
    require_evidence(run_on(LiveStage(scenario, PROCESS, 1, tmp_path / "run"), scenario, PROCESS))


@pytest.mark.heavy
@pytest.mark.nightly
@pytest.mark.parametrize("part", Part)
@pytest.mark.parametrize("runtime", [PROCESS, DOCKER])
def test_members_of_aeron_return_after_a_damage_and_a_wipe(part: Part, runtime: str, tmp_path: Path) -> None:
    scenario = torn(part).on_system("aeron")
    require_evidence(run_on(LiveStage(scenario, runtime, 1, tmp_path / "run"), scenario, runtime))


@pytest.mark.parametrize("sabotage", [Sabotage.IDLE, Sabotage.ELSEWHERE, Sabotage.STAYS])
@pytest.mark.parametrize("statement", [DAMAGE, WIPE])
def test_a_false_injector_is_unmasked(
    statement: str, sabotage: Sabotage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (faults, file_faults):
        for name in ("TAKES_EFFECT_S", "COMES_BACK_S"):
            monkeypatch.setattr(module, name, 0.02)
    stage = SimulatedStage(PLAIN, 1, tmp_path)
    stage.open(print)
    stage.let_pass(0.5)
    saboteur = Saboteur(stage, sabotage)
    driver = FaultDriver(saboteur, lambda _: None)
    injected = driver.inject("x", fault_of(statement))
    healed = driver.heal("x")
    assert injected.holds is (sabotage is Sabotage.STAYS), injected
    assert healed.holds is False or sabotage is not Sabotage.STAYS, healed
    stage.close()


@pytest.mark.parametrize("statement", [DAMAGE, WIPE])
def test_files_that_nothing_changed_are_no_proof(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member is down, as it should be, and its files are what they were."""
    stage = SimulatedStage(PLAIN, 1, tmp_path)
    stage.open(print)
    stage.let_pass(0.5)
    monkeypatch.setattr(SimulatedFiles, "overwrite", lambda *_: None)
    monkeypatch.setattr(SimulatedFiles, "remove_all", lambda *_: None)
    monkeypatch.setattr(file_faults, "TAKES_EFFECT_S", 0.02)
    driver = FaultDriver(stage, lambda _: None)
    proof = driver.inject("x", fault_of(statement))
    assert not proof.holds
    assert "is down" in proof.evidence
    assert driver.heal("x").holds
    settle(stage)
    stage.close()
