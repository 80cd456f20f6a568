"""A standby reads the log of a cluster, runs the services on it and takes snapshots that members can start from."""

from support.cluster_world import ClusterWorld, KeepingService, Member
from support.standby_world import Standby
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.counters import CONTROL_TOGGLE, cluster_key
from upheaval_node.files.recording_log import EntryType


def started(count: int = 1) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count, services=lambda: [KeepingService()])
    world.start_all()
    return world, world.await_all()


def toggle(member: Member, value: ControlToggle) -> None:
    found = member.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    assert found.get() == ControlToggle.NEUTRAL
    found.set(value)


def test_a_standby_reads_what_there_was_and_what_comes() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"before"])
    service = KeepingService()
    standby = Standby(world, [service])
    standby.follow(leader)
    world.until(lambda: standby.has_read(leader))
    world.echo(client, [b"behind"])
    world.until(lambda: standby.has_read(leader))
    assert service.messages == leader.service.messages
    assert [payload for _, payload in service.messages] == [b"before", b"behind"]
    assert client.received == [b"before", b"behind"]


def test_it_takes_the_snapshot_that_members_leave_to_it_and_tells_them() -> None:
    world, leader = started(3)
    client = world.client()
    world.echo(client, [b"before"])
    standby = Standby(world, [KeepingService()])
    standby.follow(leader)
    world.until(lambda: standby.has_read(leader))
    toggle(leader, ControlToggle.STANDBY_SNAPSHOT)
    world.until(lambda: len([e for e in standby.recording_log.entries if e.is_valid_snapshot]) == 2)
    position = standby.recording_log.latest_snapshot_set()[0].log_position
    for member in world.members.values():
        entries = member.module.recording_log
        world.until(lambda entries=entries: len(entries.latest_standby_snapshots(1)) == 1)
        found = entries.latest_standby_snapshots(1)["s0:5"]
        assert {entry.log_position for entry in found} == {position}
        assert not [entry for entry in entries.entries if entry.type is EntryType.SNAPSHOT]
    world.echo(client, [b"behind"])
    world.until(lambda: standby.has_read(leader))
    world.until(lambda: not standby.notices.is_busy)
    assert standby.errors.texts == []
