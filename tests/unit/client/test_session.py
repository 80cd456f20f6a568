"""A cluster client finds the leader, follows it, and survives whatever members send."""

import pytest
from hypothesis import given, settings, strategies as st

from support.media_world import World
from unit.client.member_side import ENDPOINT_LIST, ENDPOINTS, SESSION_ID, ClientSide, MemberSide
from upheaval_node.client.connect import AuthenticationError, ClusterError
from upheaval_node.client.states import LEGAL_CONNECT_MOVES, LEGAL_MOVES, ClientState, ConnectState
from upheaval_node.errors import TimeoutExpired, UsageError
from upheaval_node.media.api import CLOSED, NOT_CONNECTED
from upheaval_node.protocol import cluster_messages as cm


class Password:
    def encoded_credentials(self) -> bytes:
        return b"user"

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        return encoded_challenge[::-1]


def connected() -> tuple[World, MemberSide, ClientSide]:
    """A world of one member that leads, and a client with a session."""
    world = World()
    leader = MemberSide(world, 0)
    side = ClientSide(world)
    world.advance(100)
    leader.answer(cm.EventCode.OK)
    assert side.state is ClientState.CONNECTED
    return world, leader, side


@pytest.mark.parity("EA-03", "EA-04")
def test_it_connects_to_the_member_that_answers_and_hears_the_service() -> None:
    _, leader, side = connected()
    client = side.client
    assert (client.session_id, client.leader_member_id, client.leadership_term_id) == (SESSION_ID, 0, 3)
    leader.message(b"hello")
    leader.message(b"not for us", session_id=7)
    assert side.messages == [(77, b"hello")]


def test_the_connect_request_says_what_the_cluster_needs() -> None:
    world = World()
    leader = MemberSide(world, 0)
    ClientSide(world, credentials=Password(), client_name="tester")
    world.advance(60)
    request = leader.request
    assert (request.response_stream_id, request.version, request.encoded_credentials) == (102, 768, b"user")
    assert "control-mode=response" in request.response_channel
    assert request.client_info.startswith("name=tester")


def test_messages_carry_session_and_term_and_arrive_in_order() -> None:
    world, leader, side = connected()
    assert side.client.offer(b"one") > 0
    assert side.client.offer(b"t", b"wo") > 0
    world.settle()
    header = leader.last(cm.SessionMessageHeader)
    assert isinstance(header, cm.SessionMessageHeader)
    assert (header.cluster_session_id, header.leadership_term_id) == (SESSION_ID, 3)
    assert leader.payloads == [b"one", b"two"]


def test_an_endpoint_channel_is_told_with_the_port_that_was_bound() -> None:
    world = World()
    leader = MemberSide(world, 0)
    side = ClientSide(world, egress_channel="aeron:tcp?endpoint=client:0")
    world.advance(100)
    assert leader.request.response_channel.startswith("aeron:tcp?endpoint=client:4")
    leader.open_egress(leader.request)
    world.advance(100)
    leader.answer(cm.EventCode.OK)
    leader.message(b"direct")
    assert side.messages == [(77, b"direct")]


def test_a_redirect_is_followed_to_the_leader() -> None:
    world = World()
    follower = MemberSide(world, 1)
    side = ClientSide(world, {1: ENDPOINTS[1]})
    world.advance(60)
    leader = MemberSide(world, 2)
    follower.answer(cm.EventCode.REDIRECT, ENDPOINT_LIST, leader=2)
    world.advance(100)
    leader.answer(cm.EventCode.OK)
    assert (side.state, side.client.leader_member_id) == (ClientState.CONNECTED, 2)
    assert leader.request.correlation_id != follower.request.correlation_id
    assert side.client.ingress_endpoints == ENDPOINTS


def test_a_redirect_to_a_dead_leader_asks_another_member_again() -> None:
    world = World()
    follower = MemberSide(world, 1)
    ClientSide(world, {1: ENDPOINTS[1]})
    world.advance(60)
    follower.answer(cm.EventCode.REDIRECT, ENDPOINT_LIST, leader=2)
    world.advance(400)
    assert follower.count(cm.SessionConnectRequest) == 1
    world.advance(300)
    assert follower.count(cm.SessionConnectRequest) == 2


