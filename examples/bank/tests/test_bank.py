"""The bank on a cluster. `cluster` and `chaos` come from upheaval's pytest plugin; nothing is imported for that."""

import pytest
from bank.client import BankClient


@pytest.fixture
def bank(cluster):
    return BankClient(cluster.client(timeout_s=3))


def test_a_transfer_happens_once_and_never_with_more_than_there_is(bank):
    bank.deposit("ann", 100)
    for _ in range(2):
        assert bank.transfer("ann", "bob", 30, request_id="rent of May")["ok"]
    assert not bank.transfer("ann", "bob", 71)["ok"]
    assert bank.balances() == {"ann": 70, "bob": 30}


def test_money_survives_the_leader(cluster, chaos, bank):
    bank.deposit("ann", 100)
    for _ in range(50):
        bank.transfer("ann", "bob", 1)
    killed = chaos.kill_leader()
    for _ in range(50):
        bank.transfer("ann", "bob", 1)
    assert cluster.leader() != killed
    assert bank.balances() == {"ann": 0, "bob": 100}
    cluster.assert_valid()


def test_a_leader_without_followers_moves_no_money(cluster, chaos, bank):
    bank.deposit("ann", 100)
    alone = cluster.wait_until_leader()
    others = [member for member in cluster.member_ids if member != alone]
    with chaos.partition([alone], others):
        assert cluster.wait_until_leader(other_than=alone) in others
        bank.transfer("ann", "bob", 60)
        assert not bank.transfer("ann", "bob", 60)["ok"]
    cluster.wait_until_caught_up(alone)
    assert bank.balances() == {"ann": 40, "bob": 60}


def test_a_bank_that_was_closed_opens_with_the_same_balances(chaos, bank):
    bank.deposit("ann", 100)
    bank.transfer("ann", "bob", 40)
    chaos.kill("all")
    chaos.heal()
    assert bank.balances() == {"ann": 60, "bob": 40}
