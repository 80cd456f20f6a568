"""The simulated network: streams, cuts, resets, dead hosts."""

import pytest

from simulation.parties import Direct, Pair, Talker
from upheaval.runtimes.simulated.network import PIPE_CAPACITY, UNACKNOWLEDGED_NS, Fabric
from upheaval.runtimes.simulated.world import World
from upheaval_node.errors import NetworkError
from upheaval_node.types import S


def test_bytes_arrive_in_order_after_a_latency_and_in_chunks() -> None:
    pair = Pair(to_send=bytes(range(256)) * 4)
    pair.world.run_for(S)
    for index in range(200):
        pair.client.say(index.to_bytes(4, "little"))
        pair.world.run_for(1_000_000)
    sent = bytes(range(256)) * 4 + b"".join(index.to_bytes(4, "little") for index in range(200))
    assert pair.server.received == sent
    assert any(length < 4 for _, length in pair.server.chunks)


def test_one_seed_gives_one_execution_and_another_seed_another() -> None:
    def chunks(seed: int) -> list[tuple[int, int]]:
        pair = Pair(seed, b"x" * 100)
        pair.world.run_for(S)
        return pair.server.chunks

    assert chunks(3) == chunks(3)
    assert chunks(3) != chunks(4)


def test_dialling_where_nobody_listens_is_refused() -> None:
    world = World(1)
    fabric = Fabric(world)
    talker = Talker(world)
    fabric.network(Direct("a")).dial("b:9", talker)
    world.run_for(S)
    assert talker.closed == "connection refused"
    assert talker.connection is None


def test_a_slow_reader_makes_the_sender_wait_and_loses_nothing() -> None:
    block = bytes(1000) * 3000
    pair = Pair(to_send=block)
    while pair.server.connection is None:
        assert pair.world.step()
    pair.server.connection.pause_reading(True)
    pair.world.run_for(S)
    assert len(pair.server.received) <= PIPE_CAPACITY
    assert pair.client._to_send
    pair.server.connection.pause_reading(False)
    pair.world.run_for(S)
    assert pair.server.received == block


def test_a_cut_link_holds_bytes_back_until_it_heals() -> None:
    pair = Pair(to_send=b"before")
    pair.world.run_for(S)
    pair.fabric.cut("a", "b")
    pair.client.say(b"during")
    assert pair.server.connection is not None
    pair.server.say(b"the other way")
    pair.world.run_for(2 * S)
    assert pair.server.received == b"before"
    assert pair.client.received == b"the other way"
    pair.fabric.heal("a", "b")
    pair.world.run_for(4 * S)
    assert pair.server.received == b"beforeduring"


@pytest.mark.parametrize("link", [("a", "b"), ("b", "a")])
def test_a_cut_that_lasts_ends_the_connection_of_who_sends(link: tuple[str, str]) -> None:
    pair = Pair(to_send=b"before")
    pair.world.run_for(S)
    pair.fabric.cut(*link)
    pair.client.say(b"during")
    pair.world.run_for(UNACKNOWLEDGED_NS - S)
    assert pair.client.closed == ""
    pair.world.run_for(2 * S)
    assert pair.client.closed == "connection timed out"
    assert pair.server.closed == ""
    pair.fabric.heal(*link)
    assert pair.server.connection is not None
    pair.server.say(b"anybody?")
    pair.world.run_for(4 * S)
    assert pair.server.closed == "reset by peer"


def test_dialling_through_a_cut_is_tried_again_and_then_given_up() -> None:
    for heal_after_ns, outcome in ((2 * S, ""), (10 * S, "connection timed out")):
        pair = Pair(to_send=b"hello")
        pair.fabric.cut("a", "b")
        pair.world.run_for(heal_after_ns)
        pair.fabric.heal("a", "b")
        pair.world.run_for(4 * S)
        assert pair.client.closed == outcome
        assert bool(pair.server.received) == (outcome == "")


def test_the_peer_of_a_killed_process_hears_of_it_and_the_port_is_free_again() -> None:
    reasons = set()
    for seed in range(30):
        pair = Pair(seed, b"hello")
        pair.world.run_for(S)
        pair.fabric.kill(pair.server_owner)
        assert pair.client.closed == ""
        pair.world.run_for(S)
        reasons.add(pair.client.closed)
        assert pair.server.closed == ""
        pair.fabric.network(Direct("b")).listen("b:1", lambda _connection, pair=pair: Talker(pair.world))  # type: ignore[misc]
    assert reasons == {"closed by peer", "reset by peer"}


