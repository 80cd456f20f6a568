"""The effects of toxics on datagrams: one proxy with two directions, however its datagrams are received and sent.

Runs in its owner's asyncio loop.
"""

import asyncio
import heapq
import struct
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Final, Protocol

from upheaval_chaos.any_proxy import AnyProxy, Traffic
from upheaval_chaos.toxics import DATAGRAM_TYPES, STREAMS, UPSTREAM, Toxic, ToxicError
from upheaval_node.protocol.cluster_messages import SCHEMA
from upheaval_node.protocol.frames import FLAGS_UNFRAGMENTED, TYPE_DATA, TYPE_OFFSET, TYPE_PAD, TYPE_SETUP
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, align

_QUEUE_MAX_S: Final = 2.0
"""The longest wait of a datagram because of a bandwidth limit, in seconds; a datagram that would wait longer is
dropped.
"""
_TYPE: Final = struct.Struct("<H")
_INT: Final = struct.Struct("<i")
_STREAM_OFFSETS: Final = {TYPE_PAD: 16, TYPE_DATA: 16, TYPE_SETUP: 16}
_STREAM_OFFSET: Final = 12
"""The offset of the stream id in all other frames."""
_FLAGS_OFFSET: Final = 5
_SBE_HEADER: Final = struct.Struct("<HHHH")

Send = Callable[[bytes], object]


class Watch(Protocol):
    """Observes datagrams that pass a proxy towards the upstream. It is called in the proxies' thread and must not
    block. Times are monotonic.
    """

    def on_received(self, datagram: bytes, ns: int) -> None:
        """The datagram has arrived, whatever happens to it."""

    def on_sent(self, datagram: bytes, ns: int) -> None:
        """The datagram has been sent, and not before that time: all its consequences are later."""


WatchOf = Callable[[str], Watch | None]
"""The observer of a proxy, by the proxy's name."""


class ProxyOfDatagrams(AnyProxy):
    """One proxy of datagrams. `ways` are its directions."""

    types = DATAGRAM_TYPES

    def __init__(self, name: str, listen: str, upstream: str, random: Random, watch: Watch | None = None) -> None:
        super().__init__(name, listen, upstream, random)
        watches = {UPSTREAM: watch}
        self.ways = {stream: Way(self.traffic[stream], random, watches.get(stream)) for stream in STREAMS}

    def put_toxic(self, toxic: Toxic) -> None:
        """Add or replace a toxic; a cut also affects datagrams in flight."""
        if toxic.get("timeout"):
            raise ToxicError("a datagram has no connection to end: expected timeout 0")
        self.toxics[toxic.name] = toxic
        self._change(toxic.stream)

    async def remove_toxic(self, name: str) -> None:
        """What is held back by it already comes when it would have come."""
        self._change(self.toxics.pop(name).stream)

    def _change(self, stream: str) -> None:
        self.ways[stream].toxics = [toxic for toxic in self.toxics.values() if toxic.stream == stream]


