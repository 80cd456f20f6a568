"""A standby reads the log of a cluster, runs the services on it and takes snapshots that members can start from."""

from dataclasses import replace

import pytest

from support.cluster_world import ClusterWorld, EchoService, KeepingService, Member
from support.memory_storage import MemoryStorage
from support.standby_world import Standby
from upheaval_node.archive.reader import read_recordings
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import CONTROL_TOGGLE, cluster_key
from upheaval_node.errors import TerminationError
from upheaval_node.files.recording_log import EntryType, RecordingLog
from upheaval_node.service.api import ClientSession, Cluster, ClusterRole, SnapshotPublication

FAR = 1 << 50


class Busy(KeepingService):
    """Schedules a timer and offers to the log for every message of a client; what it offers is kept as well."""

    def __init__(self) -> None:
        super().__init__()
        self.roles: list[ClusterRole] = []
        self.sent: list[int] = []

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        self.messages.append((position, bytes(payload)))
        if session is None:
            return
        assert self.cluster is not None
        self.cluster.schedule_timer(position, FAR + position)
        self.cluster.offer(b"offered ", payload)
        self.sent.append(session.offer(payload))

    def on_role_change(self, role: ClusterRole) -> None:
        self.roles.append(role)


def started(count: int = 1, service: type[KeepingService] = KeepingService) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count, services=lambda: [service()])
    world.start_all()
    return world, world.await_all()


def following(world: ClusterWorld, leader: Member, service: EchoService | None = None) -> Standby:
    standby = Standby(world, [service or KeepingService()])
    standby.follow(leader)
    world.until(lambda: standby.has_read(leader))
    return standby


def toggle(member: Member, value: ControlToggle) -> None:
    found = member.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    assert found.get() == ControlToggle.NEUTRAL
    found.set(value)


def local_snapshots(recording_log: RecordingLog) -> list[int]:
    """Their positions."""
    return sorted({entry.log_position for entry in recording_log.entries if entry.is_valid_snapshot})


def take(world: ClusterWorld, leader: Member, standby: Standby, order: ControlToggle) -> int:
    """Have a snapshot taken; its position."""
    before = len(local_snapshots(standby.recording_log))
    toggle(leader, order)
    world.until(lambda: len(local_snapshots(standby.recording_log)) == before + 1)
    world.until(lambda: standby.module.state is ModuleState.ACTIVE)
    return local_snapshots(standby.recording_log)[-1]


def snapshot_messages(storage: MemoryStorage, recording_log: RecordingLog) -> dict[int, list[bytes]]:
    """What was recorded of the latest set, by service."""
    recordings = {each.recording_id: each for each in read_recordings(storage)}
    return {
        entry.service_id: [message.payload for message in recordings[entry.recording_id].messages()]
        for entry in recording_log.latest_snapshot_set()
    }


def test_a_standby_reads_what_there_was_and_what_comes() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"before"])
    service = KeepingService()
    standby = following(world, leader, service)
    world.echo(client, [b"beyond"])
    world.until(lambda: standby.has_read(leader))
    assert service.messages == leader.service.messages
    assert [payload for _, payload in service.messages] == [b"before", b"beyond"]
    assert client.received == [b"before", b"beyond"]


def test_its_services_follow_and_send_nothing_to_clients() -> None:
    world, leader = started(service=Busy)
    client = world.client()
    service = Busy()
    standby = following(world, leader, service)
    world.send(client, [b"one", b"two"])
    world.until(lambda: standby.has_read(leader) and len(service.sent) == 2)
    assert service.roles == []
    assert standby.containers[0].view.role is ClusterRole.FOLLOWER
    assert standby.containers[0].view.member_id == -1
    assert not any(session.is_connected for session in standby.containers[0].view.sessions.values())


def test_it_takes_the_snapshot_that_members_leave_to_it_and_tells_them() -> None:
    world, leader = started(3)
    client = world.client()
    world.echo(client, [b"before"])
    standby = following(world, leader)
    position = take(world, leader, standby, ControlToggle.STANDBY_SNAPSHOT)
    for member in world.members.values():
        entries = member.module.recording_log
        world.until(lambda entries=entries: len(entries.latest_standby_snapshots(1)) == 1)  # type: ignore[misc]
        found = entries.latest_standby_snapshots(1)["s0:5"]
        assert {entry.log_position for entry in found} == {position}
        assert [entry.recording_id for entry in found] == [
            entry.recording_id for entry in reversed(standby.recording_log.latest_snapshot_set())
        ]
        assert not [entry for entry in entries.entries if entry.type is EntryType.SNAPSHOT]
    world.echo(client, [b"beyond"])
    world.until(lambda: standby.has_read(leader) and not standby.notices.is_busy)
    assert standby.errors.texts == []
    waited = [
        member.id
        for member in world.members.values()
        for move in member.trace.named("module_state")
        if move["new"] == ModuleState.SNAPSHOT.name
    ]
    assert waited == []
    moves = [move["new"] for move in standby.trace.named("module_state")]
    assert moves == ["ACTIVE", "SNAPSHOT", "ACTIVE"]


