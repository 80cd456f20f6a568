"""Streams between hosts: connection, liveness, resumption, destinations, responses, merging."""

from itertools import count

import pytest
from hypothesis import given, settings, strategies as st

from support.media_world import SETTINGS, World, collect, drain_blocks, offer
from upheaval_node.errors import UsageError
from upheaval_node.media.api import BACK_PRESSURED, NOT_CONNECTED, Image
from upheaval_node.media.driver import MediaDriver
from upheaval_node.types import MS

TERM = 64 * 1024
CHANNEL = "aeron:tcp?endpoint=b:1"


def pair(world: World) -> tuple[MediaDriver, MediaDriver]:
    return world.driver(), world.driver()


def numbered(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def test_messages_arrive_in_order_and_the_end_of_stream_after_them() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    assert publication.offer(b"x") == NOT_CONNECTED
    world.settle()
    assert publication.is_connected
    (image,) = subscription.images
    assert (image.session_id, image.initial_term_id) == (publication.session_id, publication.initial_term_id)
    assert image.active_transport_count == 1
    offer(world, publication, b"one", b"2" * 5000, b"three")
    publication.close()
    world.settle()
    assert collect(subscription) == [b"one", b"2" * 5000, b"three"]
    world.advance(200)
    assert image.is_closed
    assert image.is_end_of_stream
    assert subscription.images == []
    assert world.network.connections == []
    assert world.errors.texts == []


def test_many_terms_pass_with_back_pressure_and_bounded_memory() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    results = {publication.offer(bytes(1000)) for _ in range(200)}
    assert BACK_PRESSURED in results
    received: list[bytes] = collect(subscription)
    for number in range(2000):
        payload = b"%d" % number * 50
        while publication.offer(payload) < 0:
            world.advance(20)
            received += collect(subscription)
    world.settle()
    received += collect(subscription)
    assert received[-2000:] == [b"%d" % number * 50 for number in range(2000)]
    assert publication.position > 4 * TERM


def test_a_publisher_may_come_first_and_several_streams_share_an_endpoint() -> None:
    world = World()
    a, b = pair(world)
    publications = [a.add_publication(CHANNEL, stream_id) for stream_id in (10, 11)]
    world.advance(200)
    assert not publications[0].is_connected
    subscriptions = [b.add_subscription(CHANNEL, stream_id) for stream_id in (10, 11)]
    world.advance(200)
    for number, publication in enumerate(publications):
        offer(world, publication, b"%d" % number)
    world.settle()
    assert [collect(subscription) for subscription in subscriptions] == [[b"0"], [b"1"]]


def test_two_subscriptions_on_one_endpoint_each_see_the_stream() -> None:
    world = World()
    a, b = pair(world)
    first = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    offer(world, publication, b"0")
    world.settle()
    second = b.add_subscription(CHANNEL, 10)
    world.settle()
    offer(world, publication, b"1")
    world.settle()
    assert collect(first) == [b"0", b"1"]
    assert collect(second) == [b"0", b"1"]
    first.close()
    world.settle()
    offer(world, publication, b"2")
    world.settle()
    assert collect(second) == [b"2"]
    second.close()
    world.advance(100)
    assert not publication.is_connected
    assert publication.offer(b"3") == NOT_CONNECTED


def test_an_image_survives_a_cut_shorter_than_its_liveness() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    (image,) = subscription.images
    world.network.refused.add("b:1")
    world.network.cut()
    world.advance(3000, 100)
    assert publication.is_connected
    offer(world, publication, b"while cut")
    world.network.refused.clear()
    world.advance(200)
    assert collect(subscription) == [b"while cut"]
    assert subscription.images == [image]


def test_a_receiver_that_stays_away_makes_the_publication_not_connected() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    world.network.refused.add("b:1")
    world.network.cut()
    world.advance(5200, 100)
    assert not publication.is_connected
    assert publication.offer(b"x") == NOT_CONNECTED
    (image,) = subscription.images
    world.advance(5200, 100)
    assert subscription.images == []
    assert image.is_closed
    assert not image.is_end_of_stream


def test_a_silent_publisher_is_noticed_by_liveness_even_on_an_open_connection() -> None:
    world = World()
    a, b = pair(world)
    ended: list[Image] = []
    subscription = b.add_subscription(CHANNEL, 10, on_unavailable=ended.append)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    offer(world, publication, b"held")
    world.settle()
    world.agents.remove(a)
    world.advance(9800, 100)
    assert ended == []
    world.advance(600, 100)
    assert ended == []
    assert collect(subscription) == [b"held"]
    world.settle()
    assert [image.is_end_of_stream for image in ended] == [False]
    assert world.network.connections == []


def test_a_fresh_receiver_joins_at_the_present_position() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    offer(world, publication, b"for the first")
    world.settle()
    b.close()
    world.agents.remove(b)
    offer(world, publication, b"into the void")
    c = world.driver()
    fresh = c.add_subscription(CHANNEL, 10)
    world.advance(300)
    assert fresh.images[0].join_position == publication.position
    offer(world, publication, b"for the second")
    world.settle()
    assert collect(fresh) == [b"for the second"]
    assert subscription.images == []


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([5, 31, 32, 33, 64, 100, 1000, 1 << 20]), min_size=1, max_size=8),
    st.lists(
        st.one_of(
            st.tuples(st.just("offer"), st.integers(1, 40)),
            st.tuples(st.just("cut"), st.integers(0, 1)),
            st.tuples(st.just("turns"), st.integers(1, 60)),
            st.tuples(st.just("time"), st.integers(1, 10)),
        ),
        max_size=40,
    ),
    st.integers(64, 5000),
)
def test_whatever_is_cut_the_consumer_sees_exactly_the_sent_sequence(
    sizes: list[int], actions: list[tuple[str, int]], capacity: int
) -> None:
    world = World(pieces=(sizes[index % len(sizes)] for index in count()), capacity=capacity)
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.advance(100)
    sent: list[bytes] = []
    received: list[bytes] = []
    (image,) = subscription.images
    for action, amount in actions:
        if action == "offer":
            for _ in range(amount):
                payload = b"%d" % len(sent) * (1 + len(sent) ** 3 % 300)
                if publication.offer(payload) > 0:
                    sent.append(payload)
        elif action == "cut":
            world.network.cut(lose=bool(amount))
        elif action == "turns":
            for _ in range(amount):
                world.turn()
        else:
            world.ns += amount * 10 * MS
            world.turn()
        received += collect(subscription, 7)
        assert received == sent[: len(received)]
    while len(received) < len(sent):
        before = len(received)
        world.advance(400, 100)
        received += collect(subscription)
        assert len(received) > before
    assert received == sent
    assert subscription.images == [image]
    assert world.errors.texts == []


