"""The locks on a cluster. Each verdict is also that of the model and the promises in `locks/checks.py`."""

import pytest
from locks.client import LockClient


@pytest.fixture
def ann(cluster):
    return LockClient(cluster.client(timeout_s=3), "ann")


@pytest.fixture
def bob(cluster):
    return LockClient(cluster.client(timeout_s=3), "bob")


def take_turns(ann, bob, times):
    tokens = []
    for _ in range(times):
        for client, other in ((ann, bob), (bob, ann)):
            token = client.acquire("printer")
            assert other.acquire("printer") is None
            assert client.release("printer", token)
            tokens.append(token)
    return tokens


def test_a_lock_has_one_holder_whoever_leads(cluster, chaos, ann, bob):
    take_turns(ann, bob, 10)
    killed = chaos.kill_leader()
    take_turns(ann, bob, 10)
    assert cluster.leader() != killed
    cluster.assert_valid()


def test_who_was_taken_for_dead_has_an_old_token(ann, bob):
    take_turns(ann, bob, 20)  # a verdict needs 100 requests
    old = ann.acquire("printer")
    assert bob.take_away("printer")
    assert bob.acquire("printer") > old
    assert not ann.is_current("printer", old)
    assert not ann.release("printer", old)
    assert bob.acquire("printer") is None


def test_locks_and_tokens_outlive_a_restart_from_a_snapshot(cluster, ann, bob):
    tokens = take_turns(ann, bob, 10)
    held = ann.acquire("door")
    cluster.snapshot()
    cluster.shutdown()
    cluster.start_all()
    assert ann.is_current("door", held)
    assert bob.acquire("door") is None
    assert min(take_turns(ann, bob, 10)) > max(tokens)
    cluster.assert_valid()