def test_its_snapshot_is_the_one_that_members_take() -> None:
    """Byte for byte: sessions, timers, numbers of messages and the state of the service."""
    world, leader = started(service=Busy)
    clients = [world.client(), world.client()]
    for client in clients:
        world.send(client, [b"%d" % number for number in range(5)])
    standby = following(world, leader, Busy())
    position = take(world, leader, standby, ControlToggle.SNAPSHOT)
    recording_log = leader.module.recording_log
    world.until(lambda: local_snapshots(recording_log) == [position])
    own = snapshot_messages(standby.storage, standby.recording_log)
    assert sorted(own) == [-1, 0]
    assert len(own[-1]) > 10
    assert own == snapshot_messages(world.storages[0], recording_log)
    assert standby.errors.texts == []


def test_a_snapshot_that_members_take_is_not_told_to_them() -> None:
    world, leader = started()
    standby = following(world, leader)
    take(world, leader, standby, ControlToggle.SNAPSHOT)
    world.advance(3000)
    assert not standby.notices.is_busy
    assert leader.module.recording_log.latest_standby_snapshots(1) == {}


def test_it_goes_on_where_the_copy_was_interrupted() -> None:
    world, leader = started(service=Busy)
    client = world.client()
    service = Busy()
    standby = following(world, leader, service)
    for number in range(3):
        standby.pause()
        world.send(client, [b"%d" % number])
        world.until(lambda number=number: len(leader.service.messages) == 2 * number + 2)  # type: ignore[misc]
        assert not standby.has_read(leader)
        standby.follow(leader)
        world.until(lambda: standby.has_read(leader))
    assert service.messages == leader.service.messages
    assert len(service.messages) == 6
    assert standby.ended is None
    assert standby.errors.texts == []


@pytest.mark.parametrize("order", [None, ControlToggle.STANDBY_SNAPSHOT, ControlToggle.SNAPSHOT])
def test_a_killed_one_starts_from_what_it_has_before_it_hears_of_the_cluster(order: ControlToggle | None) -> None:
    world, leader = started(service=Busy)
    client = world.client()
    world.send(client, [b"before"])
    standby = following(world, leader, Busy())
    if order is not None:
        take(world, leader, standby, order)
    world.send(client, [b"beyond"])
    world.until(lambda: len(leader.service.messages) == 4 and standby.has_read(leader))
    storage = standby.kill()
    service = Busy()
    again = Standby(world, [service], storage=storage)
    world.until(lambda: again.is_active and again.has_read(leader))
    assert service.started_with == (0 if order is None else 2)
    assert service.messages == leader.service.messages
    world.send(client, [b"later"])
    world.until(lambda: len(leader.service.messages) == 6)
    again.follow(leader)
    world.until(lambda: again.has_read(leader))
    assert service.messages == leader.service.messages


def test_a_snapshot_of_a_later_term_has_the_base_of_that_term() -> None:
    """Also while the recording log does not have the term, as with a copy that begins in an earlier one."""
    world, leader = started(3, Busy)
    client = world.client()
    world.send(client, [b"before"])
    follower = next(member for member in world.members.values() if member.is_follower)
    standby = Standby(world, [Busy()])
    standby.follow(follower)
    world.until(lambda: standby.has_read(follower) and len(standby.services[0].messages) == 2)
    world.kill(leader.id)
    new_leader = world.await_leader()
    standby.pause()
    standby.follow(new_leader)
    world.until(lambda: standby.module.leadership_term_id == new_leader.module.leadership_term_id)
    assert standby.module.leader_member_id == new_leader.id
    assert standby.recording_log.is_unknown(standby.module.leadership_term_id)
    position = take(world, new_leader, standby, ControlToggle.STANDBY_SNAPSHOT)
    world.until(lambda: len(new_leader.module.recording_log.latest_standby_snapshots(1)) == 1)
    (found,) = new_leader.module.recording_log.latest_standby_snapshots(1).values()
    term = new_leader.module.recording_log.get_term_entry(new_leader.module.leadership_term_id)
    assert {(entry.log_position, entry.term_base_log_position) for entry in found} == {
        (position, term.term_base_log_position)
    }


def test_a_suspended_log_is_followed_through_its_resumption() -> None:
    world, leader = started()
    standby = following(world, leader)
    toggle(leader, ControlToggle.SUSPEND)
    world.until(lambda: standby.module.state is ModuleState.SUSPENDED)
    found = leader.counters.find(CONTROL_TOGGLE, cluster_key(0))
    assert found is not None
    found.set(ControlToggle.RESUME)
    world.until(lambda: standby.module.state is ModuleState.ACTIVE)
    assert standby.has_read(leader)


def test_a_service_that_fails_a_snapshot_costs_that_snapshot_only() -> None:
    class Failing(Busy):
        def on_take_snapshot(self, publication: SnapshotPublication) -> None:
            raise ValueError("not now")

    world, leader = started(service=Busy)
    client = world.client()
    service = Failing()
    standby = following(world, leader, service)
    toggle(leader, ControlToggle.STANDBY_SNAPSHOT)
    world.until(lambda: any("failed to take snapshot" in text for text in standby.errors.texts))
    world.send(client, [b"beyond"])
    world.until(lambda: len(service.messages) == 2 and standby.has_read(leader))
    assert local_snapshots(standby.recording_log) == []
    assert not standby.notices.is_busy


