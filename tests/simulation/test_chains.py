"""Faults in chains, and seeds of a campaign that have them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.campaign.searches import CHAINS
from upheaval.campaign.seed import SeedOrigin, SeedRun, keep_seed, seed_of_run
from upheaval.campaign.seed_lines import SEED_FILE
from upheaval.campaign.swarm import LOSING_POWER, Swarm, draw_swarm
from upheaval.campaign.swarm_tape import read_swarm, tape_of
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Rule, Signature
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval_node.types import MS, S

SEEDS = range(1, 201)


def chained(seed: int) -> Swarm:
    return SeedOrigin(seed, search=CHAINS).swarm()


def test_a_chain_replaces_the_faults_of_a_cluster_and_snapshots_within_a_time_out_of_sessions() -> None:
    for seed in SEEDS:
        drawn, swarm = draw_swarm(seed), chained(seed)
        assert replace(swarm, faults=drawn.faults, snapshot_interval_ns=drawn.snapshot_interval_ns) == drawn
        assert (swarm == drawn) == (drawn.members == 1)
        assert swarm.members == 1 or not 0 < swarm.snapshot_interval_ns < 2 * swarm.session_timeout_ns


def test_a_cluster_may_refuse_clients_while_lost_sessions_take_all_places(tmp_path: Path) -> None:
    """A snapshot restarts the time-outs of sessions. One every 5 s keeps the lost ones open."""
    swarm = replace(chained(21), snapshot_interval_ns=5 * S)
    assert SeedRun(swarm, tmp_path / "run", None).run().findings == []


def test_a_deposed_leader_takes_the_snapshot_of_an_earlier_term(tmp_path: Path) -> None:
    """Member 1 leads term 4 without an entry, then replays the end of term 3, where the log asks for a snapshot."""
    swarm = chained(4000505)
    assert SeedRun(swarm, tmp_path / "own", None).run().findings == []
    SeedRun(replace(swarm, compatibility="E23"), tmp_path / "aeron", None).run()
    (broken,) = (one for one in verify_run(tmp_path / "aeron").findings if one.verdict is Verdict.INVALID)
    assert (broken.promise, broken.members) == (Promise.NO_UNEXPLAINED_END, (1,))
    assert broken.signature == Signature(Rule.UNEXPECTED_END, "LEADER", "LEADER_INIT")
    assert "ack out of sequence: expected id 7 at 35808" in broken.detail


def test_a_chain_goes_on_where_its_first_fault_heals() -> None:
    for swarm in filter(lambda swarm: swarm.members > 1, map(chained, SEEDS)):
        first, second = swarm.faults[:2]
        assert first.kind == "isolate-leader"
        assert first.duration_ns > swarm.heartbeat_timeout_ns
        assert abs(second.start_ns - first.start_ns - first.duration_ns) <= 1200 * MS
        assert [fault.start_ns for fault in swarm.faults] == sorted(fault.start_ns for fault in swarm.faults)
        assert max(fault.start_ns + fault.duration_ns for fault in swarm.faults) <= (swarm.seconds - 8) * S
        assert swarm.sync_level > 0 or not LOSING_POWER.intersection(fault.kind for fault in swarm.faults)


def test_chains_are_read_back_from_their_tape() -> None:
    for seed in SEEDS:
        swarm = chained(seed)
        assert read_swarm(tape_of(swarm).to_fields(), seed)[0] == swarm


def test_a_stored_seed_has_its_search(tmp_path: Path) -> None:
    keep_seed(SeedOrigin(3, tape={"seconds": 4, "rate": 20}, search=CHAINS), tmp_path / "run")
    stored = seed_of_run(tmp_path / "run")
    assert stored is not None
    assert stored.search == CHAINS
    path = tmp_path / "run" / SEED_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "search": "knots"}))
    with pytest.raises(UsageError, match=r"search 'knots' is none of uniform, delivery, chains"):
        seed_of_run(tmp_path / "run")
