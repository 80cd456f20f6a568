"""Clients whose calls wait, through a bridge that this test plays: what they ask again, and what they know."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from upheaval.system import KeptSession
from upheaval.system.aeron_waiting import BridgeWaitingClient
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.client.driving import RETRY_INTERVAL_NS
from upheaval_node.errors import TimeoutExpired
from upheaval_node.types import S

ENDPOINTS = "0=a:1"
CONNECT, OFFER = "CO"
PATIENCE_S = 60
SHORT_S = 2.0
"""What has no answer takes so long."""

Answers = Callable[[int, bytes], list[tuple[str, bytes]]]
"""What the bridge says to a message, by its number from 1 on."""


def leader(session: int = 9) -> tuple[str, bytes]:
    return "L", struct.pack("<qiq", 3, 0, session)


def given_back(number: int) -> tuple[str, bytes]:
    return "N", struct.pack("<q", number)


class Bridge:
    """Listens, and serves one connection after the other; `connects` is what each is greeted with."""

    def __init__(self, answers: Answers, connects: list[tuple[str, bytes]]) -> None:
        self.messages: list[bytes] = []
        self._answers = answers
        self._connects = connects
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        # A thread that waits in accept is not woken by a close.
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        for greeting in self._connects:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file, contextlib.suppress(ConnectionError):
                self._talk(connection, file.read, greeting)

    def _talk(self, connection: socket.socket, read: Callable[[int], bytes], greeting: tuple[str, bytes]) -> None:
        count = 0
        while len(head := read(4)) == 4:
            frame = read(struct.unpack("<i", head)[0])
            kind, body = chr(frame[0]), frame[1:]
            said = [greeting] if kind == CONNECT else []
            if kind == OFFER:
                count += 1
                self.messages.append(body)
                said = self._answers(count, body)
            frames = [struct.pack("<i", len(told) + 1) + name.encode() + told for name, told in said]
            connection.sendall(b"".join(frames))


@contextlib.contextmanager
def talking(
    answers: Answers, *, timeout_s: float = 20.0, connects: list[tuple[str, bytes]] | None = None
) -> Iterator[tuple[Bridge, BridgeWaitingClient]]:
    bridge = Bridge(answers, [leader()] if connects is None else connects)
    client = BridgeWaitingClient(bridge.address, ENDPOINTS, timeout_s)
    try:
        client.reconnect()
        yield bridge, client
    finally:
        client.close()
        bridge.close()


def test_a_kept_session_begins_with_a_client_that_was_never_connected() -> None:
    with closing(Bridge(lambda _number, message: [("R", message)], [leader()])) as bridge:
        client = BridgeWaitingClient(bridge.address, ENDPOINTS, PATIENCE_S)
        with closing(client):
            kept = KeptSession(client)
            assert (kept.session_id, kept.goes_on()) == (None, False)
            kept.open()
            assert (kept.session_id, kept.goes_on()) == (9, True)


def test_what_is_given_back_is_asked_again() -> None:
    def answers(number: int, message: bytes) -> list[tuple[str, bytes]]:
        return [given_back(number)] if number < 3 else [("R", b"answer to " + message)]

    with talking(answers) as (bridge, client):
        assert (client.is_connected, client.session_id) == (True, 9)
        assert client.request(b"it") == b"answer to it"
        assert bridge.messages == [b"it"] * 3


def test_a_message_that_comes_while_the_bridge_has_no_leader_is_no_answer() -> None:
    def answers(number: int, message: bytes) -> list[tuple[str, bytes]]:
        return [given_back(number), ("R", b"news")] if number == 1 else [("R", b"answer to " + message)]

    unasked: list[bytes] = []
    with talking(answers) as (bridge, client):
        client.on_unasked = lambda payload: unasked.append(bytes(payload))
        assert client.request(b"it") == b"answer to it"
        assert (bridge.messages, unasked) == ([b"it"] * 2, [b"news"])


def test_what_an_earlier_session_gave_back_is_not_asked_again_in_the_next() -> None:
    def answers(number: int, message: bytes) -> list[tuple[str, bytes]]:
        if message == b"first":
            return [given_back(number), ("D", b"closed by the cluster")]
        return [("R", b"answer to " + message)]

    with talking(answers, connects=[leader(9), leader(10)]) as (bridge, client):
        with pytest.raises(NotSent):
            client.request(b"first")
        client.reconnect()
        assert client.request(b"second") == b"answer to second"
        assert bridge.messages == [b"first", b"second"]


def test_what_is_given_back_until_the_end_was_not_sent() -> None:
    def answers(number: int, _message: bytes) -> list[tuple[str, bytes]]:
        return [given_back(number)] + ([("D", b"closed by the cluster")] if number == 3 else [])

    with talking(answers) as (bridge, client):
        with pytest.raises(NotSent, match="closed by the cluster"):
            client.request(b"it")
        assert bridge.messages == [b"it"] * 3


def test_what_is_too_long_is_not_sent_for_that_reason_and_not_sent_again_without_a_pause() -> None:
    def answers(number: int, _message: bytes) -> list[tuple[str, bytes]]:
        return [("E", b"message exceeds 1408 bytes"), given_back(number)]

    with talking(answers, timeout_s=SHORT_S) as (bridge, client):
        with pytest.raises(NotSent, match="message exceeds 1408 bytes"):
            client.request(b"it")
        assert 1 < len(bridge.messages) <= SHORT_S * S / RETRY_INTERVAL_NS + 1


def test_what_has_no_answer_is_unknown_and_the_next_request_is_one_of_its_own() -> None:
    """What comes back of the first must not be taken for the second, which the cluster may have."""

    def answers(number: int, _message: bytes) -> list[tuple[str, bytes]]:
        return [] if number == 1 else [given_back(1), ("R", b"of the second")]

    with talking(answers, timeout_s=SHORT_S) as (bridge, client):
        with pytest.raises(OutcomeUnknown):
            client.request(b"first")
        client._timeout_ns = PATIENCE_S * S
        assert client.request(b"second") == b"of the second"
        assert bridge.messages == [b"first", b"second"]


def test_an_answer_that_is_not_wanted_is_left_out() -> None:
    with talking(lambda _number, _: [("R", b"old"), ("R", b"new")]) as (_, client):
        assert client.request(b"it", lambda answer: bytes(answer) == b"new") == b"new"


def test_an_answer_counts_though_the_session_ends_with_it() -> None:
    with talking(lambda _number, _: [("R", b"yes"), ("D", b"closed by the cluster")]) as (_, client):
        assert client.request(b"it") == b"yes"


def test_a_session_that_ends_leaves_the_outcome_unknown_and_takes_no_more() -> None:
    with talking(lambda _number, _: [("D", b"closed by the cluster")]) as (bridge, client):
        with pytest.raises(OutcomeUnknown, match="closed by the cluster"):
            client.request(b"it")
        with pytest.raises(NotSent):
            client.request(b"more")
        assert bridge.messages == [b"it"]


def test_connecting_is_tried_again_until_there_is_a_leader() -> None:
    refused = ("D", b"no leader")
    with talking(lambda _number, _: [("R", b"yes")], connects=[refused, leader(11)]) as (_, client):
        assert client.session_id == 11
        assert client.request(b"it") == b"yes"


def test_without_a_leader_connecting_ends_with_the_reason() -> None:
    refused = [("D", b"no leader")] * 100
    with pytest.raises(TimeoutExpired, match="no leader"), talking(lambda *_: [], timeout_s=SHORT_S, connects=refused):
        pytest.fail("it is connected")
