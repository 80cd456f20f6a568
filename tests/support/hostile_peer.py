"""A peer on real sockets that speaks the transport well and everything above it badly, or the transport badly too."""

import socket
import time
from collections import Counter
from itertools import cycle
from random import Random

from support.hostile_inputs import hostile, other_header
from support.wire_data import vectors
from upheaval_node.errors import DecodeError
from upheaval_node.media.api import Publication
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.link import pad_frame
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import DataHeader, Setup, StatusMessage
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.settings import MediaSettings
from upheaval_node.types import MS

TERM_LENGTH = 64 * 1024
MESSAGES_A_STREAM = 5
CONNECT_TIMEOUT_NS = 10_000 * MS
RAW_SHARE = 0.2
"""Of the connections break the transport's own rules."""


def is_forged(data: bytes) -> bool:
    """Whether a member could have said it, and a member would end by it: a leader with another major version of the
    application, or the end of the cluster. By the protocol members believe each other, so that is not tried here."""
    try:
        message = cm.SCHEMA.decode(data)
    except DecodeError:
        return False
    return isinstance(message, cm.NewLeadershipTerm | cm.TerminationPosition)


class HostilePeer:
    """Sends hostile inputs to `ports`: by port the stream that is served there."""

    def __init__(self, ports: dict[int, int], schemas: dict[int, str], seed: int) -> None:
        self.random = Random(seed)
        self.sent: Counter[int] = Counter()
        self.refused = 0
        self._ports = ports
        self._valid = {
            port: [each.encoded for each in vectors() if each.schema.table.name == schemas[stream_id]]
            for port, stream_id in ports.items()
        }
        self._loop = Loop()
        self._network = SelectorNetwork(self._loop)
        self._media = MediaDriver(self._network, StaticResolver(), MediaSettings(), Random(seed))
        self._cycle = DutyCycle(self._loop, SystemClock(), (self._media,))

    def close(self) -> None:
        self._media.close()
        self._network.drain(100 * MS)
        self._loop.close()

    def attack(self, count: int) -> None:
        """Send so many inputs, in streams and on raw connections."""
        for port in cycle(self._ports):
            if self.sent.total() >= count:
                break
            if self.random.random() < RAW_SHARE:
                self._send_raw(port)
            else:
                self._send_stream(port, min(MESSAGES_A_STREAM, count - self.sent.total()))

    def message(self, port: int) -> bytes:
        while True:
            data = hostile(self.random, self.random.choice(self._valid[port]))
            if self.random.random() < 0.2:
                data = other_header(self.random, data)
            if not is_forged(data):
                return data

    def _send_stream(self, port: int, count: int) -> None:
        """Messages on one stream, until it is thrown out."""
        channel = f"aeron:tcp?endpoint=127.0.0.1:{port}|term-length=64k"
        publication = self._media.add_publication(channel, self._ports[port])
        self._wait(lambda: publication.is_connected)
        assert publication.is_connected, f"port {port} does not answer any more"
        for _ in range(count):
            if not self._offer(publication, self.message(port)):
                self.refused += 1
                break
            self.sent[port] += 1
        publication.close()
        self._cycle.run_once(0)

    def _offer(self, publication: Publication, message: bytes) -> bool:
        """False when the stream is gone."""
        self._wait(lambda: publication.offer(message) > 0 or not publication.is_connected, CONNECT_TIMEOUT_NS)
        self._cycle.run_once(0)
        return publication.is_connected

    def _wait(self, condition: object, timeout_ns: int = CONNECT_TIMEOUT_NS) -> None:
        assert callable(condition)
        self._cycle.run_until(condition, time.monotonic_ns() + timeout_ns)

    def _send_raw(self, port: int) -> None:
        """Frames that are damaged, and bytes that are none; the other side closes the connection or lets it be."""
        random = self.random
        session = random.getrandbits(31)
        stream_id = self._ports[port]
        pieces = [pad_frame(Setup(0, session, stream_id, 5, 5, TERM_LENGTH, 1408).pack())]
        for offset in range(0, 32 * 64, 64):
            kind = random.randrange(3)
            if kind == 0:
                body = self.message(port)[:1000]
                piece = DataHeader(32 + len(body), 0xC0, 1, offset, session, stream_id, 5).pack() + body
            elif kind == 1:
                piece = StatusMessage(session, stream_id, 5, offset, 1 << 16, 9).pack()
            else:
                piece = random.randbytes(random.randrange(1, 200))
            pieces.append(pad_frame(hostile(random, piece)))
        with self._connected(port) as connection:
            for piece in pieces:
                try:
                    connection.sendall(piece)
                except OSError:
                    self.refused += 1
                    break
                self.sent[port] += 1

    def _connected(self, port: int) -> socket.socket:
        """A connection; the ingress of a member is closed while it is in an election."""
        deadline_ns = time.monotonic_ns() + CONNECT_TIMEOUT_NS
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=5)
            except ConnectionRefusedError:
                if time.monotonic_ns() >= deadline_ns:
                    raise
                self._wait(lambda: False, 50 * MS)
