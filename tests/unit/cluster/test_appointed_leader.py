"""An appointed leader, a means of tests: no other member nominates itself, every member votes."""

from dataclasses import replace

import pytest

from support.cluster_world import ClusterWorld
from upheaval_node.settings import profile_settings


def appointed(member_id: int) -> ClusterWorld:
    settings = profile_settings("test")
    cluster = replace(settings.cluster, appointed_leader_id=member_id)
    return ClusterWorld(3, settings=replace(settings, cluster=cluster))


@pytest.mark.parametrize("member_id", [0, 1, 2])
def test_the_appointed_member_leads_and_serves_and_leads_again_after_a_restart(member_id: int) -> None:
    world = appointed(member_id)
    world.start_all()
    assert world.await_all().id == member_id
    payloads = [b"%d" % number for number in range(20)]
    world.echo(world.client(), payloads)
    for each in range(3):
        world.kill(each)
    world.clients.clear()
    world.start_all()
    leader = world.await_all()
    assert leader.id == member_id
    world.until(lambda: all(len(member.service.messages) == 20 for member in world.members.values()))


def test_without_the_appointed_member_nobody_leads() -> None:
    world = appointed(1)
    world.start_all()
    world.await_all()
    world.kill(1)
    world.advance(20_000, step_ms=50)
    assert world.leader() is None
    world.start(1)
    assert world.await_all().id == 1


def test_a_member_that_missed_messages_catches_up_with_the_appointed_leader() -> None:
    world = appointed(1)
    world.start_all()
    world.await_all()
    client = world.client()
    world.echo(client, [b"a"] * 5)
    world.kill(0)
    world.echo(client, [b"b"] * 50)
    world.kill(1)
    world.kill(2)
    world.clients.clear()
    world.start_all()
    assert world.await_all().id == 1
    world.until(lambda: all(len(member.service.messages) == 55 for member in world.members.values()))
