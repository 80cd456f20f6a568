"""Texts of scenarios as tapes: what is the same, what an edit leaves out, and plans as texts."""

import pytest

from upheaval.campaign.scenario_text import scenario_texts
from upheaval.campaign.swarm import draw_swarm
from upheaval.campaign.text_tape import read_text_tape, tape_of_text, text_of_tape, without_faults
from upheaval.errors import UsageError
from upheaval.runtime_names import SIMULATED
from upheaval.scenario import Begin, Inject, load_scenario, parse_scenario, scenario_names

TEXT = """# a comment
title Two 2 faults {}
cluster members=5 sync-level=2
workload rate=40 keys=3

wait operations 25
inject one kill member-2
wait moment after-ms=1250
begin two slow leader -> followers latency-ms=30
end two
heal one
"""


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_is_the_same_by_its_tape(name: str) -> None:
    scenario = load_scenario(name)
    again = parse_scenario(text_of_tape(read_text_tape(tape_of_text(scenario.text))), name=name, where=name)
    assert (again.cluster, again.workload, again.steps) == (scenario.cluster, scenario.workload, scenario.steps)
    assert again.promises == scenario.promises


def test_numbers_are_choices_and_the_rest_is_as_it_was() -> None:
    span = read_text_tape(tape_of_text(TEXT))
    numbers = [choice.value for line in span.spans for choice in line.choices[1:]]
    assert numbers == [40, 3, 25, 1250, 30]
    assert text_of_tape(span) == "\n".join(line for line in TEXT.splitlines() if line and line[0] != "#") + "\n"
    moment = span.spans[5].choices[1]
    assert list(moment.alternatives.simpler(moment.value))[:2] == [1, 601]


def test_a_fault_is_left_out_with_its_begin_and_its_end() -> None:
    span = read_text_tape(tape_of_text(TEXT))
    lines = [text_of_tape(read_text_tape(tape)).splitlines()[4:] for tape in without_faults(span)]
    wait, slow = "wait moment after-ms=1250", "begin two slow leader -> followers latency-ms=30"
    assert lines == [[wait], [], [wait, slow, "end two"], *[["inject one kill member-2", wait, "heal one"]] * 2]


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_is_a_text_with_the_same_faults(seed: int) -> None:
    swarm = draw_swarm(seed)
    for text in scenario_texts(swarm, is_watched=True):
        scenario = parse_scenario(text, name="plan", where="plan")
        faults = [step.fault for step in scenario.steps if isinstance(step, Inject | Begin)]
        assert sorted(fault.statement for fault in faults) == sorted(
            planned.fault.statement for _, planned in swarm.named_faults()
        )
        assert (scenario.cluster.members, scenario.cluster.service) == (swarm.members, swarm.service)
        assert (scenario.has_invariants, scenario.runtimes) == (True, (SIMULATED,))


def test_invariants_are_on_or_off() -> None:
    with pytest.raises(UsageError, match="here:2:12: unknown choice 'maybe': use one of on, off"):
        parse_scenario("title t\ninvariants maybe\nwait operations 1\n", name="here", where="here")
    off = parse_scenario("title t\ninvariants off\nwait operations 1\n", name="here", where="here")
    assert not off.has_invariants
    host = parse_scenario("title t\nbegin x power-cut member-0\nwait operations 1\nend x\n", name="h", where="h")
    assert host.runtimes == (SIMULATED,), "a fault of hosts that is begun needs the simulated runtime as one injected"
