"""A follower that is configured for how long it does without its connection from the leader: when it elects another."""

from dataclasses import replace
from itertools import product

import pytest

from support.system_world import System, numbered
from upheaval.runtimes.simulated.cluster import host_of
from upheaval.runtimes.simulated.hosts import PORTS
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election_states import Role
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.types import MS, S

DISCONNECT_MS = 50
SOON_NS = 200 * MS
"""Until another member leads; the first CanvassPosition may reach no member that listens."""


def told(disconnect_ms: int = DISCONNECT_MS) -> MemberSettings:
    """Aeron's own time-outs but for this one."""
    settings = profile_settings("aeron")
    timeouts = replace(settings.cluster.timeouts, leader_disconnect_ns=disconnect_ms * MS)
    return replace(settings, cluster=replace(settings.cluster, timeouts=timeouts, log_term_length=1 << 16))


def leads(module: ConsensusModule) -> bool:
    return module.role is Role.LEADER and module.election is None


def elected(system: System) -> int:
    def leaders() -> list[int]:
        return [each for each, module in system.modules.items() if each in system.live and leads(module)]

    system.until(lambda: bool(leaders()), "a leader", 120)
    return leaders()[0]


def terms(system: System) -> set[int]:
    return {system.modules[each].leadership_term_id for each in system.live}


@pytest.mark.parametrize(("members", "seed"), list(product((3, 5), range(1, 6))))
def test_a_leader_that_is_killed_is_followed_by_another_one_at_once(members: int, seed: int) -> None:
    system = System(members, seed=seed, settings=told())
    elected(system)
    old = system.leader()
    client = system.client()
    system.echo(client, numbered("a", 20))
    world = system.cluster.world
    killed_ns = world.now_ns
    system.kill(old)
    new = elected(system)
    took_ns = world.now_ns - killed_ns
    assert new != old
    assert DISCONNECT_MS * MS <= took_ns < SOON_NS
    system.follow(client)
    system.echo(client, numbered("b", 5))
    assert terms(system) == {1}
    assert client.received == numbered("a", 20) + numbered("b", 5)


def test_without_being_told_members_wait_for_heartbeats_as_aeron_does() -> None:
    system = System(seed=1, settings=told(0))
    old = elected(system)
    world = system.cluster.world
    killed_ns = world.now_ns
    system.kill(old)
    elected(system)
    assert world.now_ns - killed_ns > 9 * S


@pytest.mark.parametrize("seed", range(1, 6))
def test_connections_that_come_back_cost_nothing(seed: int) -> None:
    system = System(seed=seed, settings=told(200))
    old = elected(system)
    client = system.client()
    system.echo(client, numbered("a", 5))
    before = [system.elections(each) for each in system.live]
    for each in system.live:
        system.cluster.fabric.reset(host_of(old), host_of(each))
    system.run_for(5)
    system.echo(client, numbered("b", 5))
    assert [system.elections(each) for each in system.live] == before
    assert terms(system) == {0}


@pytest.mark.parametrize(("members", "seed"), list(product((3, 5), range(1, 6))))
def test_a_leader_that_all_followers_lose_for_a_moment_goes_on_in_its_term(members: int, seed: int) -> None:
    """It answers their canvass before any of them asks for votes."""
    system = System(members, seed=seed, settings=told())
    elected(system)
    old = system.leader()
    ways = [(host_of(old), host_of(each), PORTS["log"]) for each in system.live if each != old]
    elections = [system.elections(each) for each in system.live if each != old]
    for way in ways:
        system.cluster.fabric.channel(*way).refuses = True
        system.cluster.fabric.reset(*way)
    system.run_for(0.12)
    for way in ways:
        system.cluster.fabric.channel(*way).refuses = False
    assert system.leader() == old
    assert terms(system) == {0}
    assert [system.elections(each) for each in system.live if each != old] > elections
    system.echo(system.client(), numbered("a", 5))


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_follower_that_is_wrong_about_a_leader_costs_no_term(seed: int) -> None:
    """It asks the others, one of which has lost no connection, and the leader answers."""
    system = System(seed=seed, settings=told())
    old = elected(system)
    client = system.client()
    system.echo(client, numbered("a", 5))
    lonely = next(each for each in system.live if each != old)
    way = (host_of(old), host_of(lonely), PORTS["log"])
    link = system.cluster.fabric.channel(*way)
    elections = system.elections(lonely)
    link.refuses = True
    system.cluster.fabric.reset(*way)
    system.until(lambda: system.elections(lonely) > elections, "an election of the one that lost its leader")
    link.refuses = False
    system.echo(client, numbered("b", 5))
    system.until(lambda: system.modules[lonely].election is None, "the end of its election")
    system.await_messages(10)
    assert terms(system) == {0}
    assert leads(system.modules[old])
