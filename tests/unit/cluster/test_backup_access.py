"""What a host outside of the cluster gets from the archive of a member: its committed log, and its snapshots."""

from support.asking_party import ArchivedParty
from unit.cluster.test_backup_requests import started
from unit.cluster.test_snapshots import snapshots, take_snapshot
from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.reader import read_recordings
from upheaval_node.counters import RECORDING_POSITION, Counter
from upheaval_node.protocol import cluster_messages as cm

LOG_CHANNEL = "aeron:tcp?endpoint=vault:4|session-id=77"


def follow_log(backup: ArchivedParty, member_id: int) -> tuple[cm.BackupResponse, PendingCall]:
    """Record the log of a member from its start on, never beyond what it knows to be committed."""
    member = backup.world.members[member_id]
    response = backup.ask(member, backup.query())
    assert isinstance(response, cm.BackupResponse)
    backup.call(backup.client.start_recording(LOG_CHANNEL, 100, local=False, auto_stop=True))
    remote = backup.remote_archive(member)
    call = remote.bounded_replay(
        response.log_recording_id, -1, -1, LOG_CHANNEL, 100, response.commit_position_counter_id
    )
    backup.call(call)
    return response, call


def copied(backup: ArchivedParty) -> Counter:
    """How far the copy of the log is recorded."""
    backup.world.until(lambda: backup.counters.find(RECORDING_POSITION) is not None)
    found = backup.counters.find(RECORDING_POSITION)
    assert found is not None
    return found


def test_a_backup_records_the_log_as_far_as_it_is_committed_and_no_further() -> None:
    world, leader, _ = started()
    backup = ArchivedParty(world, "vault")
    client = world.client()
    world.echo(client, [b"a" * 100] * 20)
    follow_log(backup, leader.id)
    counter = copied(backup)
    world.until(lambda: counter.get() == leader.module.commit_position)
    world.echo(client, [b"b" * 100] * 20)
    world.until(lambda: counter.get() == leader.module.commit_position)
    committed = leader.module.commit_position
    for follower in world.followers():
        world.paused.add(follower.id)
    world.send(client, [b"c" * 100] * 20)
    world.advance(200)
    publisher = leader.module._log.leader_log.publisher
    assert publisher is not None
    assert publisher.position > committed
    assert leader.module.commit_position == committed
    assert counter.get() == committed
    world.paused.clear()
    world.until(lambda: leader.module.commit_position > committed and counter.get() == leader.module.commit_position)


def test_a_follower_serves_a_backup_too() -> None:
    world, _, _ = started()
    backup = ArchivedParty(world, "vault")
    world.echo(world.client(), [b"a" * 100] * 20)
    follower = world.followers()[0]
    follow_log(backup, follower.id)
    counter = copied(backup)
    world.echo(world.client(), [b"b" * 100] * 20)
    world.until(lambda: counter.get() == world.await_leader().module.commit_position)
    ours = next(iter(read_recordings(backup.storage)))
    theirs = next(
        each for each in read_recordings(follower.storage) if each.recording_id == follower.module._log.recording_id
    )
    own = [bytes(message.payload) for message in ours.messages()]
    assert len(own) > 40
    assert own == [bytes(message.payload) for message in theirs.messages()][: len(own)]


def test_snapshots_are_copied_to_another_host() -> None:
    world, leader, _ = started()
    backup = ArchivedParty(world, "vault")
    world.echo(world.client(), [b"a", b"b"])
    take_snapshot(world)
    entries = snapshots(leader)
    recordings = backup.fetch(leader, entries)
    assert set(recordings) == {entry.recording_id for entry in entries}
    for remote_id, local_id in recordings.items():
        [ours] = [each for each in read_recordings(backup.storage) if each.recording_id == local_id]
        [theirs] = [each for each in read_recordings(leader.storage) if each.recording_id == remote_id]
        assert [bytes(m.payload) for m in ours.messages()] == [bytes(m.payload) for m in theirs.messages()]
        assert ours.problem is None
