"""Faults that are begun and not waited for, at members that an earlier fault was not about."""

from pathlib import Path

import pytest

from support.saboteur import Sabotage, Saboteur
from support.valid import require_valid
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import RunFolder
from upheaval.scenario import parse_scenario
from upheaval_chaos import link_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import Members, Selector
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import LinkFaultKind

TEXT = """title A leader that was alone comes back while another member is alone, and the new leader dies
wait operations 50
inject alone blackhole leader <-> followers
wait leader other-than alone
begin apart blackhole leader <-> follower!alone
end alone
wait moment after-ms=200
inject dead kill victim!apart
heal dead
heal apart
wait caught-up dead
wait operations 100
"""


def test_a_fault_is_begun_at_a_member_that_had_none(tmp_path: Path) -> None:
    scenario = parse_scenario(TEXT, name="begun", where="begun")
    stage = SimulatedStage(scenario, 1, tmp_path)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None)
    require_valid(result.report)
    faults = {fault.name: fault for fault in RunFolder(tmp_path).read_faults()}
    assert faults.keys() == {"alone", "apart", "dead"}
    old, new = faults["alone"].members[0], faults["apart"].members[0]
    assert set(faults["apart"].members) == {0, 1, 2} - {old}
    assert faults["dead"].members == (new,)
    assert all(fault.is_proved for fault in faults.values())
    assert faults["alone"].heal_begin_ns is not None
    assert faults["alone"].heal_begin_ns < faults["dead"].inject_begin_ns


@pytest.mark.parametrize("sabotage", [Sabotage.NONE, Sabotage.IDLE])
def test_what_was_begun_is_proved_when_it_is_taken_away(
    sabotage: Sabotage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_faults, "TAKES_EFFECT_S", 1.0)
    stage = SimulatedStage(parse_scenario(TEXT, name="begun", where="begun"), 1, tmp_path)
    stage.open(lambda _: None)
    stage.let_pass(0.5)
    records: list[FaultRecord] = []
    driver = FaultDriver(Saboteur(stage, sabotage), records.append)
    fault = LinkFault(LinkFaultKind.BLACKHOLE, Members(Selector.LEADER), Members(Selector.FOLLOWER), both_ways=True)
    driver.begin("x", fault, is_drawn=False)
    driver.end("x")
    assert records == []
    driver.heal_all()
    (record,) = records
    assert record.inject_proof is not None
    assert record.inject_proof.holds == (sabotage is Sabotage.NONE), record
    assert record.heal_proof is not None
