"""A cluster of the node's own members in a simulated world: elections, load, deaths, partitions, return."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.fault_cases import drive, fault_of, isolation
from upheaval.campaign.seed import SeedRun
from upheaval.campaign.swarm import draw_swarm
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import Outcome, RunFolder
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.errors import SimulationError
from upheaval.runtimes.simulated.world import World
from upheaval.system import ClusterSpec
from upheaval.workload import Load, WorkloadSettings
from upheaval_chaos.target import Node
from upheaval_node.settings import profile_settings
from upheaval_node.types import S

LOAD = WorkloadSettings(slots=8, keys=4, rate=100)


def started(seed: int, members: int = 3, sync_level: int = 1) -> SimulatedCluster:
    settings = profile_settings("test", sync_level=sync_level)
    cluster = SimulatedCluster(World(seed), ClusterSpec(members), settings=settings)
    cluster.start_all()
    cluster.wait_until_leader()
    return cluster


def settle(cluster: SimulatedCluster, load: Load) -> None:
    load.stop()
    cluster.wait_until(lambda: load.is_idle, 20, "end of the load")
    converge = cluster.converge()
    assert converge.reached, cluster.describe()


@pytest.mark.parametrize("members", [1, 3, 5])
def test_members_elect_a_leader_and_serve_a_load(members: int) -> None:
    cluster = started(1, members)
    load = cluster.start_load(LOAD)
    cluster.world.run_for(2 * S)
    settle(cluster, load)
    assert load.counts.ok > 150
    assert load.counts.unknown == load.counts.fail == 0
    assert all(operation.outcome is Outcome.OK for operation in cluster.history)


def test_a_killed_leader_is_replaced_and_catches_up_when_it_returns() -> None:
    cluster = started(2)
    load = cluster.start_load(LOAD)
    cluster.world.run_for(2 * S)
    old = cluster.leader()
    assert old is not None
    cluster.members[old].kill()
    cluster.wait_until(lambda: cluster.leader() not in (None, old), 5, "new leader")
    served = load.counts.ok
    cluster.wait_until(lambda: load.counts.ok > served + 100, 5, "progress under the new leader")
    cluster.members[old].start()
    cluster.wait_until(lambda: cluster.status()[old].election_state == "CLOSED", 10, "return of the member")
    settle(cluster, load)
    assert max(operation.complete_ns or 0 for operation in cluster.history) > 0


def test_a_member_cut_off_misses_terms_and_gets_them_back() -> None:
    cluster = started(3)
    load = cluster.start_load(LOAD)
    cluster.world.run_for(S)
    follower = next(member_id for member_id in cluster.member_ids if member_id != cluster.leader())
    driver = drive(cluster)
    assert driver.inject("cut-off", isolation(follower)).holds
    cluster.world.run_for(S)
    before = [member.commit_position for member in cluster.status()]
    cluster.world.run_for(2 * S)
    after = [member.commit_position for member in cluster.status()]
    assert after[follower] == before[follower]
    assert max(after) > max(before)
    assert driver.heal("cut-off").holds
    cluster.world.run_for(3 * S)
    settle(cluster, load)
    assert load.counts.ok > 300


def test_a_leader_without_a_quorum_acknowledges_nothing() -> None:
    cluster = started(4)
    load = cluster.start_load(LOAD)
    cluster.world.run_for(S)
    leader = cluster.leader()
    assert leader is not None
    for member_id in cluster.member_ids:
        if member_id != leader:
            cluster.members[member_id].kill()
    # What was on its way is acknowledged; after a moment nothing is.
    cluster.world.run_for(S // 10)
    served = load.counts.ok
    cluster.world.run_for(5 * S)
    assert load.counts.ok == served
    assert cluster.leader() is None
    cluster.start_all()
    cluster.wait_until(lambda: load.counts.ok > served, 20, "service after the return")
    settle(cluster, load)


def lost_operations(seed: int, sync_level: int) -> str:
    """Cut the power of all members under load, start them again; the findings about the run that are not valid."""
    cluster = started(seed, sync_level=sync_level)
    load = cluster.start_load(LOAD)
    # Not long after the start, so that the kernel has not written everything back by itself.
    cluster.world.run_for(3 * S)
    load.stop()
    load.close()
    driver = drive(cluster)
    driver.begin("dark", fault_of("power-cut all"))
    cluster.world.run_for(S)
    acknowledged = sum(operation.outcome is Outcome.OK for operation in cluster.history)
    assert acknowledged > 100
    driver.end("dark")
    try:
        cluster.wait_until_leader(20)
        converge = cluster.converge(20)
    except (SimulationError, UnknownOutcome) as error:
        return f"no cluster any more: {error}"
    position = min(member.commit_position for member in converge.members)
    highest = max(operation.position or 0 for operation in cluster.history)
    return "" if converge.reached and position >= highest else f"log ends at {position}, acknowledged up to {highest}"


@pytest.mark.parametrize("seed", range(5))
def test_a_power_cut_of_all_members_loses_nothing_acknowledged_at_sync_level_1(seed: int) -> None:
    assert lost_operations(seed, sync_level=1) == ""


def test_the_same_power_cut_loses_acknowledged_operations_at_sync_level_0() -> None:
    losses = [lost_operations(seed, sync_level=0) for seed in (0, 3, 4)]
    assert any(loss.startswith("log ends at") for loss in losses), losses


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (7, 102))])
def test_a_run_with_drawn_faults_leaves_a_folder_with_a_valid_verdict(seed: int, tmp_path: Path) -> None:
    run = SeedRun(draw_swarm(seed), tmp_path / "run")
    run.run()
    report = verify_run(tmp_path / "run")
    assert report.verdict is Verdict.VALID, str(report)
    assert run.cluster.converged is not None
    assert run.cluster.converged.reached
    assert len(list(RunFolder(tmp_path / "run").read_faults())) >= 4
    assert sum(1 for _ in RunFolder(tmp_path / "run").read_history()) == len(run.cluster.history)


def test_a_run_that_fails_leaves_its_folder_too(tmp_path: Path) -> None:
    cluster = SimulatedCluster(World(1), folder=RunFolder(tmp_path / "run"))
    cluster.start_all()
    cluster.wait_until_leader()
    cluster.write()
    assert verify_run(tmp_path / "run").verdict is Verdict.UNKNOWN


def test_a_run_is_named_by_its_execution(tmp_path: Path) -> None:
    """Or runs of one seed with different loads would take each other's place in a lake."""

    def named(folder: Path, rate: int) -> str:
        cluster = SimulatedCluster(World(5), folder=RunFolder(folder))
        cluster.start_all()
        cluster.wait_until_leader()
        load = cluster.start_load(replace(LOAD, rate=rate))
        cluster.world.run_for(S)
        settle(cluster, load)
        cluster.down()
        return cluster.run.read_manifest().run_id

    first = named(tmp_path / "first", 50)
    assert named(tmp_path / "again", 50) == first != named(tmp_path / "other", 51)


