"""Two transports that feed one image: a replay and the live stream."""

from support.media_world import World, collect, offer
from upheaval_node.media.driver import MediaDriver

TERM = 64 * 1024
CHANNEL = "aeron:tcp?endpoint=b:1"


def pair(world: World) -> tuple[MediaDriver, MediaDriver]:
    return world.driver(), world.driver()


def numbered(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def position_channel(image_of: str, position: int, session_id: int) -> str:
    term_id, term_offset = divmod(position, TERM)
    return f"{image_of}|session-id={session_id}|init-term-id=0|term-id={term_id}|term-offset={term_offset}"


def test_a_replay_merges_with_the_live_stream_and_overlap_is_dropped() -> None:
    world = World()
    live_host, replay_host, receiver = world.driver(), world.driver(), world.driver()
    messages = numbered(range(200))
    live = live_host.add_publication(
        "aeron:tcp?control-mode=manual|session-id=4711|init-term-id=0|term-id=0|term-offset=0", 10
    )
    spy = live_host.add_subscription("aeron-spy:aeron:ipc", 10)
    world.settle()
    offer(world, live, *messages[:100])
    collect(spy)
    subscription = receiver.add_subscription("aeron:tcp?control-mode=manual", 10)
    subscription.add_destination("aeron:tcp?endpoint=replay:1")
    replay = replay_host.add_publication(position_channel("aeron:tcp?endpoint=replay:1", 0, 4711), 10)
    world.advance(100)
    offer(world, replay, *messages[:50])
    world.settle()
    (image,) = subscription.images
    assert image.join_position == 0
    assert image.active_transport_count == 1
    subscription.add_destination("aeron:tcp?endpoint=live:1")
    live.add_destination("aeron:tcp?endpoint=live:1")
    world.advance(200)
    assert image.active_transport_count == 2
    received = collect(subscription)
    offer(world, replay, *messages[50:120])
    offer(world, live, *messages[100:150])
    world.settle()
    received += collect(subscription)
    assert received == messages[:150]
    subscription.remove_destination("aeron:tcp?endpoint=replay:1")
    world.settle()
    assert image.active_transport_count == 1
    assert not replay.is_connected
    offer(world, live, *messages[150:])
    world.settle()
    received += collect(subscription)
    assert received == messages
    assert subscription.images == [image]


def test_a_live_stream_that_is_ahead_waits_until_the_replay_has_filled_the_gap() -> None:
    world = World()
    live_host = world.driver(retention_length=4096)
    replay_host, receiver = world.driver(), world.driver()
    messages = [b"%d" % number * 200 for number in range(200)]
    live = live_host.add_publication(
        "aeron:tcp?control-mode=manual|session-id=4711|init-term-id=0|term-id=0|term-offset=0", 10
    )
    spy = live_host.add_subscription("aeron-spy:aeron:ipc", 10)
    world.settle()
    for message in messages[:100]:
        offer(world, live, message)
        collect(spy)
        world.settle()
    subscription = receiver.add_subscription("aeron:tcp?control-mode=manual", 10)
    subscription.add_destination("aeron:tcp?endpoint=replay:1")
    replay = replay_host.add_publication(position_channel("aeron:tcp?endpoint=replay:1", 0, 4711), 10)
    world.advance(100)
    subscription.add_destination("aeron:tcp?endpoint=live:1")
    live.add_destination("aeron:tcp?endpoint=live:1")
    world.advance(200)
    (image,) = subscription.images
    assert image.active_transport_count == 1
    received: list[bytes] = []
    for message in messages[:100]:
        while replay.offer(message) < 0:
            world.advance(100)
            received += collect(subscription)
    world.advance(300)
    received += collect(subscription)
    assert image.active_transport_count == 2
    offer(world, live, *messages[100:110])
    world.advance(100)
    received += collect(subscription)
    assert received == messages[:110]


def test_a_gap_that_nobody_can_fill_ends_the_image() -> None:
    world = World()
    a = world.driver(retention_length=4096)
    b = world.driver()
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication("aeron:tcp?control-mode=manual", 10)
    spy = a.add_subscription("aeron-spy:aeron:ipc", 10)
    publication.add_destination(CHANNEL)
    world.settle()
    (image,) = subscription.images
    world.network.refused.add("b:1")
    world.network.cut()
    for _ in range(50):
        offer(world, publication, bytes(1000))
        collect(spy)
        world.settle()
    world.network.refused.clear()
    world.advance(300)
    assert image.is_closed
    assert image.position == 0
    (fresh,) = subscription.images
    assert fresh.join_position == publication.position
