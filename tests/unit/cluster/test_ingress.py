"""The ingress as a whole: blocks, fragments, other messages and back pressure, against one client message at a time."""

from dataclasses import dataclass
from functools import partial

from hypothesis import example, given, settings, strategies as st

from support.cluster_parts import TERM, PartsWorld
from upheaval_node.cluster.ingress import IngressAdapter
from upheaval_node.cluster.session import ClusterSession, SessionState
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header

MAX_BLOCK = 16 * 1024


@dataclass(frozen=True)
class Sent:
    kind: str
    term: int
    session: int
    payload: bytes

    @property
    def encoded(self) -> bytes:
        match self.kind:
            case "message":
                return pack_session_header(self.term, self.session, 0) + self.payload
            case "keep-alive":
                return cm.SCHEMA.encode(cm.SessionKeepAlive(self.term, self.session))
            case "close":
                return cm.SCHEMA.encode(cm.SessionCloseRequest(self.term, self.session))
            case _:
                return cm.SCHEMA.encode(cm.AdminRequest(self.term, self.session, 1, payload=self.payload))


sent_messages = st.builds(
    Sent,
    kind=st.sampled_from(["message"] * 12 + ["keep-alive", "admin", "close"]),
    term=st.sampled_from([TERM] * 9 + [TERM - 1]),
    session=st.sampled_from([1, 2, 2, 1, 3]),
    payload=st.builds(lambda n, c: bytes([c]) * n, st.sampled_from([0, 1, 40, 1300, 1400, 5000]), st.integers(0, 255)),
)


def expected(sent: list[Sent]) -> list[tuple[str, int, bytes]]:
    """What is in the log afterwards, by the rules for single messages."""
    is_open = {1, 2}
    entries: list[tuple[str, int, bytes]] = []
    for each in sent:
        if each.term != TERM or each.session not in is_open:
            continue
        if each.kind == "message":
            entries.append(("SessionMessageHeader", each.session, each.payload))
        elif each.kind == "close":
            is_open.discard(each.session)
            entries.append(("SessionCloseEvent", each.session, b""))
    return entries


def open_session(world: PartsWorld, session_id: int) -> None:
    session = ClusterSession(session_id, 0, 102, "aeron:tcp?endpoint=c:1", world.ns, SessionState.OPEN)
    world.sessions.sessions[session_id] = world.sessions.open[session_id] = session


def adapter(world: PartsWorld) -> IngressAdapter:
    longest = world.log_publication.max_message_length
    return IngressAdapter(world.context, world.sessions, max_block_length=MAX_BLOCK, max_message_length=longest)


FILLS_THE_LOG = [
    *(
        Sent("message", TERM, session, bytes(length))
        for session, length in ((2, 5000), (1, 1400), (2, 5000), (2, 5000))
    ),
    *(
        Sent("message", TERM, session, bytes(length))
        for session, length in ((1, 5000), (2, 5000), (1, 1300), (2, 5000))
    ),
    Sent("close", TERM, 1, b""),
    Sent("message", TERM, 2, bytes(5000)),
    Sent("close", TERM, 2, b""),
]


@settings(max_examples=60, deadline=None)
@example(FILLS_THE_LOG, [2, 0, 1])
@given(st.lists(sent_messages, max_size=60), st.lists(st.integers(0, 3), max_size=40))
def test_every_mixture_of_messages_gives_what_single_messages_would(sent: list[Sent], reads: list[int]) -> None:
    world = PartsWorld()
    open_session(world, 1)
    open_session(world, 2)
    ingress = adapter(world)
    publication = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101)
    world.settle()
    log = world.leader.active_log
    entries = []
    for number, each in enumerate(sent):
        while publication.offer(each.encoded) <= 0:
            world.turn()
            ingress.poll(world.now, log, TERM)
            entries += world.read_log()
        # A log that is read rarely pushes back; nothing may be lost or come twice.
        for _ in range(reads[number % len(reads)] if reads else 0):
            world.turn()
            ingress.poll(world.now, log, TERM)
    world.settle()
    for _ in range(2 * len(sent) + 2):
        ingress.poll(world.now, log, TERM)
        # The end of a session that a full log has pushed back is written by this, after what others sent meanwhile.
        world.sessions.check(world.now)
        entries += world.read_log()
        world.settle()
    got = []
    for message, payload in entries:
        assert isinstance(message, cm.SessionMessageHeader | cm.SessionCloseEvent)
        assert message.leadership_term_id == TERM
        got.append((type(message).__name__, message.cluster_session_id, payload))
    for ours in (of_messages, *(partial(of_session, session=session) for session in (1, 2, 3))):
        assert list(filter(ours, got)) == list(filter(ours, expected(sent)))


def of_messages(entry: tuple[str, int, bytes]) -> bool:
    return entry[0] == "SessionMessageHeader"


def of_session(entry: tuple[str, int, bytes], session: int) -> bool:
    return entry[1] == session


