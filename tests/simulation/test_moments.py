"""Faults at moments, and seeds of a campaign that have them."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.campaign.moments import draw_moments
from upheaval.campaign.scenario_text import scenario_texts
from upheaval.campaign.searches import MOMENTS
from upheaval.campaign.seed import SeedOrigin, SeedRun
from upheaval.campaign.swarm import (
    LONGEST_WAIT_NS,
    LOSING_POWER,
    RESTART_NS,
    FaultDraw,
    Moment,
    Swarm,
    draw_swarm,
    plan_fault,
)
from upheaval.campaign.swarm_tape import read_swarm, tape_of
from upheaval.records import RunFolder
from upheaval.scenario import STATES, parse_scenario
from upheaval.workload import TIMERS_SERVICE
from upheaval_node.types import MS, S

SEEDS = range(1, 201)
DATA = Path(__file__).parents[1] / "data" / "tapes"
PLAIN, _ = read_swarm({"seconds": 12, "rate": 50, "sync-level": 1}, 3)


def drawn(seed: int) -> Swarm:
    return SeedOrigin(seed, search=MOMENTS).swarm()


def test_moments_replace_the_faults_of_a_cluster_of_several_members() -> None:
    for seed in SEEDS:
        before, swarm = draw_swarm(seed), drawn(seed)
        assert (swarm == before) == (before.members == 1)
        with_own_faults = replace(
            swarm,
            faults=before.faults,
            ending=before.ending,
            ending_ns=before.ending_ns,
            skews_ms=before.skews_ms,
            snapshot_interval_ns=before.snapshot_interval_ns,
            segment_length=before.segment_length,
        )
        assert with_own_faults == before
        assert before.ending in ("", swarm.ending)
        assert swarm.skews_ms == before.skews_ms or swarm.service == TIMERS_SERVICE
        assert swarm.sync_level > 0 or not LOSING_POWER.intersection(fault.kind for fault in swarm.faults)
        assert all(fault.end_ns <= (swarm.seconds - 8) * S for fault in swarm.faults[1:] if fault.kind != "slow")


def test_each_state_is_drawn_for_begins_and_for_heals() -> None:
    begins, heals = Counter[str](), Counter[str]()
    for swarm in map(drawn, SEEDS):
        begins.update(fault.moment.state for fault in swarm.faults if fault.moment is not None)
        heals.update(fault.until.state for fault in swarm.faults if fault.until is not None)
    assert set(begins) == set(heals) == set(STATES)


def test_a_cluster_that_is_ended_has_slow_links_then() -> None:
    ended = [swarm for swarm in map(drawn, SEEDS) if swarm.ending and swarm.members > 1]
    for swarm in ended:
        slow = [fault for fault in swarm.faults if fault.kind == "slow"]
        then = [fault.drawn for fault in slow if fault.start_ns < swarm.ending_ns < fault.heal_ns]
        assert {drawn.member for drawn in then if drawn is not None} == set(range(swarm.members))
        down = range(swarm.ending_ns, swarm.ending_ns + RESTART_NS)
        assert not any(fault.start_ns in down for fault in swarm.faults)
    assert ended


def test_starts_of_a_cluster_with_damages_read_all_of_its_log() -> None:
    damaged = [swarm for swarm in map(drawn, SEEDS) if swarm.variations.damages and swarm.members > 1]
    assert {(swarm.segment_length // swarm.term_length, swarm.snapshot_interval_ns) for swarm in damaged} == {(1, 0)}


def test_moments_are_read_back_from_their_tape_and_are_lines_of_the_texts() -> None:
    for swarm in map(drawn, SEEDS):
        assert read_swarm(tape_of(swarm).to_fields(), swarm.seed)[0] == swarm
    swarm = drawn(2)
    states = [moment.state for fault in swarm.faults for moment in (fault.moment, fault.until) if moment is not None]
    for text in scenario_texts(swarm, is_watched=True):
        parse_scenario(text, name="x", where="x")
        lines = [line.split()[2] for line in text.split("\n") if line.startswith("wait state ")]
        assert Counter(lines) == Counter(states)


def valid_run(swarm: Swarm, folder: Path) -> RunFolder:
    assert SeedRun(swarm, folder, None).run().findings == []
    return RunFolder(folder)


def killed_at(moment: Moment) -> Swarm:
    """Member 2 is killed and comes back. At that moment a member is killed again: member 2, or the one that entered."""
    first = plan_fault("kill", 2 * S, FaultDraw(3, S, member=2))
    again = plan_fault("kill", first.end_ns, FaultDraw(3, S, member=1 if moment.is_victim else 2), moment)
    return replace(PLAIN, faults=(first, again))


@pytest.mark.parametrize("moment", [Moment("follower-replay", 2), Moment("follower-replay", 2, 30, is_victim=True)])
def test_a_fault_begins_when_its_member_enters_the_state(moment: Moment, tmp_path: Path) -> None:
    run = valid_run(killed_at(moment), tmp_path / "run")
    _, again = run.read_faults()
    assert again.members == (2,)
    entered = [
        event.ns
        for event in run.member(2).traced()
        if event.event == "election_state" and event.fields["state"] == "FOLLOWER_REPLAY"
    ]
    before = max(ns for ns in entered if ns <= again.inject_begin_ns)
    assert moment.after_ms * MS <= again.inject_begin_ns - before <= (moment.after_ms + 1) * MS


def test_a_fault_whose_moment_does_not_come_begins_at_the_end_of_the_wait(tmp_path: Path) -> None:
    first, again = valid_run(killed_at(Moment("leader-ready", 2)), tmp_path / "run").read_faults()
    assert 0 <= again.inject_begin_ns - first.inject_begin_ns - S - LONGEST_WAIT_NS <= MS


def test_a_fault_of_the_member_that_enters_is_left_out_without_one(tmp_path: Path) -> None:
    run = valid_run(killed_at(Moment("leader-ready", 2, is_victim=True)), tmp_path / "run")
    assert len(list(run.read_faults())) == 1


def test_a_fault_heals_when_a_snapshot_begins_that_is_asked_for(tmp_path: Path) -> None:
    slow = plan_fault("slow", 3 * S, FaultDraw(3, S, member=2))
    swarm = replace(PLAIN, faults=(replace(slow, until=Moment("snapshot")),))
    run = valid_run(swarm, tmp_path / "run")
    (fault,) = run.read_faults()
    begun = [
        event.ns
        for member_id in range(3)
        for event in run.member(member_id).traced()
        if event.event == "module_state" and event.fields["new"] == "SNAPSHOT"
    ]
    assert fault.heal_begin_ns is not None
    assert any(0 <= fault.heal_begin_ns - ns <= MS for ns in begun)


def test_a_leader_commits_in_the_cycle_in_which_it_leaves(tmp_path: Path) -> None:
    """Member 0 commits up to 85440, and then hears the request for a vote that ends its term."""
    swarm, _ = read_swarm(json.loads((DATA / "leader-leaves.json").read_text()), 95)
    assert SeedRun(swarm, tmp_path / "run", None, traces_protocol=True).run().findings == []
    events = list(RunFolder(tmp_path / "run").member(0).traced())
    committed = {event.ns for event in events if event.fields.get("message") == "CommitPosition"}
    assert any(event.ns in committed for event in events if event.fields.get("state") == "INIT")


def test_a_lone_member_has_the_faults_that_were_drawn() -> None:
    (lone, *_) = (swarm for swarm in map(draw_swarm, SEEDS) if swarm.members == 1)
    assert draw_moments(lone) == lone
