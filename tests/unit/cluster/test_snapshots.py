"""Snapshots of whole members: taken by all at one place, started from, and passed over when they are damaged."""

from dataclasses import replace

import pytest

from support.cluster_world import ClusterWorld, KeepingService, Member
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import CONTROL_TOGGLE, SNAPSHOT_COUNT, cluster_key
from upheaval_node.errors import DecodeError, StorageError
from upheaval_node.files.recording_log import Entry
from upheaval_node.service.api import Cluster, SnapshotImage, SnapshotPublication
from upheaval_node.settings import profile_settings
from upheaval_node.types import MS


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
    world.echo(client, [b"beyond"])
    positions = {entry.log_position for member in world.members.values() for entry in snapshots(member)}
    assert len(positions) == 1
    for member in world.members.values():
        assert [entry.service_id for entry in snapshots(member)] == [0, -1]
        assert keeping(member).snapshots == list(positions)
        assert member.module.state is ModuleState.ACTIVE
    found = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    assert found.get() == ControlToggle.NEUTRAL
    assert client.received == [b"before", b"beyond"]


@pytest.mark.parametrize("state", [ModuleState.SNAPSHOT, ModuleState.SUSPENDED])
def test_a_leader_whose_recording_stops_meanwhile_records_again(state: ModuleState) -> None:
    """As on a full disk: a leader that records nothing would lead for ever without committing anything."""
    world, leader = started()
    client = world.client()
    world.echo(client, [b"before"])
    toggle(leader, ControlToggle.SNAPSHOT if state is ModuleState.SNAPSHOT else ControlToggle.SUSPEND)
    world.until(lambda: leader.module.state is state)
    leader.module._context.archive.stop_recording_by_identity(leader.module._log.recording.recording_id)
    world.advance(100)
    if leader.module.state is ModuleState.SUSPENDED:
        world.until(lambda: leader.module._log.recording.position is not None)
        toggle(leader, ControlToggle.RESUME)
    world.until(lambda: leader.module.state is ModuleState.ACTIVE and leader.module._log.recording.position is not None)
    world.echo(client, [b"beyond"])
    assert client.received == [b"before", b"beyond"]


def test_a_snapshot_whose_entry_is_not_recorded_is_given_up() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"before"])

    def refuse_once() -> None:
        leader.storage.before_change = None
        raise StorageError("no space left on device")

    leader.storage.before_change = refuse_once
    toggle(leader, ControlToggle.SNAPSHOT)
    world.until(lambda: leader.storage.before_change is None)
    world.until(lambda: leader.module.state is ModuleState.ACTIVE and leader.module._log.recording.position is not None)
    assert snapshots(leader) == []
    world.echo(client, [b"beyond"])
    assert client.received == [b"before", b"beyond"]


def test_members_start_from_the_snapshot_and_replay_what_comes_after_it() -> None:
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


def test_a_snapshot_whose_recording_lost_its_end_gives_way_to_the_one_before() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"%d" % n for n in range(10)])
    take_snapshot(world)
    world.echo(client, [b"%d" % n for n in range(10, 20)])
    take_snapshot(world)
    world.echo(client, [b"last"])
    expected = leader.service.messages
    cut = snapshots(leader)[-2]
    assert (cut.service_id, cut.is_valid) == (0, True)
    leader.module._context.archive.truncate(cut.recording_id, cut.recorded_length - 64)
    world.advance(50)
    member = restart(world)
    world.until(lambda: member.service.messages == expected)
    assert keeping(member).started_with == 10
    assert any("is not used" in text for text in member.errors.texts)
    # The replay came by the place of the damaged one, and took that snapshot again.
    assert [(e.log_position, e.is_valid) for e in snapshots(member)][2:] == [(cut.log_position, True)] * 2
    assert snapshots(member)[2].recording_id != cut.recording_id


def test_a_snapshot_without_the_part_of_a_service_is_none() -> None:
    world, leader = started()
    world.echo(world.client(), [b"x"])
    take_snapshot(world)
    expected = leader.service.messages
    service, module = snapshots(leader)
    leader.module.recording_log.invalidate_entry(service.entry_index)
    assert module.is_valid
    member = restart(world)
    world.until(lambda: member.service.messages == expected)
    assert keeping(member).started_with == 0


@pytest.mark.parity("CT-85")
def test_a_service_that_cannot_read_its_state_makes_the_next_start_go_without() -> None:
    world, leader = started()
    world.echo(world.client(), [b"x"])
    take_snapshot(world)
    expected = leader.service.messages

    class Confused(KeepingService):
        def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
            raise DecodeError("checksum")

    world.kill(0)
    world.clients.clear()
    world.services = lambda: [Confused()]
    confused = world.start(0)
    world.until(lambda: confused.ended is not None)
    # The files show why the snapshot is not used any more.
    assert any("is not used: a service cannot read it" in text for text in confused.errors.texts)
    world.kill(0)
    world.services = lambda: [KeepingService()]
    world.start(0)
    member = world.await_leader()
    world.until(lambda: member.service.messages == expected)
    assert keeping(member).started_with == 0


def test_a_service_that_fails_otherwise_keeps_its_snapshot() -> None:
    world, _ = started()
    world.echo(world.client(), [b"x"])
    take_snapshot(world)

    class Unlucky(KeepingService):
        def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
            raise OSError("no configuration")

    world.kill(0)
    world.clients.clear()
    world.services = lambda: [Unlucky()]
    unlucky = world.start(0)
    world.until(lambda: unlucky.ended is not None)
    assert all(entry.is_valid for entry in snapshots(unlucky))