def test_a_message_that_is_none_costs_its_sender_the_image() -> None:
    world = PartsWorld()
    ingress = adapter(world)
    good = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101)
    bad = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101)
    world.settle()
    open_session(world, 1)
    bad.offer(cm.SCHEMA.encode(cm.SessionKeepAlive(TERM, 1))[:20])
    good.offer(pack_session_header(TERM, 1, 0) + b"hello")
    world.settle()
    ingress.poll(world.now, world.leader.active_log, TERM)
    world.settle()
    assert [payload for _, payload in world.read_log()] == [b"hello"]
    assert good.is_connected
    assert not bad.is_connected
    assert any("ingress-peer" in text for text in world.errors.texts)


def test_nobody_speaks_for_the_session_of_another_host() -> None:
    world = PartsWorld()
    ingress = adapter(world)
    open_session(world, 1)
    open_session(world, 2)
    senders = {}
    for session_id, host in ((1, "client"), (2, "stranger")):
        world.network.dialling_host = host
        senders[host] = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101)
        world.settle()
        senders[host].offer(cm.SCHEMA.encode(cm.SessionKeepAlive(TERM, session_id)))
        world.settle()
        ingress.poll(world.now, world.leader.active_log, TERM)
    for payload in (b"forged", bytes(5000)):
        assert senders["stranger"].offer(pack_session_header(TERM, 1, 0) + payload) > 0
    senders["stranger"].offer(pack_session_header(TERM, 2, 0) + b"own")
    senders["stranger"].offer(cm.SCHEMA.encode(cm.SessionCloseRequest(TERM, 1)))
    senders["client"].offer(pack_session_header(TERM, 1, 0) + b"hello")
    for _ in range(5):
        world.settle()
        ingress.poll(world.now, world.leader.active_log, TERM)
    assert sorted(payload for _, payload in world.read_log()) == [b"hello", b"own"]
    assert [text for text in world.errors.texts if "a session of another client" in text]
    assert len(world.errors.texts) == 1


def test_a_message_that_is_too_long_for_the_log_is_dropped_and_reported() -> None:
    world = PartsWorld()
    open_session(world, 1)
    ingress = adapter(world)
    driver = world.client_driver()
    publication = driver.add_publication("aeron:tcp?endpoint=m0:1|term-length=1m", 101)
    world.settle()
    publication.offer(pack_session_header(TERM, 1, 0) + bytes(8192))
    publication.offer(pack_session_header(TERM, 1, 0) + b"next")
    world.settle()
    for _ in range(5):
        ingress.poll(world.now, world.leader.active_log, TERM)
        world.settle()
    assert [payload for _, payload in world.read_log()] == [b"next"]
    assert any("too long for the log" in text for text in world.errors.texts)


def test_a_message_that_will_be_too_long_for_the_log_is_not_kept_until_it_is_complete() -> None:
    """However long a message the client's stream may carry."""
    world = PartsWorld()
    open_session(world, 1)
    ingress = adapter(world)
    publication = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1|term-length=1m", 101)
    world.settle()
    assert publication.max_message_length > 6 * MAX_BLOCK
    publication.offer(pack_session_header(TERM, 1, 0) + bytes(6 * MAX_BLOCK))
    world.settle()
    ingress.poll(world.now, world.leader.active_log, TERM)
    assert any("too long for the log" in text for text in world.errors.texts)
    publication.offer(pack_session_header(TERM, 1, 0) + b"next")
    for _ in range(10):
        world.settle()
        ingress.poll(world.now, world.leader.active_log, TERM)
    assert [payload for _, payload in world.read_log()] == [b"next"]
    assert len(world.errors.texts) == 1


def test_nothing_is_consumed_that_the_log_does_not_take() -> None:
    world = PartsWorld()
    open_session(world, 1)
    ingress = adapter(world)
    publication = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101)
    world.settle()
    world.log_subscription.close()
    world.settle()
    publication.offer(pack_session_header(TERM, 1, 0) + b"held")
    publication.offer(pack_session_header(TERM, 1, 0) + bytes(3000))
    world.settle()
    assert ingress.poll(world.now, world.leader.active_log, TERM) == 0
    assert ingress._subscription.images[0].position == 0


def test_a_follower_drops_messages_and_answers_those_who_connect() -> None:
    world = PartsWorld()
    world.leader.active_log = None
    ingress = adapter(world)
    driver = world.client_driver()
    publication = driver.add_publication("aeron:tcp?endpoint=m0:1", 101)
    answers = driver.add_subscription("aeron:tcp?endpoint=c:1", 102)
    world.settle()
    publication.offer(pack_session_header(TERM, 1, 0) + b"dropped")
    publication.offer(
        cm.SCHEMA.encode(cm.SessionConnectRequest(5, 102, 768, response_channel="aeron:tcp?endpoint=c:1"))
    )
    world.settle()
    ingress.poll(world.now, None, TERM)
    world.settle()
    world.sessions.answer_waiting(world.now)
    world.settle()
    received: list[cm.SessionEvent] = []

    def take(message: object) -> None:
        event = cm.SCHEMA.decode(message.payload)  # type: ignore[attr-defined]
        assert isinstance(event, cm.SessionEvent)
        received.append(event)

    answers.poll(take, 10)
    assert [(event.code, event.correlation_id) for event in received] == [(cm.EventCode.REDIRECT, 5)]
    assert received[0].detail == "0=m0:1,1=m1:1,2=m2:1"
