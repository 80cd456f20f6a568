"""What a block costs, and what a stalled reader costs: calls and bytes."""

import struct
import sys
from random import Random
from types import FrameType

import pytest

from support.media_world import World, collect
from upheaval_node.media.api import BACK_PRESSURED, Image, Publication
from upheaval_node.media.client import MediaClient
from upheaval_node.settings import KIB, MIB, MediaSettings

SETTINGS = MediaSettings()
CHANNEL = "aeron:tcp?endpoint=b:1"
FRAME = struct.pack("<iBBHiiiiq", 96, 0, 0xC0, 1, 0, 0, 0, 0, 0) + bytes(64)


class CallCounter:
    """Counts calls made by functions of the media package while it is active."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "CallCounter":
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "c_call") and "/upheaval_node/media/" in frame.f_code.co_filename:
            self.count += 1


def tcp_pair(world: World) -> tuple[Publication, Image]:
    sender, receiver = world.driver(), world.driver()
    subscription = receiver.add_subscription(CHANNEL, 10)
    publication = sender.add_publication(CHANNEL, 10)
    world.settle()
    return publication, subscription.images[0]


@pytest.mark.pure
def test_ten_thousand_messages_take_less_than_two_thousand_calls() -> None:
    world = World(capacity=MIB, settings=SETTINGS)
    publication, image = tcp_pair(world)
    runs = [bytearray(FRAME * 1000) for _ in range(10)]
    counter = CallCounter()
    frames = 0
    with counter:
        for run in runs:
            assert publication.offer_frames(run, 1000) > 0
            world.turn()
            while (block := image.next_block()) is not None:
                frames += len(block.data)
                image.consume(block.end)
        world.settle()
        while (block := image.next_block()) is not None:
            frames += len(block.data)
            image.consume(block.end)
    assert frames == 10_000 * len(FRAME)
    assert 0 < counter.count < 2000


@pytest.mark.pure
def test_a_poll_costs_few_calls_a_message() -> None:
    world = World(settings=SETTINGS)
    driver = world.driver()
    publication = driver.add_publication("aeron:ipc", 10)
    subscription = driver.add_subscription("aeron:ipc", 10)
    world.settle()
    counter = CallCounter()
    with counter:
        for _ in range(1000):
            publication.offer(b"x" * 64)
        offered, counter.count = counter.count, 0
        subscription.poll(lambda message: None, 1000)
    assert 0 < offered < 10_000
    assert 0 < counter.count < 3_000


def flood(world: World, publication: Publication, payload: bytes) -> int:
    """A virtual minute of an eager publisher; how many of its messages were taken."""
    taken = 0
    for _ in range(60):
        for _ in range(2000):
            result = publication.offer(payload)
            if result == BACK_PRESSURED:
                break
            taken += 1
            if taken % 64 == 0:
                world.turn()
        world.settle()
        world.ns += 1_000_000_000
        world.settle()
    assert publication.offer(payload) == BACK_PRESSURED
    return taken


@pytest.mark.parametrize("medium", ["ipc", "tcp", "unix"])
@pytest.mark.parametrize("size", [0, 64, 3000])
def test_a_stalled_reader_costs_a_bounded_number_of_bytes(medium: str, size: int) -> None:
    window = 256 * KIB
    settings = MediaSettings(receiver_window_length=window, heartbeat_interval_ns=100_000_000)
    world = World(settings=settings)
    if medium == "tcp":
        publication, image = tcp_pair(world)
    elif medium == "ipc":
        driver = world.driver()
        publication = driver.add_publication("aeron:ipc", 10)
        subscription = driver.add_subscription("aeron:ipc", 10)
        world.settle()
        image = subscription.images[0]
    else:
        world.driver().serve_clients("unix:/m")
        clients = [MediaClient(world.network, "unix:/m", settings, Random(seed)) for seed in (1, 2)]
        world.agents += clients
        publication = clients[0].add_publication("aeron:ipc", 10)
        split = clients[1].add_subscription("aeron:ipc", 10)
        world.settle()
        image = split.images[0]
    hops = {"ipc": 1, "tcp": 1, "unix": 3}[medium]
    taken = flood(world, publication, bytes(size))
    assert publication.position < hops * (window + 64 * KIB + 8 * KIB)
    assert image.received_position - image.position <= window + 72 * KIB
    received = len(collect(image))
    while image.position < publication.position:
        world.advance(400, 200)
        received += len(collect(image))
    assert received == taken
    world.advance(400, 200)
    assert publication.offer(bytes(size)) > 0
