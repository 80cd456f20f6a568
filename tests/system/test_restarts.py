"""Members that go and come back: followers, leaders, all of them, with and without what they had."""

from dataclasses import replace

import pytest

from support.system_world import System, numbered
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.settings import MemberSettings, profile_settings


@pytest.mark.parity("CT-01")
def test_a_follower_that_restarts_follows_again_without_an_election_of_the_others() -> None:
    system = System()
    leader = system.leader()
    follower = system.followers()[0]
    before = system.elections(leader)
    system.stop(follower)
    system.start(follower)
    assert system.leader() == leader
    assert system.status(follower).role == "FOLLOWER"
    assert system.elections(follower) == 1
    assert system.elections(leader) == before


@pytest.mark.parity("CT-02")
def test_a_follower_that_is_stopped_tells_its_service() -> None:
    system = System()
    system.leader()
    follower = system.followers()[0]
    system.echo(system.client(), numbered("a", 10))
    system.await_messages(10)
    system.stop(follower)
    assert follower not in system.live
    assert system.service(follower).is_terminated
    assert system.cluster.failures == []


@pytest.mark.parity("CT-22", "CT-39")
def test_a_follower_without_its_data_gets_everything_again() -> None:
    system = System()
    leader = system.leader()
    follower = system.followers()[0]
    client = system.client()
    system.echo(client, numbered("a", 10))
    system.kill(follower)
    system.wipe(follower)
    system.start(follower)
    assert system.leader() == leader
    system.await_messages(10)
    system.echo(client, numbered("b", 10))
    system.await_messages(20)
    assert system.service(follower).loaded == 0


@pytest.mark.parity("CT-26")
def test_both_followers_without_their_data_get_everything_again() -> None:
    system = System()
    leader = system.leader()
    followers = system.followers()
    client = system.client()
    system.echo(client, numbered("a", 10))
    for follower in followers:
        system.kill(follower)
        system.wipe(follower)
        system.start(follower)
        assert system.leader() == leader
    system.echo(client, numbered("b", 10))
    system.await_messages(20)
    assert system.counts() == dict.fromkeys(range(3), 20)


@pytest.mark.parity("CT-48", "CT-55")
@pytest.mark.parametrize("missed", [1, 200])
def test_a_follower_catches_up_within_the_term(missed: int) -> None:
    system = System()
    leader = system.leader()
    follower = system.followers()[0]
    client = system.client()
    system.echo(client, numbered("a", 10))
    term = system.status(leader).leadership_term_id
    system.stop(follower)
    system.echo(client, numbered("b", missed, 300))
    system.start(follower)
    assert system.leader() == leader
    assert system.status(follower).leadership_term_id == term
    system.await_messages(10 + missed)


@pytest.mark.parity("CT-56")
def test_a_follower_catches_up_with_a_timer_that_it_missed() -> None:
    system = System()
    system.leader()
    follower = system.followers()[0]
    client = system.client()
    system.stop(follower)
    system.echo(client, [b"t 7 3000"])
    system.start(follower)
    system.leader()
    system.await_messages(1)
    assert system.service(follower).fired == []
    system.until(lambda: all(system.service(each).fired == [7] for each in system.live), "timer")
    system.run_for(1)
    assert [system.service(each).fired for each in system.live] == [[7]] * 3


@pytest.mark.parity("CT-49")
def test_a_follower_catches_up_with_a_term_that_it_missed() -> None:
    system = System()
    first = system.leader()
    absent, other = system.followers()
    client = system.client()
    system.echo(client, numbered("a", 10))
    system.stop(absent)
    system.echo(client, numbered("b", 10))
    system.stop(first)
    system.start(first)
    second = system.leader()
    assert second in (first, other)
    system.follow(client)
    system.echo(client, numbered("c", 10))
    system.start(absent)
    system.await_messages(30)
    assert system.service(absent).terms == [0, 1]


@pytest.mark.parity("CT-45")
def test_a_member_that_missed_two_terms_fills_them_in_one_by_one() -> None:
    system = System(members=5)
    absent = system.followers()[0]
    client = system.client()
    system.echo(client, numbered("a", 10))
    system.kill(absent)
    for prefix in ("b", "c"):
        leader = system.leader()
        system.kill(leader)
        system.leader()
        system.start(leader)
        system.leader()
        system.follow(client)
        system.echo(client, numbered(prefix, 10))
    system.start(absent)
    system.leader()
    system.await_messages(30)
    terms = [entry.leadership_term_id for entry in system.modules[absent].recording_log.entries]
    assert terms == list(range(max(terms) + 1))
    assert max(terms) >= 2


