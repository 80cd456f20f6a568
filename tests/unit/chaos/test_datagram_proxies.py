"""Proxies of datagrams on real sockets, driven over the HTTP API: what each toxic does, and what is counted of it."""

import contextlib
import http.client
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from upheaval.waits import wait_until
from upheaval_chaos import datagrams
from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.pings import PingText, datagram_ping_text
from upheaval_chaos.proxy_server import ProxyServer
from upheaval_chaos.target import Answer
from upheaval_chaos.toxiproxy import StandardToxiproxy
from upheaval_node.protocol.cluster_messages import RequestVote, Vote
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID, INGRESS_STREAM_ID
from upheaval_node.protocol.frames import (
    FLAG_BEGIN,
    FLAGS_UNFRAGMENTED,
    TYPE_DATA,
    TYPE_PAD,
    TYPE_SETUP,
    DataHeader,
    Setup,
    StatusMessage,
)
from upheaval_node.types import FRAME_HEADER_LENGTH

PATIENCE_S = 60.0
SILENCE_S = 0.3
LATENCY_MS = 150
UNDER_WAY_MS = 5000
"""Long enough for a cut to be there before it is over, on a busy machine, too."""
UP = "upstream"
NAME = "p"


class Receiver:
    """What is at the far end of the proxy; it answers a heartbeat as a member does, and nothing else."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(PATIENCE_S)
        self.address = "{}:{}".format(*self.socket.getsockname())
        self.sender: tuple[str, int] = ("", 0)

    def got(self) -> bytes:
        data, self.sender = self.socket.recvfrom(65536)
        return data

    def got_all(self, count: int) -> list[bytes]:
        return [self.got() for _ in range(count)]

    def answer_heartbeats(self) -> None:
        while data := self.got():
            if len(data) == 32:
                _, _, _, _, _, session_id, stream_id, _, _ = struct.unpack("<iBBHiiiiq", data)
                self.socket.sendto(StatusMessage(session_id, stream_id, 0, 0, 0, 0).pack(), self.sender)


class Wire:
    """One sender, one proxy, one receiver."""

    def __init__(self, api: StandardToxiproxy) -> None:
        self.api = api
        self.receiver = Receiver()
        self.listen = api.create(NAME, self.receiver.address, protocol="udp")
        self.socket = self.dial()

    def dial(self) -> socket.socket:
        host, _, port = self.listen.rpartition(":")
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.connect((host, int(port)))
        made.settimeout(PATIENCE_S)
        return made

    def send(self, *datagrams: bytes) -> None:
        for each in datagrams:
            self.socket.send(each)

    def counts(self, stream: str = UP) -> tuple[int, int]:
        """How many datagrams came in, and how many went out."""
        text = self.api._call("GET", "/metrics")
        found = re.findall(rf'_(received|sent)_datagrams_total{{direction="{stream}",.*?}} (\d+)', text)
        counts = {what: int(count) for what, count in found}
        return counts["received"], counts["sent"]

    def wait_until_in(self, count: int) -> None:
        wait_until(
            lambda: self.counts()[0] >= count,
            timeout_s=PATIENCE_S,
            describe=lambda: f"{self.counts()[0]} of {count} came",
        )
        assert self.counts()[0] == count

    def close(self) -> None:
        self.socket.close()
        self.receiver.socket.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    with ProxyServer(7) as server:
        made = Wire(StandardToxiproxy(server.address))
        yield made
        made.close()


def numbered(count: int) -> list[bytes]:
    return [b"%04d" % number for number in range(count)]


def test_datagrams_pass_whole_are_counted_and_are_answered_from_where_they_were_sent(wire: Wire) -> None:
    sent = [b"", b"x", bytes(range(256)) * 32]
    wire.send(*sent)
    assert wire.receiver.got_all(3) == sent
    wire.receiver.socket.sendto(b"answer", wire.receiver.sender)
    # The sender's socket is connected: it takes what comes from the address of the proxy only.
    assert wire.socket.recv(100) == b"answer"
    assert wire.counts() == (3, 3)
    assert wire.counts("downstream") == (1, 1)
    assert wire.api.sent_bytes() == {(NAME, UP): sum(map(len, sent)), (NAME, "downstream"): 6}


def test_each_sender_gets_its_own_answers(wire: Wire) -> None:
    other = wire.dial()
    wire.send(b"one")
    wire.receiver.got()
    first = wire.receiver.sender
    other.send(b"two")
    wire.receiver.got()
    assert wire.receiver.sender != first
    wire.receiver.socket.sendto(b"to two", wire.receiver.sender)
    wire.receiver.socket.sendto(b"to one", first)
    assert (wire.socket.recv(100), other.recv(100)) == (b"to one", b"to two")
    other.close()


def test_a_cut_swallows_one_way_and_what_is_under_way(wire: Wire) -> None:
    wire.send(b"hello")
    wire.receiver.got()
    wire.api.add_toxic(NAME, "latency", UP, {"latency": UNDER_WAY_MS, "jitter": 0})
    wire.send(b"late")
    wire.wait_until_in(2)
    wire.api.add_toxic(NAME, "timeout", UP, {"timeout": 0})
    wire.send(b"cut")
    wire.receiver.socket.sendto(b"the way back", wire.receiver.sender)
    assert wire.socket.recv(100) == b"the way back"
    wire.receiver.socket.settimeout(UNDER_WAY_MS / 1000 + SILENCE_S)
    with pytest.raises(TimeoutError):
        wire.receiver.got()
    assert wire.counts() == (3, 1)
    wire.api.remove_toxic(NAME, "timeout", UP)
    wire.api.remove_toxic(NAME, "latency", UP)
    wire.send(b"healed")
    assert wire.receiver.got() == b"healed"


def test_a_share_is_dropped_the_same_one_for_the_same_seed() -> None:
    came = []
    for _ in range(2):
        with ProxyServer(11) as server:
            wire = Wire(StandardToxiproxy(server.address))
            wire.api.add_toxic(NAME, "timeout", UP, {"timeout": 0}, toxicity=0.25)
            wire.send(*numbered(200))
            wire.wait_until_in(200)
            came.append(wire.receiver.got_all(wire.counts()[1]))
            wire.close()
    assert came[0] == came[1]
    assert 120 < len(came[0]) < 180


def test_a_share_comes_twice(wire: Wire) -> None:
    wire.api.add_toxic(NAME, "duplicate", UP, {}, toxicity=0.5)
    wire.send(*numbered(100))
    wire.wait_until_in(100)
    came = wire.receiver.got_all(wire.counts()[1])
    assert sorted(set(came)) == numbered(100)
    assert 130 < len(came) < 170


def test_latency_keeps_the_order_and_jitter_or_a_share_does_not(wire: Wire) -> None:
    wire.api.add_toxic(NAME, "latency", UP, {"latency": LATENCY_MS, "jitter": 0})
    begin = time.monotonic()
    wire.send(*numbered(50))
    assert wire.receiver.got_all(50) == numbered(50)
    assert time.monotonic() - begin >= LATENCY_MS / 1000
    wire.api.remove_toxic(NAME, "latency", UP)
    wire.api.add_toxic(NAME, "latency", UP, {"latency": 40, "jitter": 40})
    wire.send(*numbered(50))
    came = wire.receiver.got_all(50)
    assert sorted(came) == numbered(50) != came
    wire.api.remove_toxic(NAME, "latency", UP)
    wire.api.add_toxic(NAME, "latency", UP, {"latency": 40, "jitter": 0}, toxicity=0.3)
    wire.send(*numbered(50))
    came = wire.receiver.got_all(50)
    assert sorted(came) == numbered(50) != came


def test_a_limit_holds_back_and_drops_what_would_wait_too_long(wire: Wire) -> None:
    wire.api.add_toxic(NAME, "bandwidth", UP, {"rate": 10})
    begin = time.monotonic()
    wire.send(*([b"x" * 1000] * 5))
    wire.receiver.got_all(5)
    assert time.monotonic() - begin >= 0.45
    begin = time.monotonic()
    wire.send(*([b"x" * 1000] * 50))
    wire.wait_until_in(55)
    took_s = time.monotonic() - begin
    # As many as fit into two seconds wait, and no more. A slow machine brings them later, and more of them fit.
    wire.receiver.got_all(20)
    wire.receiver.socket.settimeout(3.0)
    more = 0
    with contextlib.suppress(TimeoutError):
        while wire.receiver.got():
            more += 1
    assert more <= 1 + 10 * took_s


FRAMES = {
    "data": DataHeader(0, 0xC0, TYPE_DATA, 0, 1, CONSENSUS_STREAM_ID, 0, 0).pack(),
    "padding": DataHeader(64, 0xC0, TYPE_PAD, 0, 1, CONSENSUS_STREAM_ID, 0, 0).pack(),
    "other stream": DataHeader(0, 0xC0, TYPE_DATA, 0, 1, INGRESS_STREAM_ID, 0, 0).pack(),
    "setup": Setup(0, 1, CONSENSUS_STREAM_ID, 0, 0, 65536, 1408).pack(),
    "status": StatusMessage(1, CONSENSUS_STREAM_ID, 0, 0, 0, 0).pack(),
    "nak": struct.pack("<iBBHiiiii", 28, 0, 0, 2, 1, CONSENSUS_STREAM_ID, 0, 0, 32),
    "no frame": b"abc",
}


@pytest.mark.parametrize(
    ("attributes", "cut"),
    [
        ({"frame_type": TYPE_DATA}, {"data", "padding", "other stream"}),
        ({"frame_type": TYPE_SETUP}, {"setup"}),
        ({"frame_type": 3}, {"status"}),
        ({"frame_type": 2}, {"nak"}),
        ({"stream_id": CONSENSUS_STREAM_ID}, {"data", "padding", "setup", "status", "nak"}),
        ({"frame_type": TYPE_DATA, "stream_id": INGRESS_STREAM_ID}, {"other stream"}),
    ],
)
def test_frames_of_a_type_or_a_stream_are_cut_and_no_others(
    wire: Wire, attributes: dict[str, int], cut: set[str]
) -> None:
    wire.api.add_toxic(NAME, "timeout", UP, {"timeout": 0, **attributes})
    wire.send(*FRAMES.values())
    wire.wait_until_in(len(FRAMES))
    names = {content: name for name, content in FRAMES.items()}
    came = {names[each] for each in wire.receiver.got_all(wire.counts()[1])}
    assert came == FRAMES.keys() - cut


def message(template_id: int, *, flags: int = FLAGS_UNFRAGMENTED, schema_id: int = 111, kind: int = TYPE_DATA) -> bytes:
    body = struct.pack("<HHHH", 0, template_id, schema_id, 0) + b"body"
    head = DataHeader(FRAME_HEADER_LENGTH + len(body), flags, kind, 0, 1, CONSENSUS_STREAM_ID, 0, 0).pack()
    return (head + body).ljust(64, b"\0")


def test_padding_takes_the_place_of_messages_of_a_template_and_of_nothing_else(wire: Wire) -> None:
    others = [
        message(Vote.TEMPLATE_ID),
        message(RequestVote.TEMPLATE_ID, flags=FLAG_BEGIN),
        message(RequestVote.TEMPLATE_ID, schema_id=101),
        FRAMES["data"],
        FRAMES["setup"],
    ]
    whole = message(RequestVote.TEMPLATE_ID)
    omitted = message(RequestVote.TEMPLATE_ID, kind=TYPE_PAD)
    wire.api.add_toxic(NAME, "omit", UP, {"template_id": RequestVote.TEMPLATE_ID})
    wire.send(*others, whole, others[0] + whole + others[1], whole + whole[:40], b"abc")
    assert wire.receiver.got_all(9) == [
        *others,
        omitted,
        others[0] + omitted + others[1],
        omitted + omitted[:40],
        b"abc",
    ]
    assert all_come(wire, Vote.TEMPLATE_ID)
    assert volley(wire, template_id=RequestVote.TEMPLATE_ID) == []
    wire.api.remove_toxic(NAME, "omit", UP)
    wire.api.add_toxic(NAME, "omit", UP, {"template_id": RequestVote.TEMPLATE_ID}, toxicity=0.3)
    assert 0.12 * PROBES < PROBES - len(volley(wire, template_id=RequestVote.TEMPLATE_ID)) < 0.48 * PROBES


def test_what_ends_connections_and_unknown_protocols_are_refused(wire: Wire) -> None:
    with pytest.raises(EnvironmentFault, match=r"invalid toxic type 'reset_peer': this proxy has timeout, latency, "):
        wire.api.add_toxic(NAME, "reset_peer", UP, {"timeout": 0})
    with pytest.raises(EnvironmentFault, match=r"expected timeout 0"):
        wire.api.add_toxic(NAME, "timeout", UP, {"timeout": 300})
    with pytest.raises(EnvironmentFault, match=r"unknown protocol 'sctp': use tcp, udp"):
        wire.api.create("q", wire.receiver.address, protocol="sctp")
    connection = http.client.HTTPConnection(wire.api.address, timeout=PATIENCE_S)
    connection.request("GET", f"/proxies/{NAME}")
    assert json.loads(connection.getresponse().read())["toxics"] == []
    connection.close()


def test_a_proxy_that_is_off_passes_nothing_and_goes_on_at_the_same_address(wire: Wire) -> None:
    wire.send(b"one")
    wire.receiver.got()
    wire.api._call("POST", f"/proxies/{NAME}", {"enabled": False})
    wire.send(b"lost")
    wire.api._call("POST", f"/proxies/{NAME}", {"enabled": True})
    with pytest.raises(ConnectionRefusedError):
        # The kernel says so of the one before.
        wire.send(b"refused")
    wire.send(b"two")
    assert wire.receiver.got() == b"two"


def test_nobody_at_the_far_end_loses_datagrams_and_nothing_else(wire: Wire) -> None:
    where = wire.receiver.socket.getsockname()
    wire.receiver.socket.close()
    wire.send(*numbered(5))
    wire.wait_until_in(5)
    wire.receiver.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    wire.receiver.socket.bind(where)
    wire.receiver.socket.settimeout(PATIENCE_S)
    wire.send(b"a", b"b")
    assert wire.receiver.got() in (b"a", b"b")


# --- pings ---

Text = Callable[[], PingText]


@pytest.fixture
def member(wire: Wire) -> Iterator[Wire]:
    """A receiver answers heartbeats."""
    thread = threading.Thread(target=wire.receiver.answer_heartbeats)
    thread.start()
    yield wire
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"", wire.receiver.socket.getsockname())
    thread.join()


@pytest.mark.parametrize("channel", ["consensus", "log"])
def test_a_ping_is_answered_and_late_by_what_holds_it_up(member: Wire, channel: str) -> None:
    text = partial(datagram_ping_text, channel)
    usual = datagrams.ping(member.listen, text, PATIENCE_S)
    assert usual.answer is Answer.ANSWERED
    for stream in (UP, "downstream"):
        member.api.add_toxic(NAME, "latency", stream, {"latency": LATENCY_MS, "jitter": 0})
        late = datagrams.ping(member.listen, text, PATIENCE_S)
        assert late.answer is Answer.ANSWERED
        assert late.round_trip_ns >= LATENCY_MS * 1_000_000
        member.api.remove_toxic(NAME, "latency", stream)
        member.api.add_toxic(NAME, "timeout", stream, {"timeout": 0})
        assert datagrams.ping(member.listen, text, SILENCE_S).answer is Answer.SILENT
        member.api.remove_toxic(NAME, "timeout", stream)
    assert datagrams.ping(member.listen, text, PATIENCE_S).answer is Answer.ANSWERED


def test_a_ping_that_gets_lost_is_sent_again(member: Wire) -> None:
    member.api.add_toxic(NAME, "timeout", UP, {"timeout": 0}, toxicity=0.7)
    assert datagrams.ping(member.listen, partial(datagram_ping_text, "consensus"), 30.0).answer is Answer.ANSWERED


def test_as_many_bytes_as_a_limit_lets_through_take_their_time(member: Wire) -> None:
    text = partial(datagram_ping_text, "consensus", 8000)
    assert datagrams.ping(member.listen, text, PATIENCE_S).answer is Answer.ANSWERED
    member.api.add_toxic(NAME, "bandwidth", UP, {"rate": 16})
    limited = datagrams.ping(member.listen, text, PATIENCE_S)
    assert limited.answer is Answer.ANSWERED
    assert limited.round_trip_ns >= 480_000_000


# --- volleys ---

PROBES = 200
QUIET_S = 1.5
"""A forwarder on a busy machine may get no processor for that long."""


def volley(wire: Wire, frame_type: int = TYPE_DATA, template_id: int = 0) -> list[int]:
    return datagrams.volley(wire.listen, PROBES, frame_type, 7, template_id, QUIET_S)


def all_come(wire: Wire, template_id: int = 0) -> bool:
    """Whether all of a volley come, once and in order. A busy machine may lose some of it, and not three times."""
    for _ in range(3):
        came = volley(wire, template_id=template_id)
        assert came == sorted(set(came))
        if len(came) == PROBES:
            return True
    return False


def test_probes_come_back_from_the_far_end_once_and_in_order(wire: Wire) -> None:
    assert all_come(wire)
    wire.receiver.socket.settimeout(SILENCE_S)
    with pytest.raises(TimeoutError):
        wire.receiver.got()


def test_probes_are_lost_doubled_or_late_like_the_frames_that_a_toxic_hits(wire: Wire) -> None:
    some = {"frame_type": TYPE_SETUP, "stream_id": 7}
    wire.api.add_toxic(NAME, "timeout", UP, {"timeout": 0, **some}, toxicity=0.3)
    assert 0.12 * PROBES < PROBES - len(volley(wire, TYPE_SETUP)) < 0.48 * PROBES
    assert all_come(wire)
    wire.api.remove_toxic(NAME, "timeout", UP)
    wire.api.add_toxic(NAME, "duplicate", UP, some, toxicity=0.3)
    came = volley(wire, TYPE_SETUP)
    assert sorted(set(came)) == list(range(PROBES))
    assert 1.12 * PROBES < len(came) < 1.48 * PROBES
    wire.api.remove_toxic(NAME, "duplicate", UP)
    wire.api.add_toxic(NAME, "latency", UP, {"latency": 20, "jitter": 20, **some})
    came = volley(wire, TYPE_SETUP)
    assert sorted(came) == list(range(PROBES)) != came
