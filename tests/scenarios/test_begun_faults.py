"""Faults that are begun and not waited for, at members that an earlier fault was not about."""

from pathlib import Path

from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import RunFolder
from upheaval.scenario import parse_scenario

TEXT = """title A leader that was alone comes back while another member is alone, and the new leader dies
wait operations 50
inject alone blackhole leader <-> followers
wait leader other-than alone
begin apart blackhole follower!alone <-> all
end alone
wait moment after-ms=200
inject dead kill leader
end apart
wait leader other-than dead
heal dead
wait caught-up dead
wait operations 100
"""


def test_a_fault_is_begun_at_a_member_that_had_none(tmp_path: Path) -> None:
    scenario = parse_scenario(TEXT, name="begun", where="begun")
    stage = SimulatedStage(scenario, 1, tmp_path)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None)
    assert result.verdict is Verdict.VALID, result.report.findings
    faults = {fault.name: fault for fault in RunFolder(tmp_path).read_faults()}
    assert faults.keys() == {"alone", "apart", "dead"}
    first, second, leader = (faults[name].members[0] for name in ("alone", "apart", "dead"))
    assert {first, second, leader} == {0, 1, 2}
    assert faults["apart"].is_drawn
    assert faults["apart"].is_proved
    assert faults["alone"].heal_begin_ns is not None
    assert faults["alone"].heal_begin_ns < faults["dead"].inject_begin_ns