def test_a_destination_that_falls_behind_is_dropped_and_its_image_ends() -> None:
    world = World(settings=SETTINGS, capacity=4096)
    a = world.driver(retention_length=2 * TERM)
    slow, fast = world.driver(), world.driver()
    endings: list[Image] = []
    slow_subscription = slow.add_subscription("aeron:tcp?endpoint=slow:1", 10, on_unavailable=endings.append)
    fast_subscription = fast.add_subscription("aeron:tcp?endpoint=fast:1", 10)
    publication = a.add_publication("aeron:tcp?control-mode=manual", 10)
    publication.add_destination("aeron:tcp?endpoint=slow:1")
    publication.add_destination("aeron:tcp?endpoint=fast:1")
    world.settle()
    (first,) = slow_subscription.images
    world.network.stall("slow:1")
    sent = received = 0
    for _ in range(400):
        offer(world, publication, bytes(1000))
        sent += 1
        world.settle()
        received += len(collect(fast_subscription))
    assert sent == received == 400
    assert len(world.network.connections_to("slow:1")) == 0
    world.network.stall("slow:1", stalled=False)
    world.advance(300)
    collect(first)
    world.advance(300)
    assert endings == [first]
    assert not first.is_end_of_stream
    (second,) = slow_subscription.images
    assert second.join_position == publication.position
    offer(world, publication, b"again")
    world.settle()
    assert collect(second) == [b"again"]


