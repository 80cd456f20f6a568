"""The auction on a cluster. `cluster` and `chaos` come from upheaval's pytest plugin; nothing is imported for that."""

import pytest

from tests.bidder import Bidder


@pytest.fixture
def ann(cluster):
    return Bidder(cluster.client(timeout_s=5), 1)


@pytest.fixture
def bob(cluster):
    return Bidder(cluster.client(timeout_s=5), 2)


def bid_against_each_other(ann, bob, first, count):
    """Every third bid is too low."""
    for price in range(first, first + count):
        assert ann.bid(7, 2 * price).leads
        assert bob.bid(7, 2 * price + 1).leads
        answer = ann.bid(7, 2 * price)
        assert (answer.leads, answer.leader, answer.price) == (0, 2, 2 * price + 1)


def test_no_bid_is_lost_with_the_leader(cluster, chaos, ann, bob):
    bid_against_each_other(ann, bob, 1, 20)
    killed = chaos.kill_leader()
    bid_against_each_other(ann, bob, 21, 20)
    assert cluster.leader() != killed
    cluster.assert_valid()


def test_bids_outlive_a_restart_from_a_snapshot(cluster, ann, bob):
    bid_against_each_other(ann, bob, 1, 20)
    cluster.shutdown()  # takes a snapshot first
    cluster.start_all()
    bid_against_each_other(ann, bob, 21, 20)
    cluster.assert_valid()


def test_a_leader_without_followers_sells_nothing(cluster, chaos, ann, bob):
    bid_against_each_other(ann, bob, 1, 20)
    alone = cluster.wait_until_leader()
    others = [member for member in cluster.member_ids if member != alone]
    with chaos.partition([alone], others):
        assert cluster.wait_until_leader(other_than=alone) in others
        bid_against_each_other(ann, bob, 21, 20)
    cluster.wait_until_caught_up(alone)
    cluster.assert_valid()
