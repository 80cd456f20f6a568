"""Media split over processes: a driver, clients on its socket, and what the death of either means."""

from collections.abc import Iterator
from itertools import repeat
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.media_world import SETTINGS, World, collect, drain_blocks, offer
from upheaval_node.errors import UsageError
from upheaval_node.media.api import BACK_PRESSURED, CLOSED, NOT_CONNECTED, Image
from upheaval_node.media.client import MediaClient
from upheaval_node.media.driver import MediaDriver
from upheaval_node.types import NEVER_NS

SOCKET = "unix:/member/media.sock"
CHANNEL = "aeron:tcp?endpoint=b:1"


class SplitWorld(World):
    """A world whose first driver serves clients."""

    def __init__(self, pieces: Iterator[int] | None = None, capacity: int = 256 * 1024) -> None:
        super().__init__(pieces, capacity)
        self.main = self.driver()
        self.main.serve_clients(SOCKET)

    def client(self) -> MediaClient:
        client = MediaClient(self.network, SOCKET, SETTINGS, Random(self.random.random()))
        self.agents.append(client)
        return client

    def kill(self, agent: MediaClient | MediaDriver) -> None:
        """The process is gone: its connections are reset and it does nothing any more."""
        self.agents.remove(agent)
        self.network.cut()


def test_two_clients_talk_over_ipc_through_the_driver() -> None:
    world = SplitWorld()
    left, right = world.client(), world.client()
    publication = left.add_publication("aeron:ipc", 104)
    assert publication.offer(b"x") == NOT_CONNECTED
    world.settle()
    assert publication.offer(b"x") == NOT_CONNECTED
    subscription = right.add_subscription("aeron:ipc", 104)
    local = world.main.add_subscription("aeron:ipc", 104)
    world.advance(200)
    assert publication.is_connected
    messages = [b"%d" % number * 100 for number in range(100)]
    offer(world, publication, *messages)
    world.settle()
    assert collect(subscription) == messages
    assert collect(local) == messages
    image = subscription.images[0]
    assert image.session_id == publication.session_id
    assert image.source_identity == "aeron:ipc"
    publication.close()
    world.advance(200)
    assert image.is_end_of_stream
    assert subscription.images == []
    assert local.images == []
    assert world.errors.texts == []


def test_the_loss_of_a_client_is_seen_at_once() -> None:
    world = SplitWorld()
    client = world.client()
    publication = world.main.add_publication("aeron:ipc", 104)
    client.add_subscription("aeron:ipc", 104)
    world.settle()
    assert publication.is_connected
    world.kill(client)
    world.settle()
    assert not publication.is_connected


def test_a_client_publishes_and_subscribes_to_other_hosts() -> None:
    world = SplitWorld()
    remote = world.driver()
    client = world.client()
    available: list[Image] = []
    requests = client.add_subscription("aeron:tcp?endpoint=main:1", 10, on_available=available.append)
    world.settle()
    assert requests.resolved_endpoint == "main:1"
    ingress = remote.add_publication("aeron:tcp?endpoint=main:1", 10)
    token = remote.next_correlation_id()
    response_channel = f"aeron:tcp?control-mode=response|response-correlation-id={token}"
    responses = remote.add_subscription(response_channel, 20)
    egress = client.add_publication(response_channel, 20)
    log = client.add_publication("aeron:tcp?control-mode=manual", 100)
    log.add_destination("aeron:tcp?endpoint=remote:1")
    follower = remote.add_subscription("aeron:tcp?endpoint=remote:1", 100)
    world.advance(300)
    offer(world, ingress, b"request")
    offer(world, egress, b"response")
    offer(world, log, b"entry")
    world.settle()
    assert collect(requests) == [b"request"]
    assert collect(responses) == [b"response"]
    assert collect(follower) == [b"entry"]
    assert [image.active_transport_count for image in available] == [1]
    assert available[0].source_identity.startswith("client:")