class Way:
    """One direction: its toxics, and the datagrams that they delay."""

    def __init__(self, traffic: Traffic, random: Random, watch: Watch | None) -> None:
        self.toxics: list[Toxic] = []
        self._watch = watch
        self._traffic = traffic
        self._random = random
        self._waiting: list[tuple[float, int, bytes, Send]] = []
        self._number = 0
        self._free_at_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def clear(self) -> None:
        """Drop all waiting datagrams."""
        self._waiting.clear()
        self._arm()

    def take(self, data: bytes, send: Send) -> None:
        """Send a datagram at once, later, twice, or not at all, according to the toxics."""
        self._traffic.received += len(data)
        self._traffic.datagrams_received += 1
        if self._watch is not None:
            self._watch.on_received(data, time.monotonic_ns())
        if not self.toxics:
            self._pass_on(data, send)
            return
        now = asyncio.get_running_loop().time()
        delay_s, copies = 0.0, 1
        for toxic in self.toxics:
            if not _is_about(toxic, data) or (toxic.toxicity < 1 and self._random.random() >= toxic.toxicity):
                continue
            if toxic.type == "timeout":
                return
            if toxic.type == "omit":
                data = _without(data, toxic.get("template_id"))
            elif toxic.type == "duplicate":
                copies += 1
            elif toxic.type == "latency":
                jitter = toxic.get("jitter")
                delay_s += (toxic.get("latency") + (self._random.uniform(-jitter, jitter) if jitter else 0)) / 1000
            elif toxic.get("rate"):
                begin = max(now, self._free_at_s)
                if begin - now > _QUEUE_MAX_S:
                    return
                self._free_at_s = begin + len(data) / (toxic.get("rate") * 1000)
                delay_s += self._free_at_s - now
        for _ in range(copies):
            if delay_s > 0:
                self._number += 1
                heapq.heappush(self._waiting, (now + delay_s, self._number, data, send))
            else:
                self._pass_on(data, send)
        if delay_s > 0:
            self._arm()

    def _arm(self) -> None:
        """Schedule a call for the first waiting datagram that becomes due."""
        due_s = self._waiting[0][0] if self._waiting else None
        if self._timer is not None and (due_s is None or self._timer.when() > due_s):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and due_s is not None:
            self._timer = asyncio.get_running_loop().call_at(due_s, self._release)

    def _release(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, data, send = heapq.heappop(self._waiting)
            if not self._is_cut(data):
                self._pass_on(data, send)
        self._arm()

    def _is_cut(self, data: bytes) -> bool:
        cuts = (toxic for toxic in self.toxics if toxic.type == "timeout" and toxic.toxicity >= 1)
        return any(_is_about(toxic, data) for toxic in cuts)

    def _pass_on(self, data: bytes, send: Send) -> None:
        begin_ns = time.monotonic_ns()
        try:
            send(data)
        except OSError:
            # The socket has no room, or no listener: the datagram is lost, as datagrams can be.
            return
        self._traffic.sent += len(data)
        self._traffic.datagrams_sent += 1
        if self._watch is not None:
            self._watch.on_sent(data, begin_ns)


def _is_about(toxic: Toxic, data: bytes) -> bool:
    """Whether a toxic applies to a datagram, according to its first frame."""
    wanted_type, wanted_stream = toxic.get("frame_type"), toxic.get("stream_id")
    if not wanted_type and not wanted_stream:
        return True
    if len(data) < TYPE_OFFSET + 2:
        return False
    (kind,) = _TYPE.unpack_from(data, TYPE_OFFSET)
    if wanted_type and (TYPE_DATA if kind == TYPE_PAD else kind) != wanted_type:
        return False
    offset = _STREAM_OFFSETS.get(kind, _STREAM_OFFSET)
    return not wanted_stream or (len(data) >= offset + 4 and _INT.unpack_from(data, offset)[0] == wanted_stream)


def _without(data: bytes, template_id: int) -> bytes:
    """The datagram with padding in place of each whole message of a template: positions in the stream stay."""
    offsets = [offset + TYPE_OFFSET for offset in _messages(data) if _template(data, offset) == template_id]
    if not offsets:
        return data
    changed = bytearray(data)
    for offset in offsets:
        _TYPE.pack_into(changed, offset, TYPE_PAD)
    return bytes(changed)


def _messages(data: bytes) -> Iterator[int]:
    """The offsets of the frames with a whole message."""
    offset = 0
    while offset + FRAME_HEADER_LENGTH + _SBE_HEADER.size <= len(data):
        (length,) = _INT.unpack_from(data, offset)
        if length < FRAME_HEADER_LENGTH:
            return
        (kind,) = _TYPE.unpack_from(data, offset + TYPE_OFFSET)
        if kind == TYPE_DATA and data[offset + _FLAGS_OFFSET] & FLAGS_UNFRAGMENTED == FLAGS_UNFRAGMENTED:
            yield offset
        offset += align(length, FRAME_ALIGNMENT)


def _template(data: bytes, offset: int) -> int:
    """The template of the consensus message in that frame; 0 for any other frame."""
    _, template_id, schema_id, _ = _SBE_HEADER.unpack_from(data, offset + FRAME_HEADER_LENGTH)
    return template_id if schema_id == SCHEMA.table.schema_id else 0
