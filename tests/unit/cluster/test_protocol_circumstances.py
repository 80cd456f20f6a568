"""Circumstances of the documents that no other test is about: what is left alone, ends at once, or stays as it is."""

from dataclasses import replace
from random import Random

from support.cluster_world import ClusterWorld, Member
from unit.cluster.test_backup_requests import configured
from unit.cluster.test_sessions import ChallengeOnce
from unit.cluster.test_snapshots import toggle
from upheaval_node import counters as counter_types
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.counters import Counter
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import ClusterTimeouts, profile_settings
from upheaval_node.types import S

CONTROL = "aeron:ipc?term-length=128k"


def test_a_leader_waits_ten_seconds_for_a_dead_follower() -> None:
    # As Aeron has it: the test profile waits for less.
    timeouts = replace(profile_settings("test").cluster.timeouts, termination_ns=ClusterTimeouts().termination_ns)
    world = ClusterWorld(3, settings=configured(timeouts=timeouts))
    world.start_all()
    leader = world.await_all()
    world.kill(world.followers()[0].id)
    begin_ns = world.ns
    toggle(leader, ControlToggle.ABORT)
    world.until(lambda: leader.ended is not None)
    assert 10 * S <= world.ns - begin_ns <= 10.3 * S


def value_of(member: Member, type_id: int) -> int:
    found: list[int] = []

    def visit(counter: Counter, counter_type: int, _key: bytes, _label: str) -> None:
        if counter_type == type_id:
            found.append(counter.get())

    member.counters.for_each(visit)
    (value,) = found
    return value


def test_the_toggle_is_neutral_on_the_leader_and_inactive_elsewhere() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    assert value_of(leader, counter_types.CONTROL_TOGGLE) == ControlToggle.NEUTRAL
    assert {value_of(each, counter_types.CONTROL_TOGGLE) for each in world.followers()} == {ControlToggle.INACTIVE}
    world.kill(leader.id)
    new = world.await_leader()
    assert value_of(new, counter_types.CONTROL_TOGGLE) == ControlToggle.NEUTRAL


def test_tools_and_services_ignore_each_others_messages() -> None:
    world = ClusterWorld(1)
    world.start_all()
    leader = world.await_all()
    tool = leader.driver.add_publication(CONTROL, 105)
    answers = leader.driver.add_subscription(CONTROL, 104)
    world.settle()
    client = world.client()
    for correlation_id in range(3):
        tool.offer(cm.SCHEMA.encode(cm.ClusterMembersQuery(correlation_id, bool(correlation_id % 2))))
        world.echo(client, [b"%d" % correlation_id])
    seen: list[object] = []
    answers.poll(lambda message: seen.append(cm.SCHEMA.decode(message.payload)), 10)
    assert [type(each).__name__ for each in seen] == [
        "ClusterMembersResponse",
        "ClusterMembersExtendedResponse",
        "ClusterMembersResponse",
    ]
    assert leader.errors.texts == []
    assert [payload for _, payload in leader.service.messages] == [b"0", b"1", b"2"]


def test_an_answer_to_a_challenge_that_a_follower_hands_on_opens_the_session() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    authenticator = ChallengeOnce()
    leader.module._state.sessions._authenticator = authenticator
    driver = MediaDriver(world.network, StaticResolver(), world.settings.media, Random(4))
    egress = driver.add_subscription("aeron:tcp?endpoint=c:1", 102)
    ingress = {member_id: driver.add_publication(f"aeron:tcp?endpoint=m{member_id}:1", 101) for member_id in range(3)}
    events: list[object] = []

    def turn() -> None:
        driver.do_work(world.now)
        egress.poll(lambda message: events.append(cm.SCHEMA.decode(message.payload)), 10)

    def heard(kind: type) -> bool:
        turn()
        return any(isinstance(event, kind) for event in events)

    def are_connected() -> bool:
        turn()
        return all(publication.is_connected for publication in ingress.values())

    world.until(are_connected, step_ms=1)
    request = cm.SessionConnectRequest(1, 102, 768, response_channel="aeron:tcp?endpoint=c:1")
    assert ingress[leader.id].offer(cm.SCHEMA.encode(request)) > 0
    world.until(lambda: heard(cm.Challenge), step_ms=1)
    (challenge,) = [event for event in events if isinstance(event, cm.Challenge)]
    answer = cm.ChallengeResponse(9, challenge.cluster_session_id, b"it is me")
    assert ingress[world.followers()[0].id].offer(cm.SCHEMA.encode(answer)) > 0
    world.until(lambda: heard(cm.SessionEvent), step_ms=1)
    assert authenticator.answers == [b"it is me"]
    (event,) = [event for event in events if isinstance(event, cm.SessionEvent)]
    assert (event.code, event.correlation_id) == (cm.EventCode.OK, 9)