def test_a_manual_publication_is_connected_by_a_spy_alone() -> None:
    world = World()
    a = world.driver()
    publication = a.add_publication("aeron:tcp?control-mode=manual", 10)
    world.settle()
    assert publication.offer(b"x") == NOT_CONNECTED
    spy = a.add_subscription(f"aeron-spy:aeron:tcp?session-id={publication.session_id}", 10)
    world.settle()
    offer(world, publication, b"x")
    assert collect(spy) == [b"x"]
    results = {publication.offer(bytes(1000)) for _ in range(100)}
    assert BACK_PRESSURED in results


def test_a_spy_does_not_connect_a_plain_publication_but_sees_what_is_sent() -> None:
    world = World()
    a, b = pair(world)
    publication = a.add_publication(CHANNEL, 10)
    spy = a.add_subscription("aeron-spy:" + CHANNEL, 10)
    world.settle()
    assert publication.offer(b"x") == NOT_CONNECTED
    subscription = b.add_subscription(CHANNEL, 10)
    receiving_spy = b.add_subscription("aeron-spy:aeron:ipc", 10)
    world.advance(200)
    offer(world, publication, b"x")
    world.settle()
    assert collect(spy) == [b"x"]
    assert collect(receiving_spy) == collect(subscription) == [b"x"]
    subscription.close()
    world.settle()
    assert receiving_spy.images == []


def test_destinations_come_and_go() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication("aeron:tcp?control-mode=manual", 10)
    publication.add_destination(CHANNEL)
    world.settle()
    offer(world, publication, b"0")
    publication.remove_destination(CHANNEL)
    world.settle()
    assert not publication.is_connected
    assert publication.offer(b"1") == NOT_CONNECTED
    publication.add_destination(CHANNEL)
    world.settle()
    offer(world, publication, b"2")
    world.settle()
    assert collect(subscription)[-1] == b"2"
    with pytest.raises(UsageError):
        a.add_publication(CHANNEL, 12).add_destination(CHANNEL)
    with pytest.raises(UsageError):
        publication.add_destination("aeron:ipc")


