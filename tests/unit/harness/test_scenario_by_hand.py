"""Faults asked for as statements of a scenario, and the scenario that a hand-made run is saved as."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.errors import UsageError
from upheaval.records import ControlRecord, RunFolder
from upheaval.scenario.by_hand import fault_in, require_shipped, scenario_by_hand
from upheaval.scenario.statements import SUFFIX
from upheaval.scenario.text import load_scenario
from upheaval.system import CLUSTER_OF_THREE, systems
from upheaval.ui.catalogue import CLUSTER, LINK, Button, buttons
from upheaval_chaos.datagram_faults import DatagramFaultKind
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import LinkFaultKind

S = 1_000_000_000
PROVED = Proof(True, "seen")
KILL = FaultRecord(
    "kill", "member-1", 10 * S, 11 * S, 14 * S, 15 * S, PROVED, PROVED, (1,), None, "kill-1", "kill member-1"
)
AT_20_S = {"inject_begin_ns": 20 * S, "heal_begin_ns": 28 * S, "heal_end_ns": 29 * S}
PAUSE = replace(KILL, what="pause", statement="pause member-2", members=(2,), **AT_20_S)
OPEN = {"heal_begin_ns": None, "heal_end_ns": None, "heal_proof": None}


def run_led_by(member_id: int, path: Path) -> RunFolder:
    run = good_run(20).write(path)
    begun = [f'{{"ts":1,"component":"all","event":"process-start","member":{member_id}}}']
    begun += ['{"ts":2,"component":"all","event":"role","old":"FOLLOWER","new":"LEADER"}']
    begun += ['{"ts":3,"component":"all","event":"election_state","state":"CLOSED"}']
    for other in range(3):
        run.member(other).trace.write_text("".join(f"{line}\n" for line in (begun if other == member_id else [])))
    return run


def steps_of(run: RunFolder, folder: Path) -> list[str]:
    """The statements between the first and the last wait, of a text that can be read again from a file."""
    scenario = scenario_by_hand(run)
    path = folder / f"{scenario.name}{SUFFIX}"
    path.write_text(scenario.text)
    lines = load_scenario(str(path)).text.splitlines()
    assert lines[2] == lines[-1] == "wait operations 50"
    return lines[3:-1]


def test_who_led_when_it_was_hit_is_the_leader_of_the_scenario(tmp_path: Path) -> None:
    run = run_led_by(1, tmp_path / "shop")
    run.add_fault(KILL)
    healed = ["wait seconds 4", "heal kill-1", "wait caught-up kill-1"]
    assert steps_of(run, tmp_path) == ["inject kill-1 kill leader", "wait leader other-than kill-1", *healed]


def test_a_single_follower_is_one_and_faults_beside_it_name_members(tmp_path: Path) -> None:
    run = run_led_by(0, tmp_path / "shop")
    run.add_fault(PAUSE)
    run.add_fault(replace(KILL, inject_begin_ns=21 * S, heal_begin_ns=25 * S, heal_end_ns=26 * S))
    steps = steps_of(run, tmp_path)
    assert "inject pause-1 pause follower" in steps
    run.add_fault(replace(KILL, inject_begin_ns=22 * S, **OPEN))
    assert "inject kill-3 kill member-1" in steps_of(run, tmp_path)


def test_links_keep_their_ends_apart_and_what_is_on_is_healed_last(tmp_path: Path) -> None:
    run = run_led_by(1, tmp_path / "shop")
    cut = replace(KILL, what="blackhole", statement="blackhole member-1 <-> member-0", links=("1->0",), members=(1, 0))
    run.add_fault(replace(cut, **OPEN))
    run.add_control(ControlRecord("snapshot", 13 * S, 14 * S, 1, {}, PROVED, 0))
    for number, what in enumerate(("suspend", "standby-snapshot"), 15):
        run.add_control(ControlRecord(what, number * S, number * S + 1, 1, {}, Proof(False, "not seen"), 0))
    assert steps_of(run, tmp_path) == [
        "inject blackhole-1 blackhole leader <-> follower",
        "wait seconds 3",
        "snapshot",
        "heal blackhole-1",
    ]


def test_a_fault_is_there_as_long_as_it_was_and_quiet_times_are_short(tmp_path: Path) -> None:
    run = run_led_by(1, tmp_path / "shop")
    run.add_fault(replace(KILL, heal_begin_ns=100 * S, heal_end_ns=101 * S))
    run.add_control(ControlRecord("snapshot", 5000 * S, 5001 * S, 1, {}, PROVED, 0))
    waits = [step for step in steps_of(run, tmp_path) if step.startswith("wait seconds")]
    assert waits == ["wait seconds 90", "wait seconds 10"]


def test_the_cluster_of_the_scenario_is_that_of_the_run(tmp_path: Path) -> None:
    run = run_led_by(1, tmp_path / "shop")
    run.add_fault(KILL)
    timeouts = {"session_ns": 7 * S, "leader_disconnect_ns": S // 2}
    made = {"timeouts": timeouts, "more_services": ("tally",), "compatibility": "aeron"}
    run.change_manifest(lambda manifest: replace(manifest, **made))  # type: ignore[arg-type]
    cluster = scenario_by_hand(run).cluster
    assert (cluster.timeouts, cluster.more_services, cluster.compatibility) == tuple(made.values())


@pytest.mark.parametrize(
    ("other", "says"),
    [({"system": "aeron:1.51.0"}, "no members of aeron:1.51.0"), ({"service": "shop:Shop"}, "no users of shop:Shop")],
)
def test_what_the_simulation_lacks_is_not_run_as_something_else(
    other: dict[str, str], says: str, tmp_path: Path
) -> None:
    manifest = good_run(20).write(tmp_path).read_manifest()
    require_shipped(manifest)
    with pytest.raises(UsageError, match=says):
        require_shipped(replace(manifest, **other))  # type: ignore[arg-type]


def test_a_run_to_which_nothing_was_done_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing was done to this cluster"):
        scenario_by_hand(run_led_by(0, tmp_path / "shop"))


@pytest.mark.parametrize(
    "statement", ["", "kill", "kill member-3", "explode leader", "kill leader\ntitle x", "slow leader -> follower"]
)
def test_a_statement_that_makes_no_sense_is_one_line(statement: str) -> None:
    with pytest.raises(UsageError) as refused:
        fault_in(statement, CLUSTER_OF_THREE)
    assert "by hand:" not in str(refused.value)


def statement_of(button: Button) -> str:
    ends = "member-0 <-> member-1" if button.scope == LINK else "member-0"
    return f"{button.word} {ends} {button.options}".strip()


@pytest.mark.parametrize("system", ["upheaval", "aeron"])
def test_every_kind_of_fault_has_a_button_that_makes_sense(system: str) -> None:
    of_system = buttons(systems.system_named(system))
    for button in of_system:
        if button.scope != CLUSTER:
            fault_in(statement_of(button), CLUSTER_OF_THREE).require_possible(CLUSTER_OF_THREE.members)
    words = {button.word for button in of_system}
    assert words >= {*MemberFaultKind, LinkFaultKind.BLACKHOLE, LinkFaultKind.SLOW, "snapshot", "start"}
    assert (words >= {*DatagramFaultKind}) == (system == "aeron")
    asking = ["kill", "stop", "purge", "wipe", "damage", "damage", "damage", "shutdown", "abort"]
    assert [button.word for button in of_system if button.asks] == asking
