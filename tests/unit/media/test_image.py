"""Polling and taking blocks: limits, aborts, breaks, ends."""

import pytest

from support.media_world import World, collect, drain_blocks, offer
from upheaval_node.media.api import Abort, Break, Image, Message, Publication, Subscription

TERM = 64 * 1024


def ipc() -> tuple[World, Publication, Subscription, Image]:
    world = World()
    driver = world.driver()
    publication = driver.add_publication("aeron:ipc", 10)
    subscription = driver.add_subscription("aeron:ipc", 10)
    world.settle()
    return world, publication, subscription, subscription.images[0]


def test_a_poll_delivers_at_most_the_fragments_asked_for() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, *(b"%d" % index for index in range(10)))
    assert collect(image, 3) == [b"0", b"1", b"2"]
    assert image.position == 3 * 64
    assert collect(image, 100) == [b"%d" % index for index in range(3, 10)]
    assert image.poll(lambda message: None, 1) == 0


def test_a_poll_stops_at_the_limit_position() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"0", b"1", b"2")
    seen: list[int] = []
    assert image.poll(lambda m: seen.append(m.position), 10, 127) == 1
    assert image.poll(lambda m: seen.append(m.position), 10, 128) == 1
    assert image.poll(lambda m: seen.append(m.position), 10) == 1
    assert seen == [64, 128, 192]


@pytest.mark.parametrize("size", [5, 5000])
def test_an_aborted_message_comes_again(size: int) -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"before", b"x" * size, b"after")
    attempts: list[bytes] = []

    def handler(message: Message) -> None:
        attempts.append(bytes(message.payload))
        if len(message.payload) == size and attempts.count(b"x" * size) < 3:
            raise Abort

    for _ in range(3):
        image.poll(handler, 10)
    assert attempts == [b"before", *[b"x" * size] * 3, b"after"]
    assert image.position == publication.position


def test_a_poll_that_takes_nothing_gives_the_driver_nothing_to_do() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"not yet")
    world.settle()

    def handler(message: Message) -> None:
        raise Abort

    assert image.poll(handler, 10) == 0
    assert world.turn() == 0
    assert image.poll(handler, 10, limit_position=32) == 0
    assert world.turn() == 0


@pytest.mark.parametrize("size", [5, 5000])
def test_a_break_ends_the_poll_after_its_message(size: int) -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"x" * size, b"after")

    def handler(message: Message) -> None:
        raise Break

    assert image.poll(handler, 10) > 0
    assert collect(image) == [b"after"]


def test_an_exception_of_a_handler_leaves_the_position_after_its_message() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"bad", b"good")

    def handler(message: Message) -> None:
        raise KeyError("handler")

    with pytest.raises(KeyError):
        image.poll(handler, 10)
    assert image.position == 64
    assert collect(image) == [b"good"]


def test_a_handler_may_close_its_subscription() -> None:
    world, publication, subscription, image = ipc()
    offer(world, publication, b"0", b"1")
    assert image.poll(lambda message: subscription.close(), 1) == 1
    assert image.is_closed
    assert image.position == 64
    world.settle()
    assert not publication.is_connected


def test_blocks_are_cut_at_frames_by_limit_and_length() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, *[b"x" * 64] * 10)
    block = image.next_block(max_length=200)
    assert block is not None
    assert (block.start, block.end, len(block.data)) == (0, 192, 192)
    image.consume(block.end)
    block = image.next_block(limit_position=192 + 97)
    assert block is not None
    assert (block.start, block.end) == (192, 288)
    assert image.next_block(limit_position=192 + 95) is None
    block = image.next_block(max_length=1)
    assert block is not None
    assert (block.start, block.end) == (192, 288)
    image.consume(288)
    assert drain_blocks(image)[-1].end == publication.position


