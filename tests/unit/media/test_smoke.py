from support.media_world import World, collect, offer


def test_ipc_delivers_what_was_offered() -> None:
    world = World()
    driver = world.driver()
    publication = driver.add_publication("aeron:ipc", 10)
    assert publication.offer(b"x") == -1
    subscription = driver.add_subscription("aeron:ipc", 10)
    world.settle()
    offer(world, publication, b"one", b"two" * 1000)
    assert collect(subscription) == [b"one", b"two" * 1000]


def test_tcp_delivers_what_was_offered() -> None:
    world = World()
    sender, receiver = world.driver(), world.driver()
    subscription = receiver.add_subscription("aeron:tcp?endpoint=b:1", 10)
    publication = sender.add_publication("aeron:tcp?endpoint=b:1", 10)
    world.settle()
    assert publication.is_connected
    offer(world, publication, b"one", b"two" * 1000)
    world.settle()
    assert collect(subscription) == [b"one", b"two" * 1000]
    publication.close()
    world.advance(200)
    assert subscription.images == []
    assert world.errors.texts == []
