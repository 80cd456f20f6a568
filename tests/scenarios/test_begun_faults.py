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
from upheaval_chaos.errors import UnknownOutcome
from upheaval_chaos.faults import Members, Roster, Selector
from upheaval_chaos.link_faults import LinkFault, victims_of
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import CLIENTS, LinkFaultKind

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


OF_TWO = """title Two of five members stand still, and the new leader dies
cluster members=5
wait operations 50
inject asleep pause follower,leader
wait leader other-than asleep
inject dead kill leader
heal dead
heal asleep
wait caught-up asleep
wait operations 50
"""


def test_a_fault_of_several_members_means_all_of_them(tmp_path: Path) -> None:
    """Its first member is a follower: the paused leader must not pass for the next one."""
    scenario = parse_scenario(OF_TWO, name="two", where="two")
    lines: list[str] = []
    result = run_scenario(
        scenario, SimulatedStage(scenario, 1, tmp_path), runtime="simulated", seed=1, say=lines.append
    )
    require_valid(result.report)
    faults = {fault.name: fault for fault in RunFolder(tmp_path).read_faults()}
    asleep = faults["asleep"].members
    assert set(faults["dead"].members).isdisjoint(asleep)
    assert any(f"member {asleep[0]}, {asleep[1]} has caught up" in line for line in lines)


@pytest.mark.parametrize(
    ("selector", "chosen"), [(Selector.FOLLOWERS, [2, 3]), (Selector.ALL, [2, 3, 4]), (Selector.VICTIM, [0, 1])]
)
def test_the_targets_of_a_fault_are_spared_or_hit_together(selector: Selector, chosen: list[int]) -> None:
    who = Members(selector, other_than="a").sparing(lambda _: [0, 1])
    assert who.select(Roster(range(5), lambda: 4, lambda _: True)) == chosen


@pytest.mark.parametrize("selector", [Selector.FOLLOWERS, Selector.FOLLOWER, Selector.ALL, Selector.RUNNING])
def test_a_fault_that_hit_everyone_leaves_no_target(selector: Selector) -> None:
    who = Members(selector, other_than="a").sparing(lambda _: range(3))
    with pytest.raises(UnknownOutcome, match="fault 'a' hit every member"):
        who.select(Roster(range(3), lambda: 0, lambda _: True))


@pytest.mark.parametrize(
    ("ends", "victims"),
    [(([0, 2], [CLIENTS]), [0, 2]), (([CLIENTS], [1, 2]), [1, 2]), (([0], [1, 2]), [0])],
)
def test_a_link_fault_means_the_members_before_its_arrow(ends: tuple[list[int], list[int]], victims: list[int]) -> None:
    assert victims_of(*ends) == victims


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
