"""SIGKILL of the leader, and of random single components, many times in a row under load: nothing is lost."""

from random import Random

import pytest

from support.valid import require_valid
from upheaval.checkers.judge import verify_run
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.system import COMPONENTS
from upheaval.workload import WorkloadSettings

from .conftest import NewCluster

pytestmark = pytest.mark.heavy

MANY = pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.nightly)])
# Enough that every kill meets operations under way, few enough that two cores are left for the members.
LOAD = WorkloadSettings(slots=16, sessions=2, rate=400)
OPERATIONS_BETWEEN_KILLS = 40
TIMEOUT_S = 240.0


def _judge(cluster: ProcessCluster, kills: int) -> None:
    converge = cluster.converge(TIMEOUT_S)
    assert converge.reached, converge.why
    cluster.down()
    report = verify_run(cluster.folder)
    require_valid(report)
    faults = list(cluster.run.read_faults())
    assert len(faults) == kills
    assert all(fault.heal_end_ns is not None for fault in faults)


@MANY
def test_kills_of_the_leader_in_a_row_lose_nothing_and_apply_nothing_twice(new_cluster: NewCluster, kills: int) -> None:
    cluster = new_cluster()
    leader = cluster.up()
    with ProcessLoad(cluster, LOAD) as load:
        for _ in range(kills):
            load.wait_until_acknowledged(load.counts.ok + OPERATIONS_BETWEEN_KILLS, TIMEOUT_S)
            cluster.member(leader).kill()
            successor = cluster.wait_until_leader(TIMEOUT_S, other_than=leader)
            cluster.member(leader).start()
            cluster.wait_until_caught_up(leader, TIMEOUT_S)
            leader = cluster.wait_until_leader(TIMEOUT_S)
            assert successor is not None
        load.wait_until_acknowledged(load.counts.ok + OPERATIONS_BETWEEN_KILLS, TIMEOUT_S)
    _judge(cluster, kills)


@MANY
def test_kills_of_random_single_components_lose_nothing_and_apply_nothing_twice(
    new_cluster: NewCluster, kills: int
) -> None:
    random = Random(20261121)
    cluster = new_cluster(components="split")
    cluster.up()
    with ProcessLoad(cluster, LOAD) as load:
        for _ in range(kills):
            load.wait_until_acknowledged(load.counts.ok + OPERATIONS_BETWEEN_KILLS, TIMEOUT_S)
            victim = random.randrange(3)
            cluster.member(victim).kill(random.choice(COMPONENTS))
            cluster.member(victim).start()
            cluster.wait_until_caught_up(victim, TIMEOUT_S)
        load.wait_until_acknowledged(load.counts.ok + OPERATIONS_BETWEEN_KILLS, TIMEOUT_S)
    _judge(cluster, kills)