@pytest.mark.parity("CT-46")
def test_a_late_member_without_a_log_gets_all_terms() -> None:
    system = System(members=4, starts=(0, 1, 2))
    client = system.client()
    system.echo(client, numbered("a", 10))
    for prefix in ("b", "c"):
        leader = system.leader()
        system.kill(leader)
        system.wipe(leader)
        system.start(leader)
        system.leader()
        system.follow(client)
        system.echo(client, numbered(prefix, 10))
    system.start(3)
    system.leader()
    system.await_messages(30)
    logs = [
        [(e.leadership_term_id, e.term_base_log_position) for e in system.modules[each].recording_log.entries]
        for each in system.live
    ]
    assert all(log == logs[0] for log in logs)
    assert len(logs[0]) >= 3


@pytest.mark.parity("CT-44")
def test_a_leader_and_a_follower_with_a_shorter_log_start_again() -> None:
    system = System()
    leader = system.leader()
    short, other = system.followers()
    client = system.client()
    system.echo(client, numbered("a", 10))
    system.kill(short)
    system.echo(client, numbered("b", 100, 200))
    system.kill(leader, other)
    system.start(leader, short)
    assert system.leader() == leader
    system.await_messages(110)


@pytest.mark.parity("CT-41")
def test_only_the_member_that_has_data_can_lead() -> None:
    system = System()
    system.leader()
    client = system.client()
    system.echo(client, numbered("a", 5000))
    system.await_messages(5000)
    system.end(ControlToggle.ABORT)
    system.wipe(0, 2)
    system.start()
    assert system.leader() == 1
    system.await_messages(5000)


@pytest.mark.parity("CT-43")
def test_a_leader_goes_on_with_one_follower_that_lost_everything() -> None:
    system = System()
    leader = system.leader()
    first, second = system.followers()
    client = system.client()
    system.echo(client, numbered("a", 20))
    system.kill(first)
    system.kill(second)
    system.until(system.has_lost_its_leader, "end of the leadership")
    system.wipe(first)
    system.start(first)
    assert system.leader() == leader
    again = system.client()
    system.echo(again, numbered("b", 20))
    system.await_messages(40)


@pytest.mark.parity("CT-15")
def test_a_leader_without_a_quorum_steps_down_and_is_elected_again() -> None:
    system = System()
    leader = system.leader()
    first, second = system.followers()
    client = system.client(new_leader_timeout_ns=20_000_000_000)
    system.echo(client, numbered("a", 10))
    session = client.id
    system.stop(first)
    system.run_for(0.5)
    assert system.leader() == leader
    # The member that comes back has less log than the leader of before, which therefore leads again.
    system.echo(client, numbered("b", 10))
    system.stop(second)
    system.until(system.has_lost_its_leader, "end of the leadership")
    system.start(first)
    assert system.leader() == leader
    system.follow(client)
    system.echo(client, numbered("c", 10))
    assert client.id == session
    system.await_messages(30)


@pytest.mark.parity("CT-31")
def test_the_service_of_a_leader_without_followers_is_told() -> None:
    system = System()
    leader = system.leader()
    system.run_for(0.1)
    roles = system.service(leader).roles
    assert [role.name for role in roles] == ["LEADER"]
    system.kill(*system.followers())
    system.until(lambda: len(roles) == 2, "change of role")
    assert roles[-1].name == "FOLLOWER"


@pytest.mark.parity("MN-03")
def test_a_member_that_missed_messages_catches_up_after_a_start_of_all() -> None:
    settings = appointed(0)
    system = System(settings=settings)
    assert system.leader() == 0
    client = system.client()
    system.echo(client, numbered("a", 5))
    system.stop(2)
    system.echo(client, numbered("b", 5))
    system.stop(1, 0)
    system.start()
    assert system.leader() == 0
    system.await_messages(10)
    assert system.counts()[2] == 10


def appointed(member_id: int) -> MemberSettings:
    settings = profile_settings("test")
    return replace(settings, cluster=replace(settings.cluster, appointed_leader_id=member_id))
