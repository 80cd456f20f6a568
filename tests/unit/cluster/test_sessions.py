"""Client sessions: opening, limits, time-outs, closing, and what an election does to them."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from support.cluster_parts import TERM, PartsWorld
from upheaval_node.cluster.authentication import AcceptEveryone, SessionProxy
from upheaval_node.cluster.session import LEGAL_MOVES, SessionState
from upheaval_node.cluster.sessions import SCANS_PER_TIMEOUT
from upheaval_node.media.api import BACK_PRESSURED, Image, Message, Publication, Subscription
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.types import MS, NULL_VALUE, Now, S


class Refuse(AcceptEveryone):
    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        proxy.reject()


class ChallengeOnce(AcceptEveryone):
    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        proxy.challenge(b"who?")

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self.answers.append(encoded_credentials)

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        if self.answers:
            proxy.authenticate(b"me")


class ChallengeSlowly(ChallengeOnce):
    """Takes answers, and decides on none."""

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        pass


class ClientSide:
    """A client's end of the egress, and an ingress image that the session is linked to."""

    def __init__(self, world: PartsWorld, name: str = "c") -> None:
        driver = world.client_driver()
        self.world = world
        self.channel = f"aeron:tcp?endpoint={name}:1"
        self.egress: Subscription = driver.add_subscription(self.channel, 102)
        self.ingress = driver.add_publication(f"aeron:tcp?endpoint=m0-{name}:1", 101)
        subscription = world.media.add_subscription(f"aeron:tcp?endpoint=m0-{name}:1", 101)
        world.until_true(lambda: bool(subscription.images))
        self.image: Image = subscription.images[0]

    def connect(self, correlation_id: int = 1, version: int = 768) -> None:
        request = cm.SessionConnectRequest(correlation_id, 102, version, response_channel=self.channel)
        self.world.sessions.on_connect_request(self.world.now, request, self.image)
        self.tick()

    def tick(self, ms: int = 40) -> None:
        for _ in range(2):
            self.world.advance(ms)
            self.world.sessions.process_pending(self.world.now)
            self.world.sessions.check(self.world.now)
            self.world.sessions.answer_waiting(self.world.now)
        self.world.advance(ms)

    def events(self) -> list[object]:
        got: list[object] = []

        def take(message: Message) -> None:
            got.append(cm.SCHEMA.decode(message.payload))

        self.egress.poll(take, 100)
        return got

    def event_codes(self) -> list[tuple[cm.EventCode | int, str]]:
        return [(event.code, event.detail) for event in self.events() if isinstance(event, cm.SessionEvent)]


def entry_types(world: PartsWorld) -> list[str]:
    return [type(entry).__name__ for entry, _ in world.read_log()]


def test_a_client_gets_its_session_when_the_log_has_it() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    client.connect()
    assert client.event_codes() == [(cm.EventCode.OK, "")]
    (entry, _), *rest = world.read_log()
    assert not rest
    assert isinstance(entry, cm.SessionOpenEvent)
    session = world.sessions.open[entry.cluster_session_id]
    assert session.opened_log_position == world.log_publication.position
    assert (entry.response_channel, entry.response_stream_id) == (client.channel, 102)


class Busy:
    """A publication to a client that takes nothing for now."""

    def __init__(self, publication: Publication) -> None:
        self.is_busy = True
        self._publication = publication

    def __getattr__(self, name: str) -> Any:
        return getattr(self._publication, name)

    def offer(self, *parts: Any) -> int:
        return BACK_PRESSURED if self.is_busy else self._publication.offer(*parts)


@pytest.mark.pure
def test_a_client_that_takes_nothing_hears_later_that_its_session_is_open() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    request = cm.SessionConnectRequest(1, 102, 768, response_channel=client.channel)
    world.sessions.on_connect_request(world.now, request, client.image)
    (session,) = world.sessions.pending
    assert session._publication is not None
    busy = Busy(session._publication)
    session._publication = busy  # type: ignore[assignment]
    client.tick()
    assert session.state is SessionState.OPEN
    assert client.events() == []
    busy.is_busy = False
    client.tick()
    assert client.event_codes() == [(cm.EventCode.OK, "")]
    client.tick()
    assert client.events() == []


def test_a_client_of_another_major_version_is_told_so_and_uses_up_an_id() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    client.connect(version=1 << 16)
    assert client.event_codes() == [(cm.EventCode.ERROR, "invalid client version 1.0.0, cluster is 0.3.0")]
    assert world.sessions.next_session_id == 2
    assert entry_types(world) == []


@pytest.mark.parity("CM-02")
def test_sessions_above_the_limit_are_refused() -> None:
    world = PartsWorld(max_sessions=1)
    first, second = ClientSide(world, "a"), ClientSide(world, "b")
    first.connect()
    second.connect()
    assert first.event_codes() == [(cm.EventCode.OK, "")]
    assert second.event_codes() == [(cm.EventCode.ERROR, "concurrent session limit")]


