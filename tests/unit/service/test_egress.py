"""What a service sends reaches the client that the log names, in order, from the leader only."""

from random import Random
from struct import Struct

from support.memory_network import MemoryNetwork
from unit.service.module_side import ModuleSide, session_close, session_open
from upheaval_node.media.api import Message, Subscription
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol.session_header import HEADER_WORD
from upheaval_node.service.api import ClientSession, ClusteredService, ClusterRole
from upheaval_node.service.services.echo import Echo
from upheaval_node.service.services.encoding import Operation, Request, decode_response, encode_request
from upheaval_node.service.session import MAX_BACKLOG_LENGTH, MAX_QUEUED_LENGTH
from upheaval_node.settings import KIB, MediaSettings
from upheaval_node.types import Now

RESPONSE_CHANNEL = "aeron:tcp?control-mode=response|response-correlation-id=99"
INGRESS = "member:9002"
HEADER = Struct("<qqqq")


class Client:
    """A client's media: dials the member's ingress, and keeps what comes back."""

    def __init__(self, network: MemoryNetwork, *, reads: bool = True) -> None:
        self.network = network
        settings = MediaSettings(receiver_window_length=64 * KIB)
        self.media = MediaDriver(network, StaticResolver(), settings, Random(3), None)
        self.egress: Subscription = self.media.add_subscription(RESPONSE_CHANNEL, 102)
        self.ingress = self.media.add_publication(f"aeron:tcp?endpoint={INGRESS}", 101)
        self.reads = reads
        self.headers: list[tuple[int, ...]] = []
        self.received: list[bytes] = []

    def do_work(self, now: Now) -> int:
        work = self.media.do_work(now) + self.network.step()
        return work + (self.egress.poll(self._on_message, 10) if self.reads else 0)

    def next_deadline_ns(self) -> int:
        return 0

    def _on_message(self, message: Message) -> None:
        self.headers.append(HEADER.unpack_from(message.payload))
        self.received.append(bytes(message.payload[32:]))


class Chatter(ClusteredService):
    """Answers every message with as many kibibytes as its first byte says."""

    def __init__(self) -> None:
        self.accepted: list[bool] = []

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        if session is not None:
            self.accepted.append(session.respond(bytes(payload[:1]), bytes(KIB * payload[0])))


def leading(service: ClusteredService, role: ClusterRole = ClusterRole.LEADER) -> tuple[ModuleSide, Client]:
    network = MemoryNetwork()
    side = ModuleSide(service, network)
    client = Client(network)
    side.media.add_subscription(f"aeron:tcp?endpoint={INGRESS}", 101)
    side.others.append(client)
    side.start()
    side.join(role)
    side.run_for(200)
    side.append(session_open(4, RESPONSE_CHANNEL))
    side.commit_all()
    return side, client


def test_a_response_carries_session_time_and_the_payload() -> None:
    side, client = leading(Echo())
    side.container.view.leadership_term_id = 6
    position = side.append_messages(4, [encode_request(Request(8, Operation.ECHO, value=b"hi"))], timestamp=55)
    side.commit_all()
    side.run_for(100)
    assert client.headers == [(HEADER_WORD, 6, 4, 55)]
    response = decode_response(client.received[0])
    assert (response.operation_id, response.position, response.value) == (8, position, b"hi")


def test_a_response_given_before_the_client_takes_up_its_egress_is_kept() -> None:
    side, client = leading(Echo())
    network = client.network
    network.stall(INGRESS, both=True)
    side.append_messages(4, [encode_request(Request(number, Operation.ECHO)) for number in range(3)])
    side.commit_all()
    assert client.received == []
    network.stall(INGRESS, stalled=False, both=True)
    side.run_for(300)
    assert [decode_response(payload).operation_id for payload in client.received] == [0, 1, 2]
    assert side.container.view.backlog == {}


