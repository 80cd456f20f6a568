"""The blocking client works over real sockets, tells what was not sent from what is unknown, and can reconnect."""

import threading
from collections.abc import Iterator
from random import Random

import pytest

from upheaval_node.client.driver import BlockingClient, NotSent, OperationFailed, OutcomeUnknown
from upheaval_node.errors import TimeoutExpired, UsageError
from upheaval_node.media.api import Message, Publication
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.service.services.workbench import Workbench
from upheaval_node.settings import MediaSettings
from upheaval_node.types import MAX_POSITION, Now


class Member:
    """A member of one in a thread of its own: opens every session, and answers with the workbench unless `mute`."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.network = SelectorNetwork(self.loop)
        self.media = MediaDriver(self.network, StaticResolver(), MediaSettings(), Random(7), None)
        self.ingress = self.media.add_subscription("aeron:tcp?endpoint=127.0.0.1:0", 101)
        self.service = Workbench()
        self.egress: dict[int, Publication] = {}
        self.owed: list[tuple[int, bytes]] = []
        self.mute = False
        self.position = 0
        self.endpoint = ""
        self.cycle = DutyCycle(self.loop, SystemClock(), (self.media, self))
        self.cycle.run_once(0)
        assert self.ingress.resolved_endpoint is not None
        self.endpoint = self.ingress.resolved_endpoint
        self.thread = threading.Thread(target=self.cycle.run, daemon=True)

    def do_work(self, now: Now) -> int:
        work = self.ingress.poll(self._on_message, 10)
        for owed in list(self.owed):
            session_id, message = owed
            if self.egress[session_id].offer(message) > 0:
                self.owed.remove(owed)
                work += 1
        return work

    def next_deadline_ns(self) -> int:
        return 0 if self.owed else MAX_POSITION

    def stop(self) -> None:
        self.cycle.request_stop()
        self.thread.join(5)
        assert not self.thread.is_alive()
        self.media.close()
        self.network.drain(100_000_000)
        self.loop.close()

    def _on_message(self, message: Message) -> None:
        decoded = cm.SCHEMA.decode(message.payload)
        if isinstance(decoded, cm.SessionConnectRequest):
            session_id = len(self.egress) + 1
            self.egress[session_id] = self.media.add_publication(decoded.response_channel, decoded.response_stream_id)
            event = cm.SessionEvent(
                cluster_session_id=session_id,
                correlation_id=decoded.correlation_id,
                leadership_term_id=1,
                leader_member_id=0,
                code=cm.EventCode.OK,
            )
            self.owed.append((session_id, cm.SCHEMA.encode(event)))
        elif isinstance(decoded, cm.SessionMessageHeader) and not self.mute:
            self.position += 96
            response = self.service.execute(message.payload[32:], self.position)
            session_id = decoded.cluster_session_id
            self.owed.append((session_id, pack_session_header(1, session_id, 0) + response))


@pytest.fixture
def member() -> Iterator[Member]:
    member = Member()
    member.thread.start()
    yield member
    member.stop()


def test_every_operation_works_over_real_sockets(member: Member) -> None:
    with BlockingClient(f"0={member.endpoint}") as client:
        assert client.echo(b"hello") == b"hello"
        assert client.read("k") is None
        client.write("k", b"1")
        assert client.cas("k", b"2", b"3") is False
        assert client.cas("k", b"1", b"3") is True
        assert client.read("k") == b"3"
        client.append("l", b"a")
        client.append("l", b"b")
        assert client.read_list("l") == [b"a", b"b"]
        assert client.response_position == member.position
        assert client.invoke_ns < client.complete_ns
        assert (client.leader_member_id, client.session_id, client.is_connected) == (0, 1, True)


def test_no_answer_in_time_leaves_the_outcome_unknown_and_a_late_one_is_not_taken_for_another(member: Member) -> None:
    with BlockingClient({0: member.endpoint}, timeout=0.2) as client:
        member.mute = True
        with pytest.raises(OutcomeUnknown, match="unknown"):
            client.write("k", b"lost")
        member.mute = False
        assert client.read("k") is None


def test_what_the_service_refuses_is_told(member: Member) -> None:
    with BlockingClient({0: member.endpoint}) as client, pytest.raises(OperationFailed, match="no value"):
        client._call(lambda operation_id: operation_id.to_bytes(8, "little") + b"\x03\x01" + bytes(2) + b"\xff" * 8, 5)


def test_a_closed_session_sends_nothing_until_it_reconnects(member: Member) -> None:
    with BlockingClient({0: member.endpoint}) as client:
        client.session.close()
        with pytest.raises(NotSent, match="nothing was sent"):
            client.echo(b"x")
        client.reconnect()
        assert client.session_id == 2
        assert client.echo(b"again") == b"again"


def test_nobody_there_is_a_time_out() -> None:
    with pytest.raises(TimeoutExpired), BlockingClient("0=127.0.0.1:1", timeout=0.3):
        raise AssertionError("connected to nobody")


def test_misuse_is_told() -> None:
    client = BlockingClient("0=127.0.0.1:1")
    with pytest.raises(UsageError, match="not connected"):
        client.echo(b"x")
    client.close()
    with pytest.raises(UsageError, match="closed"):
        client.connect()
    with pytest.raises(UsageError):
        BlockingClient("0=127.0.0.1:1", timeout=0)
