"""A proxy of datagrams in the network of one of its ends: the kernel hands over datagrams in flight, and no end dials
it.

The ends use their own addresses. Rules of iptables put the datagrams from the source to the upstream into one queue,
and those back into another; one of the two addresses is this machine's. A datagram without delay continues unchanged. A
delayed or duplicated one is sent anew in the name of its sender, past the rules. A `probe` continues, too, so that the
kernel counts it (a member counts an invalid packet and ignores it); its answer is sent in the name of the upstream.
Without this process all datagrams pass.
"""

import contextlib
import errno
import itertools
import socket
from collections.abc import Iterator
from random import Random
from typing import Final

from upheaval_chaos.datagram_ways import ProxyOfDatagrams, Watch, Way
from upheaval_chaos.packet_queue import PacketQueue
from upheaval_chaos.probes import is_probe
from upheaval_chaos.programs import run_program
from upheaval_chaos.toxics import DOWNSTREAM, STREAMS, UPSTREAM

_MARK: Final = 0x7F0F
"""The mark of packets sent from here, which no rule matches."""
_SOURCE, _TARGET = slice(12, 16), slice(16, 20)
_UDP_HEADER_LENGTH: Final = 8
_UDP_SUM_OFFSET: Final = 6


class QueueProxy(ProxyOfDatagrams):
    """One proxy. `listen` is the address of its source, with any port."""

    _numbers = itertools.count()

    def __init__(self, name: str, listen: str, upstream: str, random: Random, watch: Watch | None = None) -> None:
        super().__init__(name, listen, upstream, random, watch)
        self._open: contextlib.AsyncExitStack | None = None

    @property
    def enabled(self) -> bool:
        """Whether its rules are in place."""
        return self._open is not None

    async def enable(self) -> None:
        """Put the rules in. Raises `OSError` when that cannot be done."""
        if self._open is not None:
            return
        async with contextlib.AsyncExitStack() as stack:
            raw = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
            raw.setblocking(False)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, _MARK)
            for stream, match in zip(STREAMS, self._matches(), strict=True):
                number = next(self._numbers)
                taker = _Taker(self.ways[stream], self.ways[DOWNSTREAM] if stream == UPSTREAM else None, raw)
                stack.callback(PacketQueue(number, taker.take).close)
                rule = f"{match} -m mark ! --mark {_MARK} -j NFQUEUE --queue-num {number} --queue-bypass"
                _iptables(f"-A {rule}")
                stack.callback(_iptables, f"-D {rule}")
            self._open = stack.pop_all()

    async def disable(self) -> None:
        """Take the rules away, and drop what is under way."""
        stack, self._open = self._open, None
        if stack is not None:
            await stack.aclose()
        for way in self.ways.values():
            way.clear()

    def _matches(self) -> Iterator[str]:
        """The rules' matches for the datagrams of each stream."""
        source = self.listen.rpartition(":")[0]
        target, _, port = self.upstream.rpartition(":")
        on, back = ("INPUT", "OUTPUT") if _is_here(target) else ("OUTPUT", "INPUT")
        yield f"{on} -s {source} -d {target} -p udp --dport {port}"
        yield f"{back} -s {target} -d {source} -p udp --sport {port}"


class _Taker:
    """Takes one stream from its queue. `answers` is the direction in which a probe is answered."""

    def __init__(self, way: Way, answers: Way | None, raw: socket.socket) -> None:
        self._way = way
        self._answers = answers
        self._raw = raw

    def take(self, packet: bytes) -> bool:
        under_way = _Packet(packet, self)
        self._way.take(under_way.payload, under_way.send)
        under_way.is_queued = False
        return under_way.passes

    def send(self, packet: bytes) -> None:
        self._raw.sendto(packet, (socket.inet_ntoa(packet[_TARGET]), 0))

    def look(self, packet: bytes) -> None:
        """Look at a delivered datagram."""
        data = _payload(packet)
        if self._answers is not None and is_probe(data):
            self._answers.take(data, lambda _: self.send(_answer(packet)))


class _Packet:
    """A packet in flight. The first time it continues unchanged, if it is still in the queue and was not modified."""

    __slots__ = ("_packet", "_taker", "is_queued", "passes", "payload")

    def __init__(self, packet: bytes, taker: _Taker) -> None:
        self._packet = packet
        self.payload = _payload(packet)
        self._taker = taker
        self.is_queued = True
        self.passes = False

    def send(self, data: bytes) -> None:
        is_as_it_came = data is self.payload
        packet = self._packet if is_as_it_came else _with_payload(self._packet, data)
        if is_as_it_came and self.is_queued and not self.passes:
            self.passes = True
        else:
            self._taker.send(packet)
        self._taker.look(packet)


def _payload(packet: bytes) -> bytes:
    """The datagram in an IPv4 packet."""
    return packet[(packet[0] & 0xF) * 4 + _UDP_HEADER_LENGTH :]


def _with_payload(packet: bytes, data: bytes) -> bytes:
    """The packet with another datagram of the same length, without its checksum."""
    ports = (packet[0] & 0xF) * 4
    return b"".join((packet[: ports + _UDP_SUM_OFFSET], b"\0\0", data))


def _answer(packet: bytes) -> bytes:
    """The packet from its target to its source; its checksums stay valid."""
    ports = (packet[0] & 0xF) * 4
    return b"".join(
        (
            packet[: _SOURCE.start],
            packet[_TARGET],
            packet[_SOURCE],
            packet[_TARGET.stop : ports],
            packet[ports + 2 : ports + 4],
            packet[ports : ports + 2],
            packet[ports + 4 :],
        )
    )


def _is_here(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((address, 0))
        except OSError:
            return False
    return True


def _iptables(rule: str) -> None:
    """Run iptables. Raises `OSError` with its output."""
    done = run_program(["iptables", "-w", "-t", "mangle", *rule.split()])
    if done.returncode:
        raise OSError(errno.ENOTSUP, done.stderr.strip().rpartition("\n")[2])
