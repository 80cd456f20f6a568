"""Members whose log was purged up to their latest snapshot while they were down: proved by a look at the files, and
judged as any run, with a later begin of that log and nothing else excused.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from support.fault_cases import WORKLOAD, fault_of
from support.saboteur import Sabotage, Saboteur
from support.valid import require_valid
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cluster import perform
from upheaval.execution.live import LiveStage
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.execution.stage import Stage
from upheaval.records import RunFolder
from upheaval.runtime_names import DOCKER, PROCESS, SIMULATED
from upheaval.runtimes.simulated.files import SimulatedFiles
from upheaval.scenario import Scenario, parse_scenario
from upheaval_chaos import faults, file_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.log_purge import CATALOG
from upheaval_chaos.record import FaultRecord
from upheaval_node.settings import KIB, MIB, MemberSettings, profile_settings

SEGMENT = 64 * KIB
LONG = 6000
"""Of the texts that the load has echoed: an operation takes 250 bytes on average. A message has at most 8 KiB."""
PLAIN = parse_scenario(f"title x\n{WORKLOAD}wait operations 1\n", name="plain", where="plain")


def small_segments() -> MemberSettings:
    profile = profile_settings("test", sync_level=1)
    return replace(profile, archive=replace(profile.archive, segment_length=SEGMENT))


def purged(who: str, operations: int = 450, times: int = 1, load: str = "rate=300") -> Scenario:
    """A member returns without the beginning of its log, leads or follows, and loses the leader."""
    waits = f"wait operations {operations}\n" * times
    text = f"""title A log that begins at the segment of a snapshot
        workload {load}
        {waits}
        snapshot
        wait operations 20
        inject late purge {who}
        wait operations 20
        heal late
        wait caught-up late
        inject dead kill leader
        wait leader other-than dead
        wait operations 20
        heal dead
        wait caught-up dead
        wait operations 20"""
    scenario = parse_scenario(text, name="purged", where="purged")
    return replace(scenario, workload=replace(scenario.workload, text_length=LONG))


def run_on(stage: Stage, scenario: Scenario, runtime: str) -> FaultRecord:
    """The purge of a run that is valid."""
    result = run_scenario(scenario, stage, runtime=runtime, seed=1, say=lambda _: None)
    require_valid(result.report)
    assert result.report.finding(Promise.LINEARIZABLE).verdict is Verdict.VALID
    assert verify_run(stage.run.path) == result.report
    return next(record for record in stage.run.read_faults() if record.what == "purge")


def require_later_begin(run: RunFolder, record: FaultRecord, segment: int) -> None:
    """The purged log begins at a segment, those of the others at 0."""
    assert record.is_proved, record
    starts = {member_id: RecordedLog(run.member(member_id)).start_position for member_id in range(3)}
    for member_id, start in starts.items():
        if member_id in record.members:
            assert start > 0
            assert start % segment == 0
            assert f"its log begins at position {start} instead of 0, its snapshot is at " in record.evidence
        else:
            assert start == 0


def test_a_follower_returns_with_its_snapshot_and_the_rest_of_its_log(tmp_path: Path) -> None:
    scenario = purged("follower")
    stage = SimulatedStage(scenario, 1, tmp_path / "run", settings=small_segments())
    require_later_begin(stage.run, run_on(stage, scenario, SIMULATED), SEGMENT)


@pytest.mark.parity("CT-47")
def test_a_leader_that_returns_with_a_purged_log_catches_up_over_terms(tmp_path: Path) -> None:
    scenario = purged("leader")
    stage = SimulatedStage(scenario, 1, tmp_path / "run", settings=small_segments())
    record = run_on(stage, scenario, SIMULATED)
    assert record.members == (0,)
    require_later_begin(stage.run, record, SEGMENT)
    ends = [RecordedLog(stage.run.member(member_id)).read_to_end() for member_id in range(3)]
    assert ends == [ends[1]] * 3


def test_a_later_begin_is_explained_by_the_purge_alone(tmp_path: Path) -> None:
    """The same files without the record of it."""
    scenario, run = purged("follower"), RunFolder(tmp_path / "run")
    run_on(SimulatedStage(scenario, 1, run.path, settings=small_segments()), scenario, SIMULATED)
    run.unseal()
    records = [record for record in run.read_faults() if record.what != "purge"]
    run.faults_file.unlink()
    for record in records:
        run.add_fault(record)
    finding = verify_run(run.path).finding(Promise.LOGS_EQUAL)
    assert finding.verdict is Verdict.INVALID
    assert "have segments at positions 0 and " in finding.detail


@pytest.mark.heavy
def test_a_member_in_a_process_returns_with_the_rest_of_its_log(tmp_path: Path) -> None:
    scenario = purged("follower", operations=1500, times=4, load="rate=500")
    stage = LiveStage(scenario, PROCESS, 1, tmp_path / "run")
    require_later_begin(stage.run, run_on(stage, scenario, PROCESS), MIB)


@pytest.mark.heavy
@pytest.mark.nightly
def test_a_member_in_a_container_returns_with_the_rest_of_its_log(tmp_path: Path) -> None:
    scenario = purged("follower", operations=1500, times=4, load="rate=500")
    stage = LiveStage(scenario, DOCKER, 1, tmp_path / "run")
    require_later_begin(stage.run, run_on(stage, scenario, DOCKER), MIB)


@pytest.mark.heavy
@pytest.mark.nightly
@pytest.mark.parametrize("runtime", [PROCESS, DOCKER])
def test_a_member_of_aeron_returns_with_the_rest_of_its_log(runtime: str, tmp_path: Path) -> None:
    scenario = purged("follower", operations=9000, times=9, load="rate=4000 slots=32").on_system("aeron")
    stage = LiveStage(scenario, runtime, 1, tmp_path / "run")
    require_later_begin(stage.run, run_on(stage, scenario, runtime), 16 * MIB)


# --- no purge ---


def opened(path: Path) -> SimulatedStage:
    """A cluster with several segments and a snapshot, under load."""
    scenario = replace(PLAIN, workload=replace(PLAIN.workload, rate=300, text_length=LONG))
    stage = SimulatedStage(scenario, 1, path, settings=small_segments())
    stage.open(print)
    stage.wait_until(lambda: stage.acknowledged() >= 450, 30.0, "operations")
    return stage


def with_snapshot(stage: SimulatedStage) -> SimulatedStage:
    perform(stage, "snapshot", 30.0)
    stage.let_pass(0.1)
    return stage


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (faults, file_faults):
        for name in ("TAKES_EFFECT_S", "COMES_BACK_S"):
            monkeypatch.setattr(module, name, 0.02)


@pytest.mark.parametrize("sabotage", [Sabotage.IDLE, Sabotage.ELSEWHERE, Sabotage.STAYS])
def test_only_a_purge_that_was_done_is_proved(sabotage: Sabotage, tmp_path: Path, impatient: None) -> None:
    stage = with_snapshot(opened(tmp_path))
    driver = FaultDriver(Saboteur(stage, sabotage), lambda _: None)
    injected, healed = driver.inject("x", fault_of("purge follower")), driver.heal("x")
    assert injected.holds is (sabotage is Sabotage.STAYS), injected
    assert healed.holds is False or sabotage is not Sabotage.STAYS, healed
    stage.close()


def _nothing(_files: SimulatedFiles, *_: object) -> None:
    """A false hand."""


def _other_bytes(files: SimulatedFiles, name: str, content: bytes) -> None:
    """The start position moves, and so does the time of the start."""
    other = bytearray(content)
    at = next(at for at in range(len(content)) if content[at] != files.read(name)[at])
    other[at - 16] ^= 1
    files.member.disk.put(name, bytes(other))


def _one_too_many(files: SimulatedFiles, names: Sequence[str]) -> None:
    log = names[0].rpartition("-")[0]
    mine = [name for name in files.names() if name.startswith(f"{log}-")]
    for name in sorted(mine, key=lambda name: int(name.rpartition("-")[2].partition(".")[0]))[: len(names) + 1]:
        files.member.disk.remove(name)


@pytest.mark.parametrize(
    ("hand", "instead", "seen"),
    [
        ("rewrite", _nothing, "expected another catalog, got "),
        ("rewrite", _other_bytes, f"{CATALOG} differs in more than the start position of recording "),
        ("remove", _nothing, ", its first segment at 0, its snapshot is at "),
        ("remove", _one_too_many, ", its first segment at "),
    ],
)
def test_half_a_purge_is_no_proof(
    hand: str,
    instead: Callable[..., None],
    seen: str,
    tmp_path: Path,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = with_snapshot(opened(tmp_path))
    monkeypatch.setattr(SimulatedFiles, hand, instead)
    proof = FaultDriver(stage, lambda _: None).inject("x", fault_of("purge follower"))
    assert not proof.holds
    assert seen in proof.evidence, proof
    stage.close()


def test_a_log_without_a_snapshot_is_left_as_it_is(tmp_path: Path) -> None:
    stage = opened(tmp_path)
    driver = FaultDriver(stage, lambda _: None)
    fault = fault_of("purge follower")
    proof = driver.inject("x", fault)
    (victim,) = driver.record_of("x").members
    assert proof.evidence == f"member {victim} has no snapshot: its log is needed from the beginning"
    assert f"{CATALOG.rpartition('/')[0]}/0-0.rec" in stage.files(victim).names()
    assert driver.heal("x").holds
    stage.close()