def test_back_pressure_reaches_through_the_driver_and_memory_is_bounded() -> None:
    world = SplitWorld()
    left, right = world.client(), world.client()
    publication = left.add_publication("aeron:ipc", 104)
    subscription = right.add_subscription("aeron:ipc", 104)
    world.settle()
    offered = 0
    for _ in range(2000):
        if publication.offer(bytes(1000)) > 0:
            offered += 1
        world.turn()
    assert publication.offer(bytes(1000)) == BACK_PRESSURED
    assert offered * 1056 < 6 * 64 * 1024
    received = 0
    while received < 3 * offered:
        received += len(collect(subscription))
        if publication.offer(bytes(1000)) > 0:
            offered += 1 if offered < 500 else 0
        world.turn()
        if received >= 500:
            break
    assert received >= 500


def test_a_client_that_dies_ends_its_publications_without_end_of_stream() -> None:
    world = SplitWorld()
    client = world.client()
    publication = client.add_publication("aeron:ipc", 104)
    ended: list[Image] = []
    subscription = world.main.add_subscription("aeron:ipc", 104, on_unavailable=ended.append)
    other = world.main.add_publication("aeron:ipc", 105)
    client.add_subscription("aeron:ipc", 105)
    world.settle()
    assert other.is_connected
    offer(world, publication, b"last")
    world.settle()
    world.kill(client)
    world.settle()
    assert ended == []
    assert collect(subscription) == [b"last"]
    world.settle()
    assert [image.is_end_of_stream for image in ended] == [False]
    assert not other.is_connected


def test_when_the_driver_dies_everything_of_the_client_closes() -> None:
    world = SplitWorld()
    client = world.client()
    publication = client.add_publication("aeron:ipc", 104)
    unavailable: list[Image] = []
    subscription = client.add_subscription("aeron:ipc", 104, on_unavailable=unavailable.append)
    world.settle()
    (image,) = subscription.images
    offer(world, publication, b"x")
    world.kill(world.main)
    world.settle()
    assert client.is_closed
    assert publication.is_closed
    assert publication.offer(b"x") == CLOSED
    assert subscription.is_closed
    assert image.is_closed
    assert not image.is_end_of_stream
    with pytest.raises(UsageError):
        client.add_publication("aeron:ipc", 104)
    assert client.do_work(world.now) == 0
    assert client.next_deadline_ns() == NEVER_NS


def test_an_orderly_end_of_the_driver_also_ends_the_client() -> None:
    world = SplitWorld()
    client = world.client()
    publication = client.add_publication("aeron:ipc", 104)
    world.settle()
    assert client.is_connected
    world.main.close()
    world.settle()
    assert client.is_closed
    assert publication.is_closed


def test_a_client_waits_for_a_driver_that_comes_later() -> None:
    world = World()
    client = MediaClient(world.network, SOCKET, SETTINGS, Random(1))
    world.agents.append(client)
    publication = client.add_publication("aeron:ipc", 104)
    subscription = client.add_subscription("aeron:ipc", 104)
    world.advance(500)
    assert not client.is_connected
    driver = world.driver()
    driver.serve_clients(SOCKET)
    world.advance(300)
    offer(world, publication, b"x")
    world.settle()
    assert collect(subscription) == [b"x"]


def test_what_only_the_driver_can_refuse_closes_the_publication_with_an_error() -> None:
    world = SplitWorld()
    client = world.client()
    world.main.add_publication("aeron:ipc", 104, session_id=4711)
    publication = client.add_publication("aeron:ipc", 104, session_id=4711)
    world.settle()
    assert publication.is_closed
    assert publication.error is not None
    assert "4711" in publication.error
    assert not client.is_closed
    with pytest.raises(UsageError):
        client.add_publication("aeron:ipc?mtu=1", 104)
    with pytest.raises(UsageError):
        client.add_subscription("aeron:ipc?session-id=x", 104)