def test_a_host_without_power_is_silent_and_resets_old_connections_when_it_is_back() -> None:
    pair = Pair(to_send=b"hello")
    pair.world.run_for(S)
    pair.fabric.power_off("b")
    pair.client.say(b"are you there?")
    pair.world.run_for(2 * S)
    assert pair.client.closed == ""
    pair.fabric.power_on("b")
    pair.world.run_for(4 * S)
    assert pair.client.closed == "reset by peer"
    assert pair.server.received == b"hello"


def test_closing_delivers_what_was_sent_before_it() -> None:
    pair = Pair(to_send=b"last words")
    pair.world.run_until(lambda: pair.client.connection is not None, S)
    assert pair.client.connection is not None
    pair.client.connection.close()
    pair.world.run_for(S)
    assert pair.server.received == b"last words"
    assert pair.server.closed == "closed by peer"
    assert pair.client.closed == ""


def test_a_reset_ends_the_connections_between_two_hosts_on_both_sides() -> None:
    pair = Pair(to_send=b"hello")
    pair.world.run_for(S)
    assert pair.fabric.reset("a", "c") == 0
    assert pair.fabric.reset("b", "a") == 1
    pair.world.run_for(S)
    assert pair.client.closed == pair.server.closed == "reset by the network"


def test_a_connection_that_lost_bytes_to_a_time_out_ends_when_that_is_lifted() -> None:
    pair = Pair(to_send=b"before")
    pair.world.run_for(S)
    pair.fabric.silence("a", "b", "", 5 * S)
    pair.client.say(b"during")
    pair.world.run_for(S)
    # In flight when the fault is healed.
    pair.client.say(b"last")
    pair.fabric.silence("a", "b", "", None)
    pair.client.say(b"after")
    pair.world.run_for(S)
    assert pair.server.received == b"before"
    assert pair.client.closed == pair.server.closed == "closed by the network"


def test_a_channel_under_two_time_outs_stays_silent_until_both_are_lifted() -> None:
    pair = Pair(to_send=b"before")
    pair.world.run_for(S)
    pair.fabric.silence("a", "b", "", 5 * S)
    pair.fabric.silence("a", "b", "1", 5 * S)
    pair.client.say(b"during")
    pair.world.run_for(S)
    pair.fabric.silence("a", "b", "", None)
    pair.client.say(b"still during")
    pair.world.run_for(S)
    assert pair.client.closed == pair.server.closed == ""
    pair.fabric.silence("a", "b", "1", None)
    pair.world.run_for(S)
    assert pair.server.received == b"before"
    assert pair.client.closed == pair.server.closed == "closed by the network"


def test_unix_addresses_and_own_names_stay_inside_the_host() -> None:
    world = World(1)
    fabric = Fabric(world)
    server, own, foreign = Talker(world), Talker(world, b"hi"), Talker(world)
    fabric.network(Direct("a")).listen("unix:aeron/driver", lambda _connection: server)
    fabric.network(Direct("a")).dial("unix:aeron/driver", own)
    fabric.network(Direct("b")).dial("unix:aeron/driver", foreign)
    fabric.cut("a", "a")
    world.run_for(S)
    assert server.received == b"hi"
    assert foreign.closed == "connection refused"


def test_addresses_that_cannot_be_bound_are_network_errors() -> None:
    fabric = Fabric(World(1))
    network = fabric.network(Direct("a"))
    handler = Talker(fabric.world)
    bound = network.listen("a:5", lambda _connection: handler)
    for address in ("a:5", "b:5", "nonsense"):
        with pytest.raises(NetworkError):
            network.listen(address, lambda _connection: handler)
    bound.close()
    assert network.listen("localhost:5", lambda _connection: handler).address == "localhost:5"
    ports = {network.listen("a:0", lambda _connection: handler).address for _ in range(3)}
    assert len(ports) == 3
    assert "a:0" not in ports


def test_bandwidth_delays_what_exceeds_it() -> None:
    pair = Pair()
    pair.world.run_for(S)
    pair.fabric.link("a", "b").bytes_per_second = 10_000
    start_ns = pair.world.now_ns
    pair.client.say(bytes(20_000))
    pair.world.run_for(5 * S)
    assert len(pair.server.received) == 20_000
    assert pair.server.chunks[-1][0] - start_ns >= 2 * S