def test_a_member_that_dies_before_it_answers_is_replaced_by_another() -> None:
    world = World()
    first = MemberSide(world, 0)
    side = ClientSide(world)
    world.advance(60)
    assert first.count(cm.SessionConnectRequest) == 1
    first.stop()
    second = MemberSide(world, 1)
    world.advance(600)
    second.answer(cm.EventCode.OK)
    assert (side.state, side.client.leader_member_id) == (ClientState.CONNECTED, 1)


@pytest.mark.parity("AU-03")
def test_a_challenge_is_answered_with_the_credentials() -> None:
    world = World()
    leader = MemberSide(world, 0)
    side = ClientSide(world, credentials=Password())
    world.advance(60)
    leader.open_egress(leader.request)
    challenge = cm.Challenge(
        correlation_id=leader.request.correlation_id, cluster_session_id=SESSION_ID, encoded_challenge=b"abc"
    )
    leader.send(cm.SCHEMA.encode(challenge))
    world.advance(20)
    answer = leader.last(cm.ChallengeResponse)
    assert isinstance(answer, cm.ChallengeResponse)
    assert (answer.encoded_credentials, answer.cluster_session_id) == (b"cba", SESSION_ID)
    leader.answer(cm.EventCode.OK)
    assert side.state is ClientState.CONNECTED


@pytest.mark.parametrize(
    ("code", "error"),
    [(cm.EventCode.ERROR, ClusterError), (cm.EventCode.AUTHENTICATION_REJECTED, AuthenticationError)],
)
def test_a_refusal_ends_the_client_with_the_reason(code: cm.EventCode, error: type[Exception]) -> None:
    world = World()
    leader = MemberSide(world, 0)
    side = ClientSide(world)
    world.advance(60)
    leader.answer(code, "concurrent session limit")
    assert side.state is ClientState.CLOSED
    assert type(side.client.error) is error
    assert "concurrent session limit" in str(side.client.error)


def test_answers_to_other_requests_are_not_ours() -> None:
    world = World()
    leader = MemberSide(world, 0)
    side = ClientSide(world)
    world.advance(60)
    leader.answer(cm.EventCode.OK, correlation_id=12345)
    assert side.state is ClientState.CONNECTING


def test_nobody_answering_ends_in_a_time_out_that_says_where_it_stood() -> None:
    world = World()
    side = ClientSide(world, message_timeout_ns=1_000_000_000)
    world.advance(960)
    assert side.state.name == "CONNECTING"
    world.advance(100)
    assert side.state is ClientState.CLOSED
    assert isinstance(side.client.error, TimeoutExpired)
    assert "AWAIT_PUBLICATION_CONNECTED" in str(side.client.error)
    assert side.client.offer(b"late") == CLOSED


def test_keep_alives_go_out_by_themselves() -> None:
    world, leader, _ = connected()
    world.advance(3500)
    assert leader.count(cm.SessionKeepAlive) == 3


@pytest.mark.parity("AE-01", "EA-07")
def test_a_new_leader_is_followed_and_the_next_message_goes_there() -> None:
    world, leader, side = connected()
    request = leader.request
    successor = MemberSide(world, 1)
    leader.stop()
    world.advance(600)
    assert side.state is ClientState.AWAIT_NEW_LEADER
    assert side.client.offer(b"too early") == NOT_CONNECTED
    successor.new_leader(request)
    world.advance(100)
    assert (side.state, side.client.leader_member_id) == (ClientState.CONNECTED, 1)
    assert side.client.offer(b"to the new one") > 0
    world.settle()
    header = successor.last(cm.SessionMessageHeader)
    assert isinstance(header, cm.SessionMessageHeader)
    assert header.leadership_term_id == 4
    assert successor.payloads == [b"to the new one"]
    successor.message(b"welcome")
    assert side.messages == [(77, b"welcome")]


def test_a_new_leader_is_heard_of_before_the_loss_of_the_old_one_is_noticed() -> None:
    world, leader, side = connected()
    request = leader.request
    successor = MemberSide(world, 1)
    leader.stop()
    world.advance(200)
    assert side.state.name == "CONNECTED"
    successor.new_leader(request)
    world.advance(40)
    assert side.client.offer(b"at once") > 0
    world.settle()
    assert (side.state, successor.payloads) == (ClientState.CONNECTED, [b"at once"])


