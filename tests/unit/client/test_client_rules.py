"""A client step by step: what it opens and closes again while it connects, and what it passes over when it listens."""

import pytest

from support.media_world import World
from support.wire_data import vectors
from unit.client.member_side import ENDPOINT_LIST, ENDPOINTS, SESSION_ID, ClientSide, MemberSide
from unit.client.test_session import connected
from upheaval_node.client.states import ClientState, ConnectState
from upheaval_node.errors import TimeoutExpired
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT64
from upheaval_node.protocol.message import Message as ClusterMessage

STEPS = [
    ConnectState.CREATE_EGRESS_SUBSCRIPTION,
    ConnectState.CREATE_INGRESS_PUBLICATIONS,
    ConnectState.AWAIT_PUBLICATION_CONNECTED,
    ConnectState.SEND_MESSAGE,
    ConnectState.POLL_RESPONSE,
]


def client_in(step: ConnectState) -> tuple[World, MemberSide, ClientSide]:
    """A client that has come as far as this step of its connect."""
    world = World()
    leader = MemberSide(world, 0)
    side = ClientSide(world)
    world.agents.remove(side)
    for _ in range(400):
        if side.client._connector.state is step:
            return world, leader, side
        side.do_work(world.now)
        if side.client._connector.state is not step:
            world.turn()
            world.ns += 1_000_000
    raise AssertionError(f"never in {step.name}")


@pytest.mark.parity("AC-01")
def test_a_client_begins_with_its_egress() -> None:
    world, _, side = client_in(STEPS[0])
    assert side.client._connector.egress is None
    side.do_work(world.now)
    assert side.client._connector.egress is not None
    assert side.client._connector.state is STEPS[1]


@pytest.mark.parity("AC-02", "AC-03", "AC-04", "AC-05", "AC-06")
@pytest.mark.parametrize("step", STEPS, ids=lambda step: str(step.name))
def test_whatever_was_opened_is_closed_again(step: ConnectState) -> None:
    world, leader, side = client_in(step)
    egress = side.client._connector.egress
    publications = [side.client._ingress.publication(member_id) for member_id in ENDPOINTS]
    side.client.close()
    for _ in range(50):
        world.turn()
        world.ns += 1_000_000
    assert side.state is ClientState.CLOSED
    assert egress is None or egress.is_closed
    assert all(each is None or each.is_closed for each in publications)
    assert not leader.ingress.images or all(image.is_closed for image in leader.ingress.images)


@pytest.mark.parity("AC-07")
def test_a_client_connects_step_by_step_to_one_member() -> None:
    world = World()
    leader = MemberSide(world, 0)
    side = ClientSide(world, {0: ENDPOINTS[0]})
    world.agents.remove(side)
    seen = [side.client._connector.state]
    for _ in range(400):
        side.do_work(world.now)
        world.turn()
        world.ns += 1_000_000
        if side.client._connector.state is not seen[-1]:
            seen.append(side.client._connector.state)
        if seen[-1] is ConnectState.POLL_RESPONSE and leader.count(cm.SessionConnectRequest) and leader.egress is None:
            leader.answer(cm.EventCode.OK)
    assert seen == [*STEPS, ConnectState.CONCLUDE_CONNECT, ConnectState.DONE]
    assert side.state is ClientState.CONNECTED


# --- after the connect ---


@pytest.mark.parity("AE-04")
def test_a_new_leader_that_cannot_be_reached_in_time_ends_the_client() -> None:
    world, leader, side = connected()
    request = leader.request
    other = MemberSide(world, 1)
    leader.stop()
    world.advance(600)
    other.open_egress(request)
    event = cm.NewLeaderEvent(
        leadership_term_id=4, cluster_session_id=SESSION_ID, leader_member_id=2, ingress_endpoints=ENDPOINT_LIST
    )
    other.send(cm.SCHEMA.encode(event))
    world.advance(4_000)
    assert side.state is ClientState.AWAIT_NEW_LEADER_CONNECTION
    world.advance(2_000)
    assert side.client.is_closed
    assert isinstance(side.client.error, TimeoutExpired)


@pytest.mark.parity("AE-05")
def test_each_loss_of_the_leader_makes_the_client_wait_for_one() -> None:
    world, leader, side = connected()
    members = [leader, MemberSide(world, 1), MemberSide(world, 2)]
    request = leader.request
    for number in (1, 2):
        members[number - 1].stop()
        world.advance(600)
        states = [side.state]
        members[number].new_leader(request, term=3 + number)
        world.advance(100)
        states.append(side.state)
        assert states == [ClientState.AWAIT_NEW_LEADER, ClientState.CONNECTED]
    assert side.client.leader_member_id == 2


def events_of(other: int) -> list[ClusterMessage]:
    """One event of each kind for another session."""
    return [
        cm.SessionEvent(cluster_session_id=other, correlation_id=-1, code=cm.EventCode.CLOSED, detail="TIMEOUT"),
        cm.NewLeaderEvent(
            leadership_term_id=9, cluster_session_id=other, leader_member_id=0, ingress_endpoints="0=a:1"
        ),
        cm.AdminResponse(cluster_session_id=other, correlation_id=9, message="no"),
    ]


@pytest.mark.parity("EA-06", "EA-08", "EA-10")
@pytest.mark.parametrize("number", range(3))
def test_events_of_another_session_are_passed_over(number: int) -> None:
    _, leader, side = connected()
    leader.send(cm.SCHEMA.encode(events_of(SESSION_ID + 1)[number]))
    leader.message(b"for us")
    assert side.events == []
    assert (side.state, side.messages) == (ClientState.CONNECTED, [(77, b"for us")])


@pytest.mark.parity("EA-02")
def test_a_message_of_another_schema_is_an_error() -> None:
    world, leader, side = connected()
    message = bytearray(cm.SCHEMA.encode(events_of(SESSION_ID)[0]))
    message[4:6] = (909).to_bytes(2, "little")
    leader.send(bytes(message))
    world.advance(40)
    assert side.client.peer_errors == 1
    assert side.events == []


@pytest.mark.parity("SE-01")
def test_an_event_of_an_older_cluster_has_no_heartbeat_time_out() -> None:
    older = [each for each in vectors() if "/SessionEvent/older" in each.id and each.version < 13]
    assert older
    for vector in older:
        event = cm.SCHEMA.decode(vector.encoded)
        assert isinstance(event, cm.SessionEvent)
        assert event.leader_heartbeat_timeout_ns == NULL_INT64
