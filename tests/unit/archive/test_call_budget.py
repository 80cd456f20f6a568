"""The data plane moves blocks: what it costs does not grow with the number of messages."""

import sys
from types import FrameType

import pytest

from support.archive_world import ArchiveWorld, Member, stream_session
from upheaval_node.media.api import Publication
from upheaval_node.settings import MIB, ArchiveSettings

COUNT = 10_000
PAYLOAD = b"p" * 32
MAX_CALLS = 400


class ArchiveCalls:
    """Counts calls made by or into archive modules, of Python functions and of built-ins."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call") and "/archive/" in frame.f_code.co_filename:
            self.count += 1


def recorded_stream(world: ArchiveWorld) -> tuple[Member, Publication]:
    """A publication for 64-byte frames with an archive that records it; one term holds the whole burst."""
    member = world.member(settings=ArchiveSettings(segment_length=MIB))
    publication = member.driver.add_publication("aeron:ipc?term-length=1m", 100)
    world.call(member.client.start_recording("aeron:ipc", 100))
    world.settle()
    return member, publication


@pytest.mark.pure
def test_recording_a_burst_costs_calls_by_the_block() -> None:
    world = ArchiveWorld()
    member, publication = recorded_stream(world)
    calls = ArchiveCalls()
    sent = 0
    while sent < COUNT:
        while sent < COUNT and publication.offer(PAYLOAD) > 0:
            sent += 1
        sys.setprofile(calls)
        world.settle()
        sys.setprofile(None)
    counter = member.counter(0)
    assert counter is not None
    assert counter.get() == publication.position == COUNT * 64
    assert 0 < calls.count < MAX_CALLS


@pytest.mark.pure
def test_replaying_a_burst_costs_calls_by_the_block() -> None:
    world = ArchiveWorld()
    member, publication = recorded_stream(world)
    sent = 0
    while sent < COUNT:
        while sent < COUNT and publication.offer(PAYLOAD) > 0:
            sent += 1
        world.settle()
    replay = world.call(member.client.replay(0, 0, -2, "aeron:ipc", 901))
    subscription = member.driver.add_subscription(f"aeron:ipc?session-id={stream_session(replay)}", 901)
    calls = ArchiveCalls()
    received = 0
    for _ in range(1000):
        sys.setprofile(calls)
        world.turn()
        sys.setprofile(None)
        received += subscription.poll(lambda message: None, COUNT)
        if received == COUNT:
            break
    assert received == COUNT
    assert 0 < calls.count < MAX_CALLS
