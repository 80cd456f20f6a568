"""A leader goes: who leads then, what clients and services hear of it, and that nothing is lost."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from support.system_world import Chorus, System, numbered
from upheaval_node.settings import MemberSettings, profile_settings


def appointed(member_id: int) -> MemberSettings:
    settings = profile_settings("test")
    return replace(settings, cluster=replace(settings.cluster, appointed_leader_id=member_id))


@pytest.mark.parity("CT-03")
def test_clients_and_survivors_hear_of_a_new_leader_once() -> None:
    system = System()
    old = system.leader()
    client = system.client()
    system.echo(client, numbered("a", 1))
    system.stop(old)
    new = system.leader()
    system.follow(client)
    assert client.leaders == [new]
    assert [system.elections(each) for each in system.live] == [2, 2]
    assert {system.status(each).leadership_term_id for each in system.live} == {1}


@pytest.mark.parity("CT-18")
def test_messages_go_to_the_new_leader() -> None:
    system = System(seed=2)
    old = system.leader()
    client = system.client()
    system.echo(client, numbered("a", 10))
    system.stop(old)
    new = system.leader()
    system.follow(client)
    assert client.leader_id == new != old
    system.echo(client, numbered("b", 10))
    assert client.received == numbered("a", 10) + numbered("b", 10)
    system.await_messages(20)


@pytest.mark.parity("CT-19", "CT-20")
def test_a_former_leader_follows_and_new_clients_are_served() -> None:
    system = System(seed=3)
    old = system.leader()
    system.kill(old)
    new = system.leader()
    system.start(old)
    assert system.leader() == new
    assert system.status(old).role == "FOLLOWER"
    system.echo(system.client(), numbered("a", 10))
    system.await_messages(10)


@pytest.mark.parity("CT-21")
def test_a_third_election_succeeds_when_the_second_leader_goes() -> None:
    system = System(seed=4)
    first = system.leader()
    system.stop(first)
    second = system.leader()
    system.start(first)
    system.leader()
    system.stop(second)
    third = system.leader()
    assert third != second
    assert system.status(third).leadership_term_id >= 2
    system.echo(system.client(), numbered("a", 10))
    system.await_messages(10)


@pytest.mark.parity("CT-24", "CT-52")
@pytest.mark.parametrize("ends", [System.stop, System.kill])
def test_two_failovers_with_returns_keep_every_message(ends: Callable[[System, int], None]) -> None:
    system = System(seed=5)
    client = system.client()
    system.echo(client, numbered("a", 10))
    for prefix in ("b", "c"):
        old = system.leader()
        ends(system, old)
        assert system.leader() != old
        system.follow(client)
        system.echo(client, numbered(prefix, 10))
        system.start(old)
        system.leader()
        system.await_messages(len(client.received))
    assert client.received == [each for prefix in "abc" for each in numbered(prefix, 10)]
    assert system.counts() == dict.fromkeys(range(3), 30)


@pytest.mark.parity("CT-25")
def test_two_leaders_that_went_return_at_the_same_time() -> None:
    system = System(seed=6)
    first = system.leader()
    client = system.client()
    system.echo(client, numbered("a", 2000))
    system.stop(first)
    second = system.leader()
    system.stop(second)
    system.start(first, second)
    system.leader()
    system.echo(system.client(), numbered("b", 10))
    system.await_messages(2010)
    assert system.service(first).messages == numbered("a", 2000) + numbered("b", 10)


@pytest.mark.parity("CT-29")
def test_only_who_leads_is_told_of_its_role() -> None:
    system = System(seed=7)
    first = system.leader()
    system.run_for(0.2)
    assert {each: [r.name for r in system.service(each).roles] for each in system.live} == {
        each: (["LEADER"] if each == first else []) for each in range(3)
    }
    system.stop(first)
    second = system.leader()
    system.run_for(0.2)
    assert {each: [r.name for r in system.service(each).roles] for each in system.live} == {
        each: (["LEADER"] if each == second else []) for each in system.live
    }


@pytest.mark.parity("CT-30", "SN-01")
def test_the_service_of_a_lone_member_is_told_that_it_leads() -> None:
    system = System(members=1)
    assert system.leader() == 0
    system.run_for(0.2)
    assert [role.name for role in system.service(0).roles] == ["LEADER"]


@pytest.mark.parity("CT-37")
def test_a_client_gives_up_when_nobody_leads_in_its_time() -> None:
    system = System(seed=8)
    client = system.client(new_leader_timeout_ns=2_000_000_000)
    system.echo(client, numbered("a", 5))
    system.kill()
    system.run_for(1.9)
    assert not client.is_closed
    system.until(lambda: client.is_closed, "end of the client", timeout_s=10)
    assert client.session is not None
    assert "no new leader" in str(client.session.error)


@pytest.mark.parity("MN-01", "AP-01")
@pytest.mark.parametrize("member_id", range(3))
def test_the_appointed_member_leads(member_id: int) -> None:
    system = System(settings=appointed(member_id))
    assert system.leader() == member_id
    client = system.client()
    system.run_for(25)
    assert client.is_connected


@pytest.mark.parity("AP-02")
def test_an_appointed_leader_answers() -> None:
    system = System(settings=appointed(1))
    assert system.leader() == 1
    client = system.client()
    system.echo(client, numbered("a", 10))
    assert client.received == numbered("a", 10)
    system.await_messages(10)


@pytest.mark.parity("MN-02")
def test_an_appointed_leader_and_its_followers_start_again_from_the_log() -> None:
    system = System(settings=appointed(2))
    system.leader()
    system.echo(system.client(), numbered("a", 10))
    system.await_messages(10)
    system.kill()
    system.start()
    assert system.leader() == 2
    system.await_messages(10)
    assert [system.service(each).loaded for each in system.live] == [0, 0, 0]


@pytest.mark.parity("SI-05")
def test_messages_of_services_come_once_after_a_start_of_all() -> None:
    system = System(seed=9)
    system.echo(system.client(), [b"o a%d" % number for number in range(20)])
    system.until(lambda: all(len(system.service(each).offered) == 20 for each in system.live), "messages")
    system.kill()
    system.start()
    system.leader()
    system.echo(system.client(), [b"o b%d" % number for number in range(20)])
    expected = [b"%s%d" % (prefix, number) for prefix in (b"a", b"b") for number in range(20)]
    system.until(lambda: all(len(system.service(each).offered) >= 40 for each in system.live), "messages")
    system.run_for(1)
    assert [system.service(each).offered for each in system.live] == [expected] * 3


@pytest.mark.parity("SI-01")
def test_what_services_offer_comes_to_all_of_them() -> None:
    system = System(seed=10)
    client = system.client()
    system.echo(client, [b"o a%d" % number for number in range(10)])
    assert len(client.received) == 10
    system.until(lambda: all(len(system.service(each).offered) == 10 for each in system.live), "messages")
    system.run_for(1)
    assert [system.service(each).offered for each in system.live] == [[b"a%d" % n for n in range(10)]] * 3


@pytest.mark.parity("SI-02")
def test_three_services_offer_and_schedule_over_a_failover() -> None:
    system = System(seed=11, services=lambda: [Chorus() for _ in range(3)])
    old = system.leader()
    client = system.client()
    system.say(client, [b"o a", b"t 1 200", b"t 2 2500"])
    system.until(lambda: all(len(s.offered) == 3 for each in system.live for s in system.services[each]), "messages")
    system.kill(old)
    system.leader()
    system.start(old)
    system.leader()
    system.until(lambda: all(len(s.fired) >= 2 for each in system.live for s in system.services[each]), "timers")
    system.run_for(1)
    states = [(service.offered, service.fired) for each in system.live for service in system.services[each]]
    assert states == [([b"a"] * 3, [1, 2])] * 9