@pytest.mark.parity("MS-02")
def test_a_service_that_fails_to_write_its_state_costs_the_snapshot_and_nothing_else() -> None:
    class Failing(KeepingService):
        def on_take_snapshot(self, publication: SnapshotPublication) -> None:
            raise OSError("no space")

    world = ClusterWorld(1, services=lambda: [KeepingService(), Failing()])
    world.start_all()
    leader = world.await_all()
    client = world.client()
    toggle(leader, ControlToggle.SNAPSHOT)
    world.until(lambda: any("service(s) [1]" in text for text in leader.errors.texts))
    world.until(lambda: leader.is_active)
    world.echo(client, [b"x"])
    assert snapshots(leader) == []


@pytest.mark.parity("MS-01")
def test_two_services_have_a_snapshot_each() -> None:
    world = ClusterWorld(3, services=lambda: [KeepingService(), KeepingService()])
    world.start_all()
    world.await_all()
    client = world.client()
    world.send(client, [b"%d" % n for n in range(20)])
    world.until(lambda: len(client.received) == 40)
    take_snapshot(world)
    assert all([e.service_id for e in snapshots(m)] == [1, 0, -1] for m in world.members.values())
    restart(world)
    for member in world.members.values():
        assert [len(service.messages) for service in member.services] == [20, 20]


def test_an_election_during_a_snapshot_ends_after_it() -> None:
    world, leader = started(3)
    world.echo(world.client(), [b"x"])
    follower = world.followers()[0]
    toggle(leader, ControlToggle.SNAPSHOT)
    for _ in range(2000):
        if follower.module.state is ModuleState.SNAPSHOT:
            break
        if world.turn() == 0:
            world.ns += MS
    assert follower.module.state is ModuleState.SNAPSHOT
    world.kill(leader.id)
    world.clients.clear()
    world.await_all()
    world.until(lambda: all(snapshot_count(member) == 1 for member in world.members.values()))
    world.echo(world.client(), [b"y"])


def test_a_snapshot_that_was_not_committed_is_undone() -> None:
    world, leader = started(3)
    world.echo(world.client(), [b"x"])
    leader.network.cut_off()
    toggle(leader, ControlToggle.SNAPSHOT)
    world.clients.clear()
    world.until(lambda: leader.module.state is ModuleState.SNAPSHOT)
    world.until(lambda: world.leader() not in (None, leader))
    leader.network.rejoin()
    world.until(lambda: leader.is_follower)
    assert leader.module.state is ModuleState.ACTIVE
    take_snapshot(world)


@pytest.mark.parity("CM-08", "CT-06")
def test_a_standby_snapshot_is_taken_by_nobody_here() -> None:
    world, leader = started()
    toggle(leader, ControlToggle.STANDBY_SNAPSHOT)
    found = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    world.until(lambda: found.get() == ControlToggle.NEUTRAL)
    world.echo(world.client(), [b"x"])
    assert snapshots(leader) == []
    assert keeping(leader).snapshots == []


def test_a_module_without_services_has_snapshots_of_its_own() -> None:
    world = ClusterWorld(3, services=list)
    world.start_all()
    world.await_all()
    take_snapshot(world)
    assert all([entry.service_id for entry in snapshots(m)] == [-1] for m in world.members.values())
    restart(world)
    take_snapshot(world)
    toggle(world.await_leader(), ControlToggle.SHUTDOWN)
    world.until(lambda: all(member.ended is not None for member in world.members.values()))


class Heavy(KeepingService):
    """Has a state of several megabytes beside its messages."""

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        super().on_start(cluster, snapshot_image)
        if not self.messages:
            self.messages = [(number, number.to_bytes(4, "little") * 5000) for number in range(300)]

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        assert publication.max_message_length == 128 * 1024
        super().on_take_snapshot(publication)


def test_a_state_of_many_terms_is_written_and_read_in_pieces() -> None:
    world = ClusterWorld(1, services=lambda: [Heavy()])
    world.start_all()
    leader = world.await_leader()
    world.echo(world.client(), [b"x"])
    take_snapshot(world)
    expected = leader.service.messages
    assert snapshots(leader)[0].recorded_length > 6_000_000
    member = restart(world)
    assert keeping(member).started_with == 301
    assert member.service.messages == expected


@pytest.mark.parametrize(("rules", "gives_up"), [("upheaval", True), ("E24", False)])
def test_a_leader_without_a_quorum_gives_up_a_snapshot_that_is_not_committed(rules: str, gives_up: bool) -> None:
    """Row E24. Members that voted in a later term do not follow it, and a leader answers no canvass."""
    settings = profile_settings("test")
    world = ClusterWorld(3, settings=replace(settings, cluster=replace(settings.cluster, compatibility=rules)))
    world.start_all()
    leader = world.await_all()
    for member in world.followers():
        member.network.cut_off()
    toggle(leader, ControlToggle.SNAPSHOT)
    world.until(lambda: leader.module.state is ModuleState.SNAPSHOT)
    world.advance(5 * settings.cluster.timeouts.leader_heartbeat_ns // MS)
    assert (leader.module.election is not None, leader.module.state is ModuleState.ACTIVE) == (gives_up, gives_up)
    for member in world.members.values():
        member.network.rejoin()
    world.await_all()
    world.echo(world.client(), [b"a"] * 5)
