"""Channel parameters and name resolution."""

from random import Random

import pytest

from upheaval_node.errors import UsageError
from upheaval_node.media.parameters import join_position, publication_parameters, random_session_id
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol.channel import Channel
from upheaval_node.settings import KIB, MIB, MediaSettings

SETTINGS = MediaSettings(term_length=MIB, ipc_term_length=128 * KIB)


def test_defaults_depend_on_the_medium_and_start_at_zero_in_a_random_term() -> None:
    tcp, position = publication_parameters(Channel.parse("aeron:tcp?endpoint=a:1"), 10, None, SETTINGS, Random(1))
    ipc, _ = publication_parameters(Channel.parse("aeron:ipc"), 10, None, SETTINGS, Random(1))
    assert (tcp.term_length, ipc.term_length, position) == (MIB, 128 * KIB, 0)
    assert tcp.mtu == SETTINGS.mtu
    assert tcp.initial_term_id == ipc.initial_term_id


def test_a_position_and_a_session_can_be_given() -> None:
    channel = Channel.parse(
        "aeron:ipc?session-id=-77|init-term-id=-3|term-id=1|term-offset=64|term-length=64k|mtu=2048"
    )
    params, position = publication_parameters(channel, 10, None, SETTINGS, Random(1))
    assert (params.session_id, params.initial_term_id, params.mtu) == (-77, -3, 2048)
    assert position == 4 * 64 * KIB + 64
    assert params.term_id_at(position) == 1
    join = join_position(channel, SETTINGS)
    assert join is not None
    assert join.of(-3, 64 * KIB) == position
    assert join.of(-3, 128 * KIB) is None
    assert join.of(-2, 64 * KIB) is None


def test_an_offset_at_the_end_of_a_term_is_the_start_of_the_next() -> None:
    channel = Channel.parse("aeron:ipc?init-term-id=0|term-id=0|term-offset=65536|term-length=64k")
    params, position = publication_parameters(channel, 10, None, SETTINGS, Random(1))
    assert params.term_id_at(position) == 1


def test_a_given_session_wins_over_the_channel_and_random_ones_are_outside_the_reserved_range() -> None:
    channel = Channel.parse("aeron:ipc?session-id=5")
    assert publication_parameters(channel, 10, 6, SETTINGS, Random(1))[0].session_id == 6

    class Narrow(Random):
        draws = [-1, 0, 500, 1000, 1001]

        def randrange(self, *_: object) -> int:
            return self.draws.pop(0)

    assert random_session_id(Narrow()) == 1001


@pytest.mark.parametrize("channel", ["aeron:ipc?term-id=1|init-term-id=1", "aeron:ipc?term-length=1000"])
def test_half_a_position_is_the_callers_error(channel: str) -> None:
    with pytest.raises(UsageError):
        join_position(Channel.parse(channel), SETTINGS)


def test_a_static_resolver_changes_the_addresses_that_it_knows() -> None:
    addresses = {"a:1": "proxy:9"}
    resolver = StaticResolver(addresses)
    assert resolver.resolve("a:1", 10) == "proxy:9"
    assert resolver.resolve("b:1", 10) == "b:1"
    del addresses["a:1"]
    assert resolver.resolve("a:1", 10) == "a:1"
