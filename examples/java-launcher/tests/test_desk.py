"""The desk on a cluster whose members `DeskMember` starts. `cluster` and `chaos` come from upheaval's pytest plugin."""

import pytest

from tests.desk import Trader


@pytest.fixture
def trader(cluster):
    return Trader(cluster.client(timeout_s=5))


def test_nothing_is_lost_with_two_leaders(cluster, chaos, trader):
    trader.trade(60)
    killed = chaos.kill_leader()
    alone = cluster.wait_until_leader(other_than=killed)
    trader.trade(60)
    cluster.start(killed)
    cluster.wait_until_caught_up(killed)
    others = [member for member in cluster.member_ids if member != alone]
    with chaos.partition([alone], others):
        assert cluster.wait_until_leader(other_than=alone) in others
        trader.trade(60)
    cluster.wait_until_caught_up(alone)
    cluster.assert_valid()


def test_the_position_outlives_a_restart_from_a_snapshot(cluster, trader):
    trader.trade(60)
    cluster.shutdown()  # takes a snapshot first
    cluster.start_all()
    trader.trade(60)
    cluster.assert_valid()
