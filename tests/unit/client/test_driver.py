"""The blocking client works over real sockets, tells what was not sent from what is unknown, and can reconnect."""

import os
import socket
from contextlib import suppress

import pytest

from unit.client.answering_member import Member
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient, NotSent, OperationFailed, OutcomeUnknown
from upheaval_node.client.operations import is_response_to, read_request
from upheaval_node.errors import TimeoutExpired, UsageError
from upheaval_node.types import S


def waiting_input(client: BlockingClient) -> bytes:
    """What the client's connections have received and the client has not read."""
    received = b""
    for fd in client._loop._callbacks:
        end = socket.socket(fileno=os.dup(fd))
        with end, suppress(OSError):
            received += end.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    return received


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
    with BlockingClient({0: member.endpoint}) as client:
        patience_ns = client._timeout_ns
        member.mute, client._timeout_ns = True, S // 5
        with pytest.raises(OutcomeUnknown, match="unknown"):
            client.write("k", b"lost")
        wait_until(lambda: member.ignored_count == 1, timeout_s=60, describe=lambda: "the request has not arrived")
        member.mute, client._timeout_ns = False, patience_ns
        assert client.read("k") is None


def test_idling_without_time_handles_what_has_arrived(member: Member) -> None:
    heard: list[bytes] = []
    with BlockingClient({0: member.endpoint}) as client:
        client.on_unasked = lambda message: heard.append(bytes(message))
        member.holds, client._timeout_ns = True, S // 5
        with pytest.raises(OutcomeUnknown):
            client.read("k")
        member.release_reversed()

        def has_heard() -> bool:
            client.idle(0)
            return bool(heard)

        wait_until(has_heard, timeout_s=30, describe=lambda: "the late answer was not handled")


def test_a_message_that_came_before_a_request_is_not_its_answer(member: Member) -> None:
    with BlockingClient({0: member.endpoint}) as client:
        patience_ns = client._timeout_ns
        member.holds, client._timeout_ns = True, S // 5
        with pytest.raises(OutcomeUnknown):
            client.request(read_request(1, "k"))
        ((_, answer),) = member.held
        member.release_reversed()
        wait_until(lambda: answer in waiting_input(client), timeout_s=30, describe=lambda: "the late answer is missing")
        client._timeout_ns = patience_ns
        assert is_response_to(2, client.request(read_request(2, "k")))


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
