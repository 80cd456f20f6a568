"""The bank on a cluster. `cluster` and `chaos` come from upheaval's pytest plugin; nothing is imported for that."""

import pytest
from bank.client import BankClient

from upheaval import Verdict


@pytest.fixture
def bank(cluster):
    return BankClient(cluster.client(timeout_s=3))


def test_a_transfer_moves_money_and_never_more_than_there_is(bank):
    bank.deposit("ann", 100)
    assert bank.transfer("ann", "bob", 30)["ok"]
    assert not bank.transfer("ann", "bob", 71)["ok"]
    assert bank.balances() == {"ann": 70, "bob": 30}


def test_a_transfer_that_is_asked_for_twice_happens_once(bank):
    bank.deposit("ann", 100)
    for _ in range(2):
        assert bank.transfer("ann", "bob", 30, request_id="rent of May")["ok"]
    assert bank.balances() == {"ann": 70, "bob": 30}


def test_money_survives_the_leader(cluster, chaos, bank):
    bank.deposit("ann", 100)
    for _ in range(10):
        bank.transfer("ann", "bob", 1)
    killed = chaos.kill_leader()
    for _ in range(10):
        bank.transfer("ann", "bob", 1)
    assert cluster.leader() != killed
    assert bank.balances() == {"ann": 80, "bob": 20}
    report = cluster.verify()
    assert report.finding("logs are equal up to the commit position").verdict is Verdict.VALID
    assert report.finding("one leader a term").verdict is Verdict.VALID


def test_a_bank_that_was_closed_opens_with_the_same_balances(cluster, chaos, bank):
    bank.deposit("ann", 100)
    bank.transfer("ann", "bob", 40)
    for status in cluster.status():
        chaos.kill(status.member_id)
    chaos.heal()
    assert bank.balances() == {"ann": 60, "bob": 40}
