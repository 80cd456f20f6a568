"""Snapshots of whole members: taken by all at one place, started from, and passed over when they are damaged."""

from support.cluster_world import ClusterWorld, KeepingService, Member
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import CONTROL_TOGGLE, SNAPSHOT_COUNT, cluster_key
from upheaval_node.files.recording_log import Entry


def started(count: int = 1) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count, services=lambda: [KeepingService()])
    world.start_all()
    return world, world.await_all()


def toggle(member: Member, value: ControlToggle) -> None:
    found = member.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    assert found.get() == ControlToggle.NEUTRAL
    found.set(value)


def snapshot_count(member: Member) -> int:
    found = member.counters.find(SNAPSHOT_COUNT, cluster_key(0))
    assert found is not None
    return found.get()


def take_snapshot(world: ClusterWorld) -> None:
    counts = {member.id: snapshot_count(member) for member in world.members.values()}
    toggle(world.await_leader(), ControlToggle.SNAPSHOT)
    world.until(lambda: all(snapshot_count(m) == counts[m.id] + 1 and m.is_active for m in world.members.values()))


def snapshots(member: Member) -> list[Entry]:
    return [entry for entry in member.module.recording_log.entries if entry.is_snapshot]


def keeping(member: Member) -> KeepingService:
    assert isinstance(member.service, KeepingService)
    return member.service


def restart(world: ClusterWorld) -> Member:
    for member_id in list(world.members):
        world.kill(member_id)
    world.clients.clear()
    world.start_all()
    return world.await_all()


def test_every_member_takes_the_snapshot_at_the_same_place_and_goes_on() -> None:
    world, leader = started(3)
    client = world.client()
    world.echo(client, [b"before"])
    take_snapshot(world)
    world.echo(client, [b"behind"])
    positions = {entry.log_position for member in world.members.values() for entry in snapshots(member)}
    assert len(positions) == 1
    for member in world.members.values():
        assert [entry.service_id for entry in snapshots(member)] == [0, -1]
        assert keeping(member).snapshots == list(positions)
        assert member.module.state is ModuleState.ACTIVE
    found = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    assert found.get() == ControlToggle.NEUTRAL
    assert client.received == [b"before", b"behind"]


def test_members_start_from_the_snapshot_and_replay_what_is_behind_it() -> None:
    world, _ = started(3)
    client = world.client()
    world.echo(client, [b"%d" % n * 40 for n in range(100)])
    take_snapshot(world)
    world.echo(client, [b"late"])
    expected = world.await_leader().service.messages
    restart(world)
    world.until(lambda: all(member.service.messages == expected for member in world.members.values()))
    assert [keeping(member).started_with for member in world.members.values()] == [100, 100, 100]
    again = world.client()
    world.echo(again, [b"more"])
    world.until(lambda: all(len(member.service.messages) == 102 for member in world.members.values()))


def test_a_session_of_the_snapshot_is_closed_by_the_next_leader() -> None:
    world, _ = started()
    world.echo(world.client(), [b"x"])
    take_snapshot(world)
    member = restart(world)
    world.until(lambda: member.service.closed == [(1, "TIMEOUT")])
    assert member.service.opened == []
    world.client()
    world.until(lambda: member.service.opened == [2])
