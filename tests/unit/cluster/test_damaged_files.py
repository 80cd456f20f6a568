"""Members on files that a power cut without syncs left."""

from support.cluster_world import ClusterWorld
from upheaval_node.errors import TerminationError
from upheaval_node.files import layout
from upheaval_node.files.recording_log_entry import read_entries
from upheaval_node.types import MS


def served() -> ClusterWorld:
    """Three members with a log, all of them dead."""
    world = ClusterWorld(3)
    world.start_all()
    world.await_all()
    world.echo(world.client(), [b"%d" % number for number in range(50)])
    for member_id in list(world.members):
        world.kill(member_id)
    world.clients.clear()
    return world


def test_a_member_without_the_recording_of_its_log_says_so_and_the_others_go_on() -> None:
    world = served()
    storage = world.storages[0]
    for name in list(storage.names("archive")):
        storage.remove(f"archive/{name}")
    world.start_all()
    world.until(lambda: world.members[0].ended is not None)
    ended = world.members[0].ended
    assert isinstance(ended, TerminationError)
    assert str(ended) == (
        "cannot start from what is there: the recording log names recording 0, which the archive does not have"
    )
    assert not ended.expected
    world.members.pop(0).network.break_all(is_dead=True)
    client = world.client()
    world.echo(client, [b"more"])
    assert client.received == [b"more"]


def test_with_an_empty_folder_such_a_member_joins_again() -> None:
    world = served()
    world.start(1)
    world.start(2)
    world.await_leader()
    storage = world.storages[0]
    for folder in ("archive", "cluster"):
        for name in list(storage.names(folder)):
            storage.remove(f"{folder}/{name}")
    world.start(0)
    world.await_all()
    client = world.client()
    world.echo(client, [b"more"])
    world.until(lambda: len({tuple(member.service.messages) for member in world.members.values()}) == 1)
    assert len(world.members[0].service.messages) == 51


def test_a_recording_log_that_ends_in_zeros_is_used_up_to_them() -> None:
    world = served()
    storage = world.storages[0]
    content = storage.content(layout.RECORDING_LOG)
    storage.put(layout.RECORDING_LOG, content + bytes(256))
    world.start_all()
    world.await_all()
    assert world.members[0].ended is None
    before = [entry.leadership_term_id for entry in read_entries(content)[0]]
    entries, _, end = read_entries(storage.content(layout.RECORDING_LOG))
    terms = [entry.leadership_term_id for entry in entries]
    assert terms[: len(before)] == before
    assert len(terms) > len(before)
    assert end == len(storage.content(layout.RECORDING_LOG))


def test_a_member_does_not_wait_for_a_replay_that_the_archive_ended_before_the_services_joined_it() -> None:
    """As the archive does at a damaged frame, before it has sent anything."""
    world = ClusterWorld(1)
    world.start_all()
    world.await_all()
    world.echo(world.client(), [b"%d" % number for number in range(50)])
    world.kill(0)
    world.clients.clear()
    member = world.start(0)
    replayer = member.archive._replayer
    while replayer.active_count == 0:
        world.ns += MS * (world.turn() == 0)
    replayer.stop_all()
    world.until(lambda: any("log replay closed at" in str(error) for error in member.errors.texts))
    world.until(lambda: member.ended is not None)
    assert str(member.ended) == "the services did not join the log"
