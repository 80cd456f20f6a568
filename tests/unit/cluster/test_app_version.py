"""The version of the application: its major part must be one on all members, in the log and in snapshots."""

from dataclasses import replace

import pytest

from support.cluster_world import ClusterWorld, KeepingService, Member
from unit.cluster.test_snapshots import take_snapshot
from upheaval_node.errors import TerminationError

ONE = 1 << 16 | 2 << 8
"""1.2.0"""


def with_version(world: ClusterWorld, version: int) -> None:
    """Members that start from now on have this version."""
    world.settings = replace(world.settings, cluster=replace(world.settings.cluster, app_version=version))


def started(count: int) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count, services=lambda: [KeepingService()])
    with_version(world, ONE)
    world.start_all()
    return world, world.await_all()


def ended(world: ClusterWorld, member: Member) -> str:
    world.until(lambda: member.ended is not None)
    assert isinstance(member.ended, TerminationError)
    assert not member.ended.expected
    return str(member.ended)


def test_a_member_of_another_major_version_does_not_follow_the_leader() -> None:
    world, _ = started(3)
    late = world.followers()[0].id
    for each in (late, *range(3)):
        if each in world.members:
            world.kill(each)
    world.storages[late] = type(world.storages[late])()
    for each in range(3):
        if each != late:
            world.start(each)
    world.await_leader()
    with_version(world, 2 << 16)
    text = ended(world, world.start(late))
    assert text == f"incompatible app version {ONE} of the leader, ours is {2 << 16}"
    world.members.pop(late).network.break_all(is_dead=True)
    world.echo(world.client(), [b"the others go on"])


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_member_of_another_major_version_does_not_start_on_the_log(has_snapshot: bool) -> None:
    world, _ = started(1)
    world.echo(world.client(), [b"a"])
    if has_snapshot:
        take_snapshot(world)
    world.kill(0)
    with_version(world, 2 << 16)
    where = "snapshot" if has_snapshot else "log"
    assert ended(world, world.start(0)) == f"incompatible app version {ONE} in the {where}, ours is {2 << 16}"


def test_another_minor_version_goes_on_where_the_other_was() -> None:
    world, _ = started(3)
    world.echo(world.client(), [b"a"])
    take_snapshot(world)
    for each in range(3):
        world.kill(each)
    world.clients.clear()
    with_version(world, ONE + (1 << 8))
    world.start_all()
    world.await_all()
    client = world.client()
    world.echo(client, [b"b"])
    world.until(lambda: all(len(member.service.messages) == 2 for member in world.members.values()))
    assert client.received == [b"b"]