def test_a_client_that_reads_late_gets_everything_in_order() -> None:
    service = Chatter()
    side, client = leading(service)
    client.reads = False
    for number in range(40):
        side.append_messages(4, [bytes([number])])
        side.commit_all()
    assert side.container.view.backlog
    client.reads = True
    side.run_for(500)
    assert service.accepted == [True] * 40
    assert [payload[0] for payload in client.received] == list(range(40))


def test_what_a_client_never_reads_is_bounded() -> None:
    service = Chatter()
    side, client = leading(service)
    client.reads = False
    for _ in range(40):
        side.append_messages(4, [bytes([250])])
        side.commit_all()
    assert False in service.accepted
    assert side.container.view.dropped_responses == service.accepted.count(False)
    assert side.container.view.sessions[4].offer(b"x") < 0


def test_what_all_sessions_of_a_client_never_read_is_bounded() -> None:
    service = Chatter()
    side, client = leading(service)
    client.reads = False
    sessions = range(4, 4 + MAX_BACKLOG_LENGTH // MAX_QUEUED_LENGTH + 4)
    for session_id in sessions[1:]:
        side.append(session_open(session_id, RESPONSE_CHANNEL))
    view = side.container.view
    for _ in range(MAX_QUEUED_LENGTH // (250 * KIB) + 1):
        for session_id in sessions:
            side.append_messages(session_id, [bytes([250])])
        side.commit_all()
    assert MAX_BACKLOG_LENGTH - 256 * KIB < view.backlog_length <= MAX_BACKLOG_LENGTH
    assert view.dropped_responses == service.accepted.count(False) > 0
    # A session that had nothing queued is not starved by them.
    late = sessions[-1] + 1
    side.append(session_open(late, RESPONSE_CHANNEL))
    side.append_messages(late, [bytes([8])] * 9)
    side.commit_all()
    assert service.accepted[-9:] == [True] * 7 + [False] * 2
    for session_id in (*sessions, late):
        side.append(session_close(session_id))
    side.commit_all()
    assert view.backlog_length == 0


def test_sessions_of_one_stream_take_turns_in_sending_what_waits() -> None:
    side, client = leading(Chatter())
    side.append(session_open(5, RESPONSE_CHANNEL))
    side.commit_all()
    client.reads = False
    for _ in range(10):
        for session_id in (4, 5):
            side.append_messages(session_id, [bytes([250])])
            side.commit_all()
    view = side.container.view
    first, second = list(view.backlog)
    view.sessions[first].flush()
    assert list(view.backlog) == [second, first]
    view.sessions[second].flush()
    assert list(view.backlog) == [first, second]


def test_a_closed_session_takes_its_queue_with_it() -> None:
    side, client = leading(Chatter())
    client.reads = False
    for _ in range(10):
        side.append_messages(4, [bytes([250])])
        side.commit_all()
    assert 4 in side.container.view.backlog
    side.append(session_close(4))
    side.commit_all()
    assert side.container.view.backlog == {}
    assert side.container.view.backlog_length == 0
    assert side.container.view.sessions == {}


def test_a_follower_sends_nothing_and_a_new_leader_connects_the_sessions_it_has() -> None:
    side, client = leading(Echo(), ClusterRole.FOLLOWER)
    request = encode_request(Request(1, Operation.ECHO))
    end = side.append_messages(4, [request])
    side.commit_all()
    side.run_for(100)
    assert client.received == []
    # The same log is joined again as its leader.
    side.join(ClusterRole.LEADER, position=end)
    side.run_for(200)
    assert side.container.view.sessions[4].is_connected
    side.append_messages(4, [request])
    side.commit_all()
    side.run_for(100)
    assert len(client.received) == 1


def test_losing_the_log_disconnects_the_clients() -> None:
    side, _ = leading(Echo())
    assert side.container.view.sessions[4].is_connected
    side.log.close()
    side.run_for(50)
    assert not side.container.view.sessions[4].is_connected
