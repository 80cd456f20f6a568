"""A proxy of datagrams with toxics: forwards datagrams from its listen address to its upstream, and answers back.

Runs in its owner's asyncio loop. Each sender has its own socket towards the upstream, so that answers find their way
back. Answers leave from the listen address, by which Aeron distinguishes destinations. A `probe` that reaches the
upstream's end is not forwarded, since no upstream would answer it, but returns at once.
"""

import asyncio
import socket
import time
from random import Random
from typing import Final

from upheaval_chaos.datagram_ways import ProxyOfDatagrams, Watch, Way
from upheaval_chaos.probes import is_probe
from upheaval_chaos.toxics import DOWNSTREAM, UPSTREAM

_LENGTH_MAX: Final = 1 << 16
_BUFFER_LENGTH: Final = 4 << 20
_TAKEN_AT_ONCE: Final = 64
_UNUSED_S: Final = 60.0
"""The seconds after which an unused sender's socket is closed: longer than an image lives without a sign of
its source.
"""

Address = tuple[str, int]


class DatagramProxy(ProxyOfDatagrams):
    """A proxy with a listen address."""

    def __init__(self, name: str, listen: str, upstream: str, random: Random, watch: Watch | None = None) -> None:
        super().__init__(name, listen, upstream, random, watch)
        self._socket: socket.socket | None = None
        self._flows: dict[Address, _Flow] = {}

    @property
    def enabled(self) -> bool:
        """Whether it listens."""
        return self._socket is not None

    async def enable(self) -> None:
        """Listen. Raises `OSError` when the address cannot be bound."""
        if self._socket is None:
            made = self._socket = _bound(_address(self.listen))
            self.listen = "{}:{}".format(*made.getsockname())
            asyncio.get_running_loop().add_reader(made, self._take, made)

    async def disable(self) -> None:
        """Listen no more, and drop what is under way."""
        made, self._socket = self._socket, None
        if made is not None:
            _close(made)
        for flow in self._flows.values():
            flow.close()
        self._flows.clear()
        for way in self.ways.values():
            way.clear()

    def _take(self, made: socket.socket) -> None:
        for _ in range(_TAKEN_AT_ONCE):
            try:
                data, sender = made.recvfrom(_LENGTH_MAX)
            except BlockingIOError:
                return
            flow = self._flows.get(sender)
            if flow is None:
                flow = self._flows[sender] = self._new_flow(made, sender)
            flow.carry_on(data)

    def _new_flow(self, made: socket.socket, sender: Address) -> "_Flow":
        """Create a flow, and close those that are no longer in use."""
        oldest = time.monotonic() - _UNUSED_S
        for unused in [known for known, flow in self._flows.items() if flow.used_s < oldest]:
            self._flows.pop(unused).close()
        return _Flow(made, sender, _address(self.upstream), self.ways)


class _Flow:
    """The datagrams of one sender, and the answers to them."""

    def __init__(self, listener: socket.socket, sender: Address, upstream: Address, ways: dict[str, Way]) -> None:
        self._listener = listener
        self._sender = sender
        self._on, self._back = ways[UPSTREAM], ways[DOWNSTREAM]
        self.used_s = time.monotonic()
        self._socket = _bound((upstream[0] if upstream[0].startswith("127.") else "0.0.0.0", 0))
        self._socket.connect(upstream)
        asyncio.get_running_loop().add_reader(self._socket, self._take)

    def close(self) -> None:
        _close(self._socket)

    def carry_on(self, data: bytes) -> None:
        self.used_s = time.monotonic()
        self._on.take(data, self._send_on)

    def _take(self) -> None:
        self.used_s = time.monotonic()
        for _ in range(_TAKEN_AT_ONCE):
            try:
                data = self._socket.recv(_LENGTH_MAX)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                # An earlier datagram found no listener.
                continue
            self._back.take(data, self._send_back)

    def _send_on(self, data: bytes) -> None:
        if is_probe(data):
            self._back.take(data, self._send_back)
        else:
            self._socket.send(data)

    def _send_back(self, data: bytes) -> None:
        self._listener.sendto(data, self._sender)


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _bound(address: Address) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            made.setsockopt(socket.SOL_SOCKET, option, _BUFFER_LENGTH)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def _close(made: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(made)
    made.close()
