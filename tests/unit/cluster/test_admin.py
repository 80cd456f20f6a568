"""What clients may ask of the cluster beside sending messages, who may, and how authentication gets to the services."""

from random import Random

import pytest

from support.cluster_parts import TERM, PartsWorld
from support.cluster_world import ClusterWorld, EchoService
from unit.cluster.test_sessions import ChallengeOnce, ClientSide
from unit.cluster.test_snapshots import snapshot_count
from upheaval_node.client.session import ClusterClient
from upheaval_node.cluster.authentication import AuthorisationService, authorisation_named
from upheaval_node.cluster.module_state import ControlToggle
from upheaval_node.errors import UsageError
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import ClientSession


class Named:
    """Allows what the client of one name asks, and keeps what it was asked."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self.asked: list[tuple[int, int, int | None]] = []

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:
        self.asked.append((schema_id, template_id, request_type))
        return principal == self._name


def opened(authorisation: AuthorisationService | None = None) -> tuple[PartsWorld, ClientSide]:
    authenticator = ChallengeOnce()
    authenticator.answers.append(b"secret")
    world = PartsWorld(authenticator=authenticator, authorisation=authorisation)
    client = ClientSide(world)
    client.connect()
    client.tick()
    client.events()
    assert 1 in world.sessions.open
    world.context.published.control_toggle.set(ControlToggle.NEUTRAL)
    return world, client


def answers(client: ClientSide, request: cm.AdminRequest) -> list[tuple[int, str]]:
    client.world.sessions.on_admin_request(client.world.now, request)
    client.tick()
    return [
        (event.response_code, event.message)
        for event in client.events()
        if isinstance(event, cm.AdminResponse) and event.correlation_id == request.correlation_id
    ]


def snapshot_request(term_id: int = TERM, session_id: int = 1) -> cm.AdminRequest:
    return cm.AdminRequest(term_id, session_id, 77, cm.AdminRequestType.SNAPSHOT)


def test_by_default_nobody_may_ask_for_a_snapshot() -> None:
    world, client = opened()
    text = "Execution of the SNAPSHOT request was not authorised"
    assert answers(client, snapshot_request()) == [(cm.AdminResponseCode.UNAUTHORISED_ACCESS, text)]
    assert world.context.published.control_toggle.get() == ControlToggle.NEUTRAL


def test_who_may_sets_the_toggle_once() -> None:
    authorisation = Named(b"me")
    world, client = opened(authorisation)
    assert answers(client, snapshot_request()) == [(cm.AdminResponseCode.OK, "")]
    assert world.context.published.control_toggle.get() == ControlToggle.SNAPSHOT
    text = "Failed to switch ClusterControl to the ToggleState.SNAPSHOT state"
    assert answers(client, snapshot_request()) == [(cm.AdminResponseCode.ERROR, text)]
    assert authorisation.asked == [(111, 26, 0)] * 2


def test_an_unknown_request_is_an_error() -> None:
    _, client = opened(authorisation_named("ALLOW_ALL"))
    assert answers(client, cm.AdminRequest(TERM, 1, 77, 5)) == [(cm.AdminResponseCode.ERROR, "Unknown request type: 5")]


@pytest.mark.parametrize(("term_id", "session_id"), [(TERM - 1, 1), (TERM, 2)])
def test_a_request_of_another_term_or_session_is_dropped(term_id: int, session_id: int) -> None:
    world, client = opened(authorisation_named("ALLOW_ALL"))
    assert answers(client, snapshot_request(term_id, session_id)) == []
    assert world.context.published.control_toggle.get() == ControlToggle.NEUTRAL


def test_the_named_rules() -> None:
    for name, allowed in (("", {77, 79, 81}), ("ALLOW_ALL", {26, 77, 79, 81}), ("DENY_ALL", set[int]())):
        rule = authorisation_named(name)
        assert {each for each in (26, 77, 79, 81) if rule.is_authorised(111, each, None, b"")} == allowed
    assert not authorisation_named("").is_authorised(101, 77, None, b"")
    with pytest.raises(UsageError):
        authorisation_named("allow")


def test_a_follower_hands_the_answer_to_a_challenge_to_the_leader() -> None:
    world = PartsWorld()
    world.leader.active_log = None
    answer = cm.ChallengeResponse(5, 1, b"secret")
    world.sessions.on_challenge_response(world.now, answer)
    assert world.leader.forwarded == [answer]


class Greeting(EchoService):
    """Answers with the principal of the client."""

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        super().on_session_open(session, timestamp)
        self.messages.append((0, session.encoded_principal))


class Secret:
    def encoded_credentials(self) -> bytes:
        return b""

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        return encoded_challenge + b" me"


def test_a_challenged_client_is_known_to_the_services_of_all_members_by_its_principal() -> None:
    world = ClusterWorld(3, services=lambda: [Greeting()])
    world.start_all()
    leader = world.await_all()
    authenticator = ChallengeOnce()
    leader.module._state.sessions._authenticator = authenticator
    driver = MediaDriver(world.network, StaticResolver(), world.settings.media, Random(4))
    endpoints = {member_id: f"m{member_id}:1" for member_id in range(3)}
    session = ClusterClient(driver, endpoints, random=Random(5), credentials=Secret())

    def turn() -> bool:
        driver.do_work(world.now)
        session.do_work(world.now)
        session.poll(lambda _, __: None)
        return session.is_connected

    world.until(turn, step_ms=1)
    assert authenticator.answers == [b"who? me"]
    world.until(lambda: all((0, b"me") in member.service.messages for member in world.members.values()))


def test_a_client_that_may_has_a_snapshot_taken() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    leader.module._state.sessions._authorisation = authorisation_named("ALLOW_ALL")
    client = world.client()
    assert client.session.send_snapshot_request(9)
    world.until(lambda: all(snapshot_count(member) == 1 for member in world.members.values()))
