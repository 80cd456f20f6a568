"""The stock on a cluster. `cluster` and `chaos` come from upheaval's pytest plugin; nothing is imported for that."""

import pytest

from tests.clerk import Clerk


@pytest.fixture
def clerk(cluster):
    return Clerk(cluster.client(timeout_s=5), 1)


def test_nothing_is_lost_with_the_leader(cluster, chaos, clerk):
    assert clerk.work(100) > 0
    killed = chaos.kill_leader()
    assert cluster.wait_until_leader() != killed
    assert clerk.work(100) > 0
    cluster.assert_valid()


def test_the_stock_outlives_a_restart_from_a_snapshot(cluster, clerk):
    assert clerk.work(100) > 0
    cluster.shutdown()  # takes a snapshot first
    cluster.start_all()
    assert clerk.work(100) > 0
    cluster.assert_valid()