def test_without_a_log_it_waits_and_without_its_archive_it_ends() -> None:
    world = ClusterWorld(1, services=lambda: [KeepingService()])
    standby = Standby(world, [KeepingService()])
    world.advance(5000)
    assert standby.ended is None
    assert standby.module.state is ModuleState.INIT
    standby.archive.close()
    standby.agents.remove(standby.archive)
    world.until(lambda: standby.ended is not None)
    assert isinstance(standby.ended, TerminationError)
    assert "archive is not connected" in str(standby.ended)
    assert standby.module.state is ModuleState.CLOSED


def test_its_end_is_told_to_its_services() -> None:
    class Ending(KeepingService):
        terminated = 0

        def on_terminate(self, cluster: Cluster) -> None:
            self.terminated += 1

    world, leader = started()
    service = Ending()
    standby = following(world, leader, service)
    standby.module.close()
    world.until(lambda: standby.ended is not None)
    assert isinstance(standby.ended, TerminationError)
    assert standby.ended.expected
    assert service.terminated == 1
    standby.module.close()
    assert standby.module.do_work(world.now) == 0


@pytest.mark.parametrize(("service_id", "lost"), [(-1, 96), (0, 64)])
def test_a_damaged_snapshot_is_passed_over_and_taken_again(service_id: int, lost: int) -> None:
    world, leader = started(service=Busy)
    client = world.client()
    world.send(client, [b"one"])
    standby = following(world, leader, Busy())
    first = take(world, leader, standby, ControlToggle.STANDBY_SNAPSHOT)
    world.send(client, [b"two"])
    second = take(world, leader, standby, ControlToggle.STANDBY_SNAPSHOT)
    world.until(lambda: standby.has_read(leader) and not standby.notices.is_busy)
    (damaged,) = (
        entry
        for entry in standby.recording_log.entries
        if (entry.log_position, entry.service_id) == (second, service_id)
    )
    standby.truncate(damaged.recording_id, damaged.recorded_length - lost)
    storage = standby.kill()
    service = Busy()
    again = Standby(world, [service], storage=storage)
    world.until(lambda: again.is_active and again.has_read(leader))
    assert service.started_with == 2
    assert service.messages == leader.service.messages
    assert any(f"snapshot at {second} is not used" in text for text in again.errors.texts)
    assert local_snapshots(again.recording_log) == [first, second]
    assert damaged.recording_id not in {e.recording_id for e in again.recording_log.entries if e.log_position == second}


def test_a_copy_that_begins_later_needs_a_snapshot() -> None:
    world, leader = started()
    world.echo(world.client(), [b"x"] * 3)
    begin = leader.module.commit_position
    standby = Standby(world, [KeepingService()])
    standby.follow(leader, term_base=0, begin=begin)
    world.echo(world.clients[0], [b"y"])
    world.until(lambda: standby.ended is not None)
    assert f"the log begins at {begin}, and there is no snapshot to begin with" in str(standby.ended)


def test_a_log_of_another_application_version_ends_it() -> None:
    world, leader = started()
    world.settings = replace(world.settings, cluster=replace(world.settings.cluster, app_version=2 << 16))
    standby = Standby(world, [KeepingService()])
    standby.follow(leader)
    world.until(lambda: standby.ended is not None)
    assert "incompatible app version" in str(standby.ended) or "cannot follow a log" in str(standby.ended)
    assert not standby.is_active


def test_a_snapshot_that_the_backup_agent_named_meanwhile_stays_and_the_own_one_goes() -> None:
    """The agent may copy the members' snapshot of a place to which this module comes only later."""
    world, leader = started(service=Busy)
    world.send(world.client(), [b"one"])
    standby = following(world, leader, Busy())
    position = take(world, leader, standby, ControlToggle.SNAPSHOT)
    known = standby.recording_log.latest_snapshot_set()
    toggle(leader, ControlToggle.STANDBY_SNAPSHOT)
    world.until(lambda: standby.module.is_taking_snapshot)
    request = standby.module._snapshots.position
    # That one, and one of the members that is later still.
    for place in (request, request + 64):
        for entry in reversed(known):
            term, base = entry.leadership_term_id, entry.term_base_log_position
            standby.recording_log.append_snapshot(entry.recording_id, term, base, place, 1, entry.service_id)
    world.until(lambda: standby.module.state is ModuleState.ACTIVE)
    world.until(lambda: not standby.notices.is_busy)
    assert local_snapshots(standby.recording_log) == [position, request, request + 64]
    assert {e.recording_id for e in standby.recording_log.entries if e.log_position == request} == {
        entry.recording_id for entry in known
    }
    (told,) = leader.module.recording_log.latest_standby_snapshots(1).values()
    assert {entry.log_position for entry in told} == {request}
    world.advance(100)
    kept = {each.recording_id for each in read_recordings(standby.storage)}
    assert kept == {0, *(entry.recording_id for entry in known)}