def test_an_orderly_end_and_another_start_keep_what_was_written(tmp_path: Path) -> None:
    cluster = SimulatedCluster(World(5), folder=RunFolder(tmp_path / "run"))
    cluster.start_all()
    cluster.wait_until_leader()
    load = cluster.start_load(LOAD)
    cluster.world.run_for(2 * S)
    settle(cluster, load)
    before = cluster.converged
    cluster.down()
    assert not any(member.alive for member in cluster.members)
    assert cluster.failures == []
    cluster.start_all()
    cluster.wait_until_leader()
    after = cluster.converge()
    assert before is not None
    assert after.members[0].commit_position > before.members[0].commit_position
    cluster.write()
    assert verify_run(tmp_path / "run").verdict is Verdict.VALID


def test_nothing_is_done_to_one_component_and_there_is_a_run_folder_only_if_given() -> None:
    cluster = SimulatedCluster(World(1))
    member: Node = cluster.members[0]
    with pytest.raises(UsageError):
        member.kill("archive")
    with pytest.raises(UsageError):
        _ = cluster.run


def test_a_follower_with_a_full_disk_tries_again_at_intervals_and_follows_when_there_is_room() -> None:
    """It asks its leader for a replay each time, so that without pauses it would be the leader's main work."""
    cluster = started(seed=31)
    leader = cluster.leader()
    assert leader is not None
    follower = cluster.members[(leader + 1) % 3]
    load = cluster.start_load(LOAD)
    follower.disk.is_full = True
    cluster.world.run_for(4 * S)
    attempts = sum('"state":"FOLLOWER_CATCHUP_INIT"' in line for line in cluster.journal.lines[follower.member_id])
    assert 4 <= attempts <= 4 * 20 + 2
    follower.disk.is_full = False
    settle(cluster, load)
    cluster.require_no_failure()