def test_a_new_leader_event_of_an_old_term_is_ignored() -> None:
    _, leader, side = connected()
    leader.new_leader(leader.request, term=2)
    assert (side.state, side.client.leadership_term_id, side.events) == (ClientState.CONNECTED, 3, [])


@pytest.mark.parity("AE-03")
def test_without_a_new_leader_the_session_is_given_up() -> None:
    world, leader, side = connected()
    leader.stop()
    world.advance(2000)
    assert side.state.name == "AWAIT_NEW_LEADER"
    world.advance(1000)
    assert side.state is ClientState.CLOSED
    assert isinstance(side.client.error, TimeoutExpired)


@pytest.mark.parity("EA-05")
def test_the_cluster_closing_the_session_closes_the_client() -> None:
    world, leader, side = connected()
    event = cm.SessionEvent(
        cluster_session_id=SESSION_ID,
        correlation_id=-1,
        leadership_term_id=3,
        leader_member_id=0,
        code=cm.EventCode.CLOSED,
        detail="TIMEOUT",
    )
    leader.send(cm.SCHEMA.encode(event))
    world.settle()
    assert side.state is ClientState.CLOSED
    assert "TIMEOUT" in str(side.client.error)
    assert side.events == [event]


def test_closing_tells_the_leader() -> None:
    world, leader, side = connected()
    side.client.close()
    world.advance(40)
    assert leader.count(cm.SessionCloseRequest) == 1
    assert side.client.error is None


@pytest.mark.parity("EA-09")
def test_an_admin_response_reaches_the_listener() -> None:
    world, leader, side = connected()
    assert side.client.send_snapshot_request(9)
    world.settle()
    assert leader.count(cm.AdminRequest) == 1
    response = cm.AdminResponse(
        cluster_session_id=SESSION_ID,
        correlation_id=9,
        request_type=cm.AdminRequestType.SNAPSHOT,
        response_code=cm.AdminResponseCode.UNAUTHORISED_ACCESS,
        message="no",
    )
    leader.send(cm.SCHEMA.encode(response))
    assert side.events == [response]


@pytest.mark.parametrize("endpoints", ["", "1=m1:9002", "0=m0:9002,0=m0:9002", "0=nowhere", "x=m0:1", "0=a:1," * 99])
def test_a_new_leader_event_that_makes_no_sense_drops_its_stream(endpoints: str) -> None:
    world, leader, side = connected()
    leader.new_leader(leader.request, endpoints=endpoints)
    world.advance(40)
    assert side.client.peer_errors == 1
    assert side.state is ClientState.AWAIT_NEW_LEADER


@given(st.lists(st.binary(min_size=0, max_size=60), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_hostile_egress_bytes_never_break_the_client(noise: list[bytes]) -> None:
    world, leader, side = connected()
    assert leader.egress is not None
    for piece in noise:
        leader.egress.offer(piece)
    world.advance(40)
    assert side.state in (ClientState.CONNECTED, ClientState.AWAIT_NEW_LEADER)
    assert side.client.peer_errors <= len(noise)


@given(st.sampled_from([cm.SessionEvent, cm.NewLeaderEvent, cm.AdminResponse, cm.Challenge]), st.data())
@settings(max_examples=30, deadline=None)
def test_cut_events_never_break_the_client(kind: type[cm.SessionEvent], data: st.DataObject) -> None:
    world, leader, side = connected()
    encoded = cm.SCHEMA.encode(kind(cluster_session_id=SESSION_ID))
    assert leader.egress is not None
    leader.egress.offer(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    world.advance(40)
    assert side.client.peer_errors == 1
    assert side.state is ClientState.AWAIT_NEW_LEADER


@pytest.mark.parametrize("endpoints", ["", "0", "0=", "0=host", "a=h:1", "0=h:1,0=h:2"])
def test_wrong_endpoint_lists_of_the_caller_are_refused(endpoints: str) -> None:
    world = World()
    with pytest.raises(UsageError):
        ClientSide(world, endpoints)  # type: ignore[arg-type]


def test_every_state_has_its_moves() -> None:
    assert set(LEGAL_MOVES) == set(ClientState)
    assert set(LEGAL_CONNECT_MOVES) == set(ConnectState)