def test_a_block_that_ends_with_padding_counts_all_of_it() -> None:
    world, publication, _, image = ipc()
    for _ in range(7):
        offer(world, publication, bytes(8000))
        drain_blocks(image)
    offer(world, publication, bytes(1000))
    before = publication.position
    offer(world, publication, bytes(8000))
    block = image.next_block()
    assert block is not None
    assert (block.start, block.end) == (before - 1056, TERM)
    assert len(block.data) == 1056 + 32
    assert image.next_block(limit_position=TERM - 32) is not None
    assert image.next_block(limit_position=TERM - 32).end == before  # type: ignore[union-attr]
    image.consume(TERM)
    assert drain_blocks(image)[-1].end == publication.position


def test_consuming_what_was_not_received_is_the_callers_error() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"x")
    with pytest.raises(ValueError, match="consume"):
        image.consume(128)


def test_end_of_stream_shows_once_everything_is_consumed() -> None:
    world, publication, subscription, image = ipc()
    offer(world, publication, b"last")
    publication.close()
    world.settle()
    assert image.end_of_stream_position == 64
    shown = [image.is_end_of_stream]
    assert collect(image) == [b"last"]
    shown.append(image.is_end_of_stream)
    assert shown == [False, True]
    assert subscription.images == [image]
    world.settle()
    assert image.is_closed
    assert image.is_end_of_stream
    assert image.position == image.received_position == image.end_of_stream_position == 64
    assert subscription.images == []


def test_without_eos_an_image_closes_but_is_not_end_of_stream() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"last")
    publication.close(eos=False)
    assert collect(image) == [b"last"]
    world.settle()
    assert image.is_closed
    assert not image.is_end_of_stream
    assert image.end_of_stream_position is None


def test_every_subscriber_hears_of_its_images() -> None:
    world = World()
    driver = world.driver()
    events: list[tuple[str, int]] = []
    driver.add_subscription(
        "aeron:ipc",
        10,
        on_available=lambda image: events.append(("available", image.session_id)),
        on_unavailable=lambda image: events.append(("unavailable", image.session_id)),
    )
    first = driver.add_publication("aeron:ipc", 10, session_id=5001)
    driver.add_publication("aeron:ipc", 11, session_id=5002)
    driver.add_publication("aeron:ipc", 10, session_id=5003)
    assert events == []
    world.settle()
    first.close()
    world.settle()
    assert events == [("available", 5001), ("available", 5003), ("unavailable", 5001)]


def test_a_session_filter_lets_only_its_session_through() -> None:
    world = World()
    driver = world.driver()
    subscription = driver.add_subscription("aeron:ipc?session-id=5003", 10)
    driver.add_publication("aeron:ipc", 10, session_id=5001)
    driver.add_publication("aeron:ipc", 10, session_id=5003)
    world.settle()
    assert [image.session_id for image in subscription.images] == [5003]
    assert subscription.image(5001) is None
    assert subscription.image(5003) is subscription.images[0]


def test_a_rejected_image_does_not_come_back() -> None:
    world, publication, subscription, image = ipc()
    image.reject("test")
    world.settle()
    assert image.is_closed
    assert subscription.images == []
    assert not publication.is_connected


def test_a_subscription_polls_its_images_in_turn() -> None:
    world = World()
    driver = world.driver()
    subscription = driver.add_subscription("aeron:ipc", 10)
    publications = [driver.add_publication("aeron:ipc", 10) for _ in range(3)]
    world.settle()
    for index, publication in enumerate(publications):
        offer(world, publication, *[b"%d" % index] * 10)
    first = collect(subscription, 10) + collect(subscription, 10) + collect(subscription, 10)
    assert sorted(set(first)) == [b"0", b"1", b"2"]
    assert len(first) == 30


def test_late_subscribers_join_at_the_slowest_present_one() -> None:
    world, publication, _, image = ipc()
    offer(world, publication, b"0", b"1")
    world.settle()
    assert collect(image, 1) == [b"0"]
    late = world.agents[0].add_subscription("aeron:ipc", 10)  # type: ignore[attr-defined]
    world.settle()
    assert late.images[0].join_position == 64
    assert collect(late) == [b"1"]
