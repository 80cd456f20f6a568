"""Users of one stream: what they send comes in their order, and the stream ends with the last of them."""

from collections.abc import Callable

import pytest

from support.media_world import World, collect
from upheaval_node.errors import UsageError
from upheaval_node.media.api import CLOSED, Subscription
from upheaval_node.media.shared_publications import SharedPublication, SharedPublications

CHANNEL = "aeron:ipc"


Two = tuple[World, Subscription, SharedPublications, SharedPublication, SharedPublication]


def two_users(are_shared: Callable[[str], bool] = lambda _: True) -> Two:
    """Of one channel and stream, which has a subscription."""
    world = World()
    driver = world.driver()
    subscription = driver.add_subscription(CHANNEL, 10)
    shared = SharedPublications(driver, are_shared)
    first, second = shared.add_publication(CHANNEL, 10), shared.add_publication(CHANNEL, 10)
    world.settle()
    return world, subscription, shared, first, second


def test_users_of_a_channel_and_stream_share_one() -> None:
    world, subscription, shared, first, second = two_users()
    other = shared.add_publication(CHANNEL, 11)
    world.settle()
    assert [each.is_connected for each in (first, second, other)] == [True, True, False]
    assert shared.connected == (True, False)
    assert first.offer(b"a") > 0
    assert second.offer(b"b") > 0
    assert first.offer(b"c") > 0
    assert collect(subscription) == [b"a", b"b", b"c"]
    assert len(subscription.images) == 1


def test_the_stream_ends_with_its_last_user_and_another_begins_after_it() -> None:
    world, subscription, shared, first, second = two_users()
    (image,) = subscription.images
    first.close()
    first.close()
    world.settle()
    assert (first.is_closed, first.is_connected, first.offer(b"x")) == (True, False, CLOSED)
    assert second.is_connected
    second.close()
    world.settle()
    assert image.is_closed
    third = shared.add_publication(CHANNEL, 10)
    world.settle()
    assert third.offer(b"y") > 0
    assert collect(subscription) == [b"y"]


def test_a_stream_that_ended_under_its_users_is_not_given_to_others() -> None:
    world = World()
    driver = world.driver()
    shared = SharedPublications(driver)
    first = shared.add_publication(CHANNEL, 10)
    for stream in driver._outbound.values():
        stream.abandon()
    assert first.is_closed
    second = shared.add_publication(CHANNEL, 10)
    assert not second.is_closed
    first.close()
    assert not shared.add_publication(CHANNEL, 10).is_closed
    assert len(shared.connected) == 1


def test_a_channel_that_is_not_to_be_shared_has_a_stream_for_each_user() -> None:
    world, subscription, _, first, second = two_users(lambda channel: channel != CHANNEL)
    assert len(subscription.images) == 2
    first.close()
    world.settle()
    assert len(subscription.images) == 1
    assert second.offer(b"x") > 0


def test_a_channel_of_no_use_is_refused_and_nothing_is_kept() -> None:
    shared = SharedPublications(World().driver())
    with pytest.raises(UsageError):
        shared.add_publication("aeron:tcp", 10)
    assert shared.connected == ()