def test_a_closed_client_subscription_leaves_the_stream_and_others_go_on() -> None:
    world = SplitWorld()
    left, right = world.client(), world.client()
    publication = world.main.add_publication("aeron:ipc", 104)
    first, second = left.add_subscription("aeron:ipc", 104), right.add_subscription("aeron:ipc", 104)
    world.settle()
    first.close()
    world.settle()
    offer(world, publication, b"x")
    world.settle()
    assert collect(second) == [b"x"]
    assert first.images == []
    second.images[0].reject("enough")
    world.settle()
    assert second.images == []
    assert not publication.is_connected


def test_destinations_and_spies_work_from_a_client() -> None:
    world = SplitWorld()
    remote = world.driver()
    client = world.client()
    log = remote.add_publication("aeron:tcp?control-mode=manual|session-id=4711", 100)
    subscription = client.add_subscription("aeron:tcp?control-mode=manual|session-id=4711", 100)
    subscription.add_destination("aeron:tcp?endpoint=main:9")
    log.add_destination("aeron:tcp?endpoint=main:9")
    world.advance(300)
    spy = client.add_subscription("aeron-spy:aeron:tcp?session-id=4711", 100)
    world.advance(100)
    offer(world, log, *[b"%d" % number for number in range(50)])
    world.settle()
    blocks = drain_blocks(subscription.images[0])
    assert blocks[-1].end == log.position
    assert len(collect(spy)) == 50
    assert subscription.images[0].active_transport_count == 1
    subscription.remove_destination("aeron:tcp?endpoint=main:9")
    world.settle()
    assert not log.is_connected
    assert subscription.images[0].active_transport_count == 0


def test_an_idle_split_member_sends_nothing() -> None:
    world = SplitWorld()
    client = world.client()
    publication = client.add_publication("aeron:ipc", 104)
    subscription = client.add_subscription("aeron:ipc", 104)
    world.settle()
    offer(world, publication, b"x")
    world.settle()
    assert collect(subscription) == [b"x"]
    world.advance(1000, 100)
    sent = sum(end.sent_bytes for end in world.network.connections)
    world.advance(5000, 100)
    assert sum(end.sent_bytes for end in world.network.connections) == sent
    assert client.next_deadline_ns() == NEVER_NS
    assert world.main.next_deadline_ns() == NEVER_NS


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([13, 32, 100, 1000, 1 << 20]),
    st.integers(100, 5000),
    st.lists(st.tuples(st.sampled_from(["offer", "turns", "poll"]), st.integers(1, 40)), max_size=40),
)
def test_nothing_is_lost_on_the_way_through_the_driver(
    piece: int, capacity: int, actions: list[tuple[str, int]]
) -> None:
    world = SplitWorld(pieces=repeat(piece), capacity=capacity)
    left, right = world.client(), world.client()
    publication = left.add_publication("aeron:ipc", 104)
    subscription = right.add_subscription("aeron:ipc", 104)
    world.advance(100)
    sent: list[bytes] = []
    received: list[bytes] = []
    for action, amount in actions:
        if action == "offer":
            for _ in range(amount):
                payload = b"%d" % len(sent) * (1 + len(sent) ** 3 % 300)
                if publication.offer(payload) > 0:
                    sent.append(payload)
        elif action == "turns":
            for _ in range(amount):
                world.turn()
        else:
            received += collect(subscription, amount)
    publication.close()
    image = subscription.images[0]
    while not image.is_closed:
        before = len(received)
        world.advance(400, 100)
        received += collect(image)
        world.settle()
        assert len(received) > before or image.is_closed
    assert received == sent
    assert image.is_end_of_stream


def test_a_client_that_asks_late_for_a_session_gets_what_another_has_not_read_yet() -> None:
    """As a service does for a short replay of the log, that ended before the service knew of it."""
    world = SplitWorld()
    module, service = world.client(), world.client()
    replay = world.main.add_publication("aeron:ipc", 103)
    channel = f"aeron:ipc?session-id={replay.session_id}"
    first = module.add_subscription(channel, 103)
    world.settle()
    messages = [b"%d" % number * 50 for number in range(5)]
    offer(world, replay, *messages)
    replay.close()
    world.settle()
    second = service.add_subscription(channel, 103)
    world.advance(50)
    assert collect(second) == messages
    assert collect(first) == messages
