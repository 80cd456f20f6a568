"""Messages as a recording of their own, written from a process that learns later than others what the driver did."""

from random import Random

import pytest

from support.archive_world import ArchiveWorld, Member
from support.media_world import SETTINGS
from support.memory_network import MemoryConnection
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.whole_recordings import WholeRecording, read_recording, write_recording
from upheaval_node.errors import PeerError
from upheaval_node.media.client import MediaClient
from upheaval_node.steps import Steps
from upheaval_node.types import Now

SOCKET = "unix:/member/media.sock"
CHANNEL = "aeron:ipc?term-length=64k"
STREAM = 106
MESSAGES = [b"%d" % number * 100 for number in range(50)]


class Writer:
    """A process beside the driver's that records messages; it shares the driver's counters."""

    def __init__(self, world: ArchiveWorld, member: Member) -> None:
        self.world = world
        member.driver.serve_clients(SOCKET)
        self.media = MediaClient(world.network, SOCKET, SETTINGS, Random(5))
        self.archive = ArchiveClient(self.media, name="writer")
        world.agents += [self.media, self.archive]
        world.until(lambda: self.archive.is_connected)
        self._known = set(map(id, world.network.connections))
        steps = write_recording(self.media, member.counters, self.archive, CHANNEL, STREAM, MESSAGES)
        self.steps: Steps[WholeRecording] = Steps(steps)
        world.agents.append(self)

    def do_work(self, now: Now) -> int:
        if not self.steps.is_done:
            self.steps.poll(now)
        return 0

    def to_publication(self) -> MemoryConnection:
        """The driver's end of the connection that carries the publication."""
        new: list[MemoryConnection] = []
        while not new:
            self.world.turn()
            new = [end for end in self.world.network.connections if id(end) not in self._known and end.peer != SOCKET]
        return new[0]


@pytest.mark.pure
def test_a_recorder_that_is_seen_before_the_publication_is_connected_is_waited_for() -> None:
    world = ArchiveWorld()
    member = world.member()
    writer = Writer(world, member)
    told = writer.to_publication()
    told.is_stalled = True
    world.until(lambda: member.counter(0) is not None)
    world.advance(100)
    assert not writer.steps.is_done
    told.is_stalled = False
    world.until(lambda: writer.steps.is_done)
    written = writer.steps.result
    read = Steps(read_recording(member.driver, member.client, written.recording_id, 103))
    world.until(lambda: read.poll(world.now))
    assert read.result == (MESSAGES, written.length)


def test_a_recorder_that_goes_before_the_publication_is_connected_is_an_error() -> None:
    world = ArchiveWorld()
    member = world.member()
    writer = Writer(world, member)
    told = writer.to_publication()
    told.is_stalled = True
    world.until(lambda: member.counter(0) is not None)
    world.agents.remove(writer)
    world.advance(20)
    writer.do_work(world.now)
    world.call(member.client.stop_recording_by_identity(0))
    world.until(lambda: member.counter(0) is None)
    with pytest.raises(PeerError, match="ended before its stream began"):
        writer.do_work(world.now)