@pytest.mark.parametrize(("wanted", "joins"), [(128, 128), (0, 0)])
def test_a_subscription_joins_where_its_channel_says_while_that_is_held(wanted: int, joins: int) -> None:
    world = World()
    a, b = pair(world)
    publication = a.add_publication(
        "aeron:tcp?control-mode=manual|session-id=4711|init-term-id=0|term-id=0|term-offset=0|term-length=64k", 10
    )
    spy = a.add_subscription("aeron-spy:aeron:ipc", 10)
    world.settle()
    offer(world, publication, *numbered(range(10)))
    collect(spy)
    channel = f"{CHANNEL}|init-term-id=0|term-id=0|term-offset={wanted}|term-length=64k"
    subscription = b.add_subscription(channel, 10)
    publication.add_destination(CHANNEL)
    world.settle()
    assert subscription.images[0].join_position == joins
    assert collect(subscription) == numbered(range(joins // 64, 10))
    local = a.add_subscription(f"aeron-spy:aeron:tcp?init-term-id=0|term-id=0|term-offset={wanted}", 10)
    world.settle()
    assert collect(local) == numbered(range(joins // 64, 10))


def test_a_response_rides_on_the_connection_that_announced_its_token() -> None:
    world = World()
    client, server = pair(world)
    requests = server.add_subscription(CHANNEL, 10)
    token = client.next_correlation_id()
    other_token = client.next_correlation_id()
    suffix = f"control-mode=response|response-correlation-id={token}"
    responses = client.add_subscription(f"aeron:tcp?{suffix}", 20)
    others = client.add_subscription(f"aeron:tcp?control-mode=response|response-correlation-id={other_token}", 20)
    ingress = client.add_publication(CHANNEL, 10)
    world.settle()
    egress = server.add_publication(f"aeron:tcp?{suffix}", 20)
    world.advance(100)
    assert egress.is_connected
    assert world.network.dialled == ["b:1"]
    offer(world, ingress, b"request")
    offer(world, egress, b"response")
    world.settle()
    assert collect(requests) == [b"request"]
    assert collect(responses) == [b"response"]
    assert others.images == []
    world.network.cut()
    offer(world, egress, b"while cut")
    world.advance(300)
    assert collect(responses) == [b"while cut"]
    late = client.next_correlation_id()
    late_channel = f"aeron:tcp?control-mode=response|response-correlation-id={late}"
    egress.close()
    world.advance(200)
    assert responses.images == []
    late_egress = server.add_publication(late_channel, 21)
    world.advance(100)
    late_responses = client.add_subscription(late_channel, 21)
    world.advance(100)
    offer(world, late_egress, b"late")
    world.settle()
    assert collect(late_responses) == [b"late"]
    assert ingress.is_connected
    assert world.errors.texts == []


def test_a_withdrawn_token_is_not_answered_any_more() -> None:
    world = World()
    client, server = pair(world)
    server.add_subscription(CHANNEL, 10)
    client.add_publication(CHANNEL, 10)
    channel = "aeron:tcp?control-mode=response|response-correlation-id=99"
    responses = client.add_subscription(channel, 20)
    world.settle()
    responses.close()
    world.settle()
    egress = server.add_publication(channel, 20)
    world.advance(200)
    assert not egress.is_connected


def test_an_address_in_use_is_shown_and_tried_again() -> None:
    world = World()
    a, b = pair(world)
    first = a.add_subscription(CHANNEL, 10)
    second = b.add_subscription(CHANNEL, 10)
    any_port = b.add_subscription("aeron:tcp?endpoint=b:0", 10)
    world.settle()
    assert first.resolved_endpoint == "b:1"
    assert first.error is None
    assert second.resolved_endpoint is None
    assert second.error is not None
    assert any_port.resolved_endpoint not in (None, "b:0")
    first.close()
    world.advance(100)
    assert second.resolved_endpoint == "b:1"


def test_a_rejected_stream_stays_away_for_the_liveness_time_out() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    subscription.images[0].reject("not welcome")
    world.advance(5000, 100)
    assert subscription.images == []
    assert not publication.is_connected
    world.advance(6000, 100)
    assert len(subscription.images) == 1


def test_an_idle_connection_shows_heartbeats_only() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    (end,) = world.network.connections_to("b:1")
    sent = end.sent_bytes
    world.advance(1000, 100)
    assert end.sent_bytes - sent == 10 * 32
    assert a.next_deadline_ns() > world.ns
    world.advance(20_000, 100)
    assert publication.is_connected
    assert len(subscription.images) == 1


def test_a_closed_driver_does_nothing_and_its_handles_are_closed() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    world.settle()
    offer(world, publication, b"last words")
    a.close()
    assert publication.is_closed
    world.settle()
    assert collect(subscription) == [b"last words"]
    b.close()
    assert subscription.images == []
    assert a.do_work(world.now) == 0
    world.settle()
    assert world.network.connections == []
    assert world.network.listeners == {}


def test_blocks_pass_through_a_link_as_they_were_offered() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL, 10)
    spy = a.add_subscription("aeron-spy:aeron:ipc", 10)
    world.settle()
    offer(world, publication, *(bytes(length) for length in range(0, 1400, 50)))
    world.settle()
    sent = b"".join(bytes(block.data) for block in drain_blocks(spy.images[0]))
    arrived = b"".join(bytes(block.data) for block in drain_blocks(subscription.images[0]))
    assert sent == arrived
    assert len(sent) > 0


def test_with_rejoin_false_a_session_that_ended_never_comes_back() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL + "|rejoin=false", 10)
    publication = a.add_publication(CHANNEL + "|session-id=4711", 10)
    world.settle()
    assert len(subscription.images) == 1
    world.network.refused.add("b:1")
    world.network.cut()
    world.advance(11_000, 100)
    assert subscription.images == []
    world.network.refused.clear()
    world.advance(30_000, 100)
    assert subscription.images == []
    assert not publication.is_connected
    other = a.add_publication(CHANNEL + "|session-id=4712", 10)
    world.advance(200)
    assert other.is_connected


def test_a_subscription_that_rejects_does_not_speak_for_later_ones() -> None:
    world = World()
    a, b = pair(world)
    first = b.add_subscription(CHANNEL, 10)
    a.add_publication(CHANNEL, 10)
    world.settle()
    first.images[0].reject("not welcome")
    world.settle()
    first.close()
    second = b.add_subscription(CHANNEL, 10)
    world.advance(300)
    assert len(second.images) == 1


def test_a_channel_with_eos_false_closes_without_end_of_stream() -> None:
    world = World()
    a, b = pair(world)
    subscription = b.add_subscription(CHANNEL, 10)
    publication = a.add_publication(CHANNEL + "|eos=false", 10)
    world.settle()
    offer(world, publication, b"all of it")
    publication.close()
    (image,) = subscription.images
    world.settle()
    assert collect(image) == [b"all of it"]
    world.advance(9000, 100)
    assert world.network.connections == []
    assert subscription.images == [image]
    world.advance(2000, 100)
    assert subscription.images == []
    assert not image.is_end_of_stream


def test_the_address_of_a_port_zero_is_shown_before_known_ones() -> None:
    world = World()
    subscription = world.driver().add_subscription("aeron:tcp?control-mode=manual", 10)
    subscription.add_destination("aeron:tcp?endpoint=b:0")
    chosen = subscription.resolved_endpoint
    assert chosen is not None
    subscription.add_destination("aeron:tcp?endpoint=a:77")
    assert subscription.resolved_endpoint == chosen
    subscription.remove_destination("aeron:tcp?endpoint=b:0")
    assert subscription.resolved_endpoint == "a:77"


def test_a_spy_of_a_session_takes_the_stream_that_came_again_and_not_the_one_that_ended() -> None:
    """A follower rejoins the log of the same leader while its service still reads the former image of it."""
    world = World()
    a, b = pair(world)
    publication = a.add_publication("aeron:tcp?control-mode=manual|session-id=4711", 100)
    publication.add_destination("aeron:tcp?endpoint=b:3")
    follower = "aeron:tcp?control-mode=manual|session-id=4711|rejoin=false"
    spy = "aeron-spy:aeron:tcp?session-id=4711"
    first = b.add_subscription(follower, 100)
    first.add_destination("aeron:tcp?endpoint=b:3")
    world.advance(200)
    slow = b.add_subscription(spy, 100)
    world.settle()
    offer(world, publication, *numbered(range(10)))
    world.advance(40)
    assert collect(first) == numbered(range(10))
    position = publication.position
    first.remove_destination("aeron:tcp?endpoint=b:3")
    first.close()
    world.advance(40)
    assert not slow.images[0].is_closed

    join = {
        "init-term-id": publication.initial_term_id,
        "term-id": publication.initial_term_id,
        "term-offset": position,
        "term-length": publication.term_length,
    }
    second = b.add_subscription("|".join([follower, *(f"{name}={value}" for name, value in join.items())]), 100)
    second.add_destination("aeron:tcp?endpoint=b:3")
    recorder = b.add_subscription(spy, 100)
    world.advance(200)
    assert [image.join_position for image in recorder.images] == [position]
    offer(world, publication, b"more")
    world.advance(40)
    assert collect(recorder) == [b"more"]
    assert collect(slow) == numbered(range(10))