def test_a_refused_client_hears_why() -> None:
    world = PartsWorld(authenticator=Refuse())
    client = ClientSide(world)
    client.connect()
    client.tick()
    assert client.event_codes() == [(cm.EventCode.AUTHENTICATION_REJECTED, "session failed authentication")]
    assert not world.sessions.pending
    assert not world.sessions.answering


def test_a_challenged_client_opens_after_its_answer() -> None:
    world = PartsWorld(authenticator=ChallengeOnce())
    client = ClientSide(world)
    client.connect()
    (challenge,) = client.events()
    assert isinstance(challenge, cm.Challenge)
    assert challenge.encoded_challenge == b"who?"
    response = cm.ChallengeResponse(9, challenge.cluster_session_id, b"it is me")
    world.sessions.on_challenge_response(world.now, response)
    client.tick()
    assert client.event_codes() == [(cm.EventCode.OK, "")]
    (entry, _), *_ = world.read_log()
    assert isinstance(entry, cm.SessionOpenEvent)
    assert (entry.correlation_id, entry.encoded_principal) == (9, b"me")


def test_the_time_of_a_challenged_client_begins_anew_with_its_answer() -> None:
    """Who authenticates it may take as long as a session may be silent."""
    world = PartsWorld(authenticator=ChallengeSlowly())
    client = ClientSide(world)
    client.connect()
    (challenge,) = client.events()
    assert isinstance(challenge, cm.Challenge)
    timeout_ms = world.context.settings.timeouts.session_ns // MS
    client.tick(timeout_ms // 4)
    world.sessions.on_challenge_response(world.now, cm.ChallengeResponse(9, challenge.cluster_session_id, b"me"))
    client.tick(timeout_ms // 4)
    assert [session.id for session in world.sessions.pending] == [challenge.cluster_session_id]
    client.tick(timeout_ms // 4)
    assert not world.sessions.pending


@pytest.mark.parametrize("is_leader", [True, False])
def test_as_many_clients_that_are_sent_away_hear_it_as_may_wait_for_it(is_leader: bool) -> None:
    world = PartsWorld()
    if not is_leader:
        world.leader.active_log = None
    client = ClientSide(world)
    for correlation_id in range(100):
        request = cm.SessionConnectRequest(correlation_id, 102, 1 << 16, response_channel=client.channel)
        world.sessions.on_connect_request(world.now, request, client.image)
    assert len(world.sessions.answering) == 64


def test_channels_that_reach_into_the_member_are_refused() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    for channel in ("aeron:ipc", "aeron-spy:aeron:tcp?session-id=1", "nonsense", "aeron:tcp?control-mode=manual"):
        request = cm.SessionConnectRequest(1, 102, 768, response_channel=channel)
        world.sessions.on_connect_request(world.now, request, client.image)
    client.tick()
    client.tick()
    assert not world.sessions.pending
    assert entry_types(world) == []


@pytest.mark.parity("CM-03")
def test_a_silent_session_times_out_and_a_keep_alive_prevents_it() -> None:
    world = PartsWorld()
    silent, alive = ClientSide(world, "a"), ClientSide(world, "b")
    silent.connect()
    alive.connect()
    ids = list(world.sessions.open)
    for _ in range(11):
        world.ns += S
        world.sessions.on_keep_alive(world.now, cm.SessionKeepAlive(TERM, ids[1]), alive.image)
        world.sessions.check(world.now)
        world.settle()
    assert list(world.sessions.open) == [ids[1]]
    assert (cm.EventCode.CLOSED, "TIMEOUT") in silent.event_codes()
    closes = [entry for entry, _ in world.read_log() if isinstance(entry, cm.SessionCloseEvent)]
    assert [(entry.cluster_session_id, entry.close_reason) for entry in closes] == [(ids[0], cm.CloseReason.TIMEOUT)]
    assert world.context.published.timed_out_clients.get() == 1


def require_last_activity(world: PartsWorld, session_id: int, began_ns: int) -> None:
    """The session times out one time-out after `began_ns`, at the next look at all sessions, and not before."""
    sessions = world.sessions
    timeout_ns = world.context.settings.timeouts.session_ns
    world.ns = began_ns + timeout_ns
    sessions._next_scan_ns = world.ns
    sessions.check(world.now)
    assert session_id in sessions.open
    world.ns += timeout_ns // SCANS_PER_TIMEOUT
    sessions.check(world.now)
    assert session_id not in sessions.sessions
    closed = [entry for entry, _ in world.read_log() if isinstance(entry, cm.SessionCloseEvent)]
    assert [(each.cluster_session_id, each.close_reason) for each in closed] == [(session_id, cm.CloseReason.TIMEOUT)]


def test_the_time_of_a_session_begins_when_the_log_has_it() -> None:
    world = PartsWorld(authenticator=ChallengeOnce())
    client = ClientSide(world)
    client.connect()
    (challenge,) = client.events()
    assert isinstance(challenge, cm.Challenge)
    world.ns += 2 * S
    world.sessions.on_challenge_response(world.now, cm.ChallengeResponse(9, challenge.cluster_session_id, b""))
    world.ns += 2 * S
    world.sessions.process_pending(world.now)
    require_last_activity(world, challenge.cluster_session_id, world.ns)


@pytest.mark.parametrize("what", ["message", "keep-alive", "touch"])
def test_the_time_of_a_session_begins_anew_with_what_is_heard_of_it(what: str) -> None:
    world = PartsWorld()
    client, sessions = ClientSide(world), world.sessions
    client.connect()
    (session_id,) = sessions.open
    world.ns += 4 * S
    match what:
        case "message":
            assert sessions.on_session_message(world.now, TERM, session_id, b"x")
        case "keep-alive":
            sessions.on_keep_alive(world.now, cm.SessionKeepAlive(TERM, session_id), client.image)
        case _:
            sessions.touch(world.now)
    require_last_activity(world, session_id, world.ns)


def test_the_time_of_a_session_begins_anew_with_a_new_leader() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    world.sessions.on_log_open(world.now, cm.SessionOpenEvent(TERM - 1, 1, 8, 5, 102, client.channel), 128)
    world.ns += 30 * S
    world.sessions.become_leader(world.now, is_startup=False)
    require_last_activity(world, 8, world.ns)


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_client_that_cannot_be_reached_is_given_up_after_the_time_out(is_leader: bool) -> None:
    world = PartsWorld()
    client, sessions = ClientSide(world), world.sessions
    if not is_leader:
        world.leader.active_log = None
    request = cm.SessionConnectRequest(1, 102, 768, response_channel="aeron:tcp?endpoint=nobody:1")
    sessions.on_connect_request(world.now, request, client.image)
    waiting = sessions.pending if is_leader else sessions.answering
    assert len(waiting) == 1
    world.ns += world.context.settings.timeouts.session_ns
    sessions.process_pending(world.now)
    sessions.answer_waiting(world.now)
    assert len(waiting) == 1
    world.ns += 1
    sessions.process_pending(world.now)
    sessions.answer_waiting(world.now)
    assert waiting == []
    assert world.context.published.timed_out_clients.get() == int(is_leader)


def test_a_stale_term_is_ignored_silently() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    client.connect()
    (session,) = world.sessions.open.values()
    world.read_log()
    world.sessions.on_close_request(world.now, cm.SessionCloseRequest(TERM - 1, session.id))
    assert world.sessions.on_session_message(world.now, TERM - 1, session.id, b"late")
    assert list(world.sessions.open) == [session.id]
    assert entry_types(world) == []


def test_a_client_that_closes_gets_no_event_and_a_service_that_closes_tells_it() -> None:
    world = PartsWorld()
    first, second = ClientSide(world, "a"), ClientSide(world, "b")
    first.connect()
    second.connect()
    one, two = world.sessions.open
    first.events()
    second.events()
    world.sessions.on_close_request(world.now, cm.SessionCloseRequest(TERM, one))
    world.sessions.close_by_service(world.now, two)
    world.settle()
    assert first.event_codes() == []
    assert second.event_codes() == [(cm.EventCode.CLOSED, "SERVICE_ACTION")]
    assert not world.sessions.sessions


def test_a_session_ends_with_the_stream_that_its_messages_came_on() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    client.connect()
    world.sessions.on_image_lost(client.image)
    assert not world.sessions.open
    client.tick()
    assert (cm.EventCode.CLOSED, "TIMEOUT") in client.event_codes()


def test_an_election_undoes_what_was_not_committed() -> None:
    world = PartsWorld()
    kept, late = ClientSide(world, "a"), ClientSide(world, "b")
    kept.connect()
    (kept_session,) = world.sessions.open.values()
    commit = world.log_publication.position
    world.sessions.on_committed(commit)
    late.connect()
    world.sessions.on_close_request(world.now, cm.SessionCloseRequest(TERM, kept_session.id))
    world.sessions.leave_term(commit)
    world.settle()
    assert list(world.sessions.sessions) == [kept_session.id]
    assert kept_session.state is SessionState.CLOSING
    assert not world.sessions.open
    assert (cm.EventCode.CLOSED, "election") in late.event_codes()
    assert world.sessions.next_committed_session_id == kept_session.id + 1


def test_a_stream_of_before_an_election_ends_no_session_after_it() -> None:
    """The client may have come back on another one."""
    world = PartsWorld()
    client = ClientSide(world)
    client.connect()
    (session,) = world.sessions.open.values()
    commit = world.log_publication.position
    world.sessions.on_keep_alive(world.now, cm.SessionKeepAlive(TERM, session.id), client.image)
    assert session.ingress_image is client.image
    world.sessions.leave_term(commit)
    world.sessions.become_leader(world.now, is_startup=False)
    world.sessions.on_image_lost(client.image)
    assert list(world.sessions.open) == [session.id]


def test_a_committed_close_stays_closed() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    client.connect()
    (session,) = world.sessions.open.values()
    world.sessions.on_close_request(world.now, cm.SessionCloseRequest(TERM, session.id))
    world.sessions.on_committed(world.log_publication.position)
    world.sessions.leave_term(world.log_publication.position)
    assert not world.sessions.sessions


def test_a_new_leader_tells_the_sessions_that_it_knows_from_the_log() -> None:
    world = PartsWorld()
    client = ClientSide(world)
    event = cm.SessionOpenEvent(TERM - 1, 1, 8, 5, 102, client.channel)
    world.sessions.on_log_open(world.now, event, 128)
    world.sessions.become_leader(world.now, is_startup=False)
    client.tick()
    (told,) = client.events()
    assert isinstance(told, cm.NewLeaderEvent)
    assert (told.leadership_term_id, told.cluster_session_id, told.leader_member_id) == (TERM, 8, 0)
    assert told.ingress_endpoints == "0=m0:1,1=m1:1,2=m2:1"
    assert world.sessions.next_session_id == 9


def test_sessions_from_before_a_start_are_closed_by_the_new_leader() -> None:
    world = PartsWorld()
    world.sessions.on_log_open(world.now, cm.SessionOpenEvent(TERM - 1, 1, 8, 5, 102, "aeron:tcp?endpoint=x:1"), 128)
    world.sessions.become_leader(world.now, is_startup=True)
    world.sessions.check(world.now)
    assert entry_types(world) == ["SessionCloseEvent"]
    assert not world.sessions.sessions


def test_a_snapshot_has_what_there_is_to_know_of_each_session() -> None:
    world = PartsWorld()
    first, second = ClientSide(world, "a"), ClientSide(world, "b")
    first.connect(correlation_id=41)
    opened_first = world.log_publication.position
    second.connect(correlation_id=42)
    opened_second = world.log_publication.position
    world.leader.active_log = None
    world.sessions.close_by_service(world.now, 2)
    assert world.sessions.records() == [
        cm.ClusterSession(1, 41, opened_first, NULL_VALUE, NULL_INT32, 102, first.channel),
        cm.ClusterSession(2, 42, opened_second, NULL_VALUE, cm.CloseReason.SERVICE_ACTION, 102, second.channel),
    ]


def test_a_session_that_the_log_closes_is_gone() -> None:
    world = PartsWorld()
    for session_id in (8, 9):
        event = cm.SessionOpenEvent(TERM - 1, 1, session_id, 5, 102, "aeron:tcp?endpoint=x:1")
        world.sessions.on_log_open(world.now, event, 128)
    world.sessions.on_log_close(cm.SessionCloseEvent(TERM - 1, 8, 6, cm.CloseReason.TIMEOUT))
    world.sessions.on_log_close(cm.SessionCloseEvent(TERM - 1, 7, 6, cm.CloseReason.TIMEOUT))
    assert list(world.sessions.sessions) == [9]
    assert list(world.sessions.open) == [9]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["connect", "close", "lose", "tick", "election", "service"]), max_size=25))
def test_open_is_always_the_open_part_of_all_sessions(actions: list[str]) -> None:
    world = PartsWorld(max_sessions=3)
    client = ClientSide(world)
    for action in actions:
        ids = list(world.sessions.sessions)
        match action:
            case "connect":
                client.connect()
            case "close" if ids:
                world.sessions.on_close_request(world.now, cm.SessionCloseRequest(TERM, ids[0]))
            case "service" if ids:
                world.sessions.close_by_service(world.now, ids[-1])
            case "lose":
                world.sessions.on_image_lost(client.image)
            case "election":
                world.sessions.leave_term(world.log_publication.position // 2 & -32)
                world.sessions.become_leader(world.now, is_startup=False)
            case _:
                client.tick()
        world.read_log()
        everyone = world.sessions.sessions.items()
        assert world.sessions.open == {i: s for i, s in everyone if s.state is SessionState.OPEN}
        assert all(s.state in (SessionState.OPEN, SessionState.CLOSING) for _, s in everyone)


def test_every_state_has_its_moves() -> None:
    assert set(LEGAL_MOVES) == set(SessionState)
