"""A TCP proxy with toxics: it forwards every connection to its listen address to its upstream, byte by byte.

Runs in its owner's asyncio loop. Behaves as Toxiproxy does with one exception: an end of stream closes one direction,
not both.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from upheaval_chaos.any_proxy import AnyProxy
from upheaval_chaos.toxics import DOWNSTREAM, TYPES, UPSTREAM, Toxic

_READ_LENGTH: Final = 64 * 1024
# Chunks that may wait because of latency or bandwidth before the sender is held back.
_CHUNKS_UNDER_WAY: Final = 1024
# A limited stream writes pieces worth this fraction of a second.
_PIECES_A_SECOND: Final = 20
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Proxy(AnyProxy):
    """One proxy of connections."""

    types = TYPES

    def __init__(self, name: str, listen: str, upstream: str, random: Random) -> None:
        super().__init__(name, listen, upstream, random)
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self.changed = asyncio.Event()
        """Set at the next change of the toxics, by then a new one."""

    @property
    def enabled(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    async def enable(self) -> None:
        """Listen. Raises `OSError` when the address cannot be bound."""
        if self._server is None:
            host, _, port = self.listen.rpartition(":")
            self._server = await asyncio.start_server(self._accept, host.strip("[]") or "127.0.0.1", int(port))
            host, port_number = self._server.sockets[0].getsockname()[:2]
            self.listen = f"[{host}]:{port_number}" if ":" in host else f"{host}:{port_number}"

    async def disable(self) -> None:
        """Listen no more and drop all connections."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        await self._end(self._connections)

    def put_toxic(self, toxic: Toxic) -> None:
        """Add or replace a toxic; it also affects existing connections."""
        self.toxics[toxic.name] = toxic
        self._note_change()
        for connection in list(self._connections):
            connection.meet(toxic)

    async def remove_toxic(self, name: str) -> None:
        """As with Toxiproxy, connections that lost bytes to a time-out end: what they carried has a hole."""
        toxic = self.toxics.pop(name)
        self._note_change()
        if toxic.type == "timeout":
            await self._end([connection for connection in self._connections if connection.met(toxic)])

    def _note_change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    @staticmethod
    async def _end(connections: "Iterable[_Connection]") -> None:
        for connection in connections:
            connection.close()
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run()
        except asyncio.CancelledError:
            # The loop is ending. The server that created this task would report the cancellation as an error.
            return
        finally:
            self._connections.discard(connection)


class _Connection:
    """One connection from a client, with its connection to the upstream."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = (reader, writer)
        self._writers = [writer]
        self._ended = asyncio.Event()
        self._met: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def run(self) -> None:
        """Carries bytes until both directions are over or the connection was closed."""
        tasks: list[asyncio.Task[None]] = []
        try:
            for toxic in self._proxy.toxics.values():
                self.meet(toxic)
            if self._ended.is_set():
                return
            host, _, port = self._proxy.upstream.rpartition(":")
            server_reader, server_writer = await asyncio.open_connection(host.strip("[]"), int(port))
            self._writers.append(server_writer)
            client_reader, client_writer = self._client
            pipes = [
                _Pipe(self._proxy, UPSTREAM, client_reader, server_writer, self.swallowed),
                _Pipe(self._proxy, DOWNSTREAM, server_reader, client_writer, self.swallowed),
            ]
            tasks = [asyncio.ensure_future(self._carry(pipes)), asyncio.ensure_future(self._wait_for_end())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            # The upstream refused, so the client's connection ends, as for a missing host.
            return
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for timer in self._timers.values():
                timer.cancel()
            for writer in self._writers:
                writer.transport.abort()

    def close(self) -> None:
        self._ended.set()

    def met(self, toxic: Toxic) -> bool:
        return toxic.name in self._met

    def meet(self, toxic: Toxic) -> None:
        """Apply a toxic from now on."""
        if toxic.toxicity < 1 and self._proxy.random.random() >= toxic.toxicity:
            return
        self._met.add(toxic.name)
        delay_ms = toxic.get("timeout")
        if toxic.type == "reset_peer":
            if delay_ms:
                self._call_later(toxic.name, delay_ms, self._reset)
            else:
                self._reset()
        elif toxic.type == "timeout" and delay_ms:
            self._call_later(toxic.name, delay_ms, self.close)

    def swallowed(self, stream: str) -> None:
        """Bytes were swallowed: the silence of this stream begins anew."""
        for toxic in self._proxy.toxics_of(stream, "timeout"):
            if self.met(toxic) and toxic.get("timeout"):
                self._call_later(toxic.name, toxic.get("timeout"), self.close)

    def _call_later(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        known = self._timers.pop(name, None)
        if known is not None:
            known.cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(delay_ms / 1000, action)

    def _reset(self) -> None:
        """Send RST to both sides."""
        for writer in self._writers:
            underlying = writer.get_extra_info("socket")
            if underlying is not None:
                with contextlib.suppress(OSError):
                    underlying.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.close()

    async def _carry(self, pipes: "list[_Pipe]") -> None:
        await asyncio.gather(*(pipe.run() for pipe in pipes))

    async def _wait_for_end(self) -> None:
        await self._ended.wait()


class _Pipe:
    """One direction: a reader that notes the arrival of bytes, and a writer that releases them when they are due."""

    def __init__(
        self,
        proxy: Proxy,
        stream: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        swallowed: Callable[[str], None],
    ) -> None:
        self._proxy = proxy
        self._stream = stream
        self._swallowed = swallowed
        self._reader = reader
        self._writer = writer
        self._traffic = proxy.traffic[stream]
        self._under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_UNDER_WAY)

    async def run(self) -> None:
        """Ends after the end of the stream was passed on; raises `OSError` when one side is gone."""
        await asyncio.gather(self._read(), self._write())

    async def _read(self) -> None:
        clock = asyncio.get_running_loop().time
        data = b"-"
        while data:
            try:
                data = await self._reader.read(_READ_LENGTH)
            except OSError:
                data = b""
            self._traffic.received += len(data)
            await self._under_way.put((clock(), data))

    async def _write(self) -> None:
        while True:
            came, data = await self._under_way.get()
            await self._wait_until_due(came)
            if self._proxy.toxics_of(self._stream, "timeout"):
                if data:
                    self._swallowed(self._stream)
                else:
                    # The end of the stream does not arrive either: silence until the connection is closed.
                    await asyncio.Event().wait()
                continue
            if not data:
                break
            await self._pass_on(data)
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def _wait_until_due(self, came: float) -> None:
        """Wait for the latency, which counts anew whenever the toxics change."""
        clock = asyncio.get_running_loop().time
        while (left_s := came + self._latency_s() - clock()) > 0:
            try:
                await asyncio.wait_for(self._proxy.changed.wait(), left_s)
            except TimeoutError:
                return
        await asyncio.sleep(0)

    async def _pass_on(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            # A limited stream takes so long for a chunk that a time-out may begin meanwhile.
            if self._proxy.toxics_of(self._stream, "timeout"):
                self._swallowed(self._stream)
                return
            limits = [toxic.get("rate") * 1000 for toxic in self._proxy.toxics_of(self._stream, "bandwidth")]
            rate = min((limit for limit in limits if limit), default=0)
            piece = rest[: max(rate // _PIECES_A_SECOND, 1)] if rate else rest
            self._writer.write(piece)
            await self._writer.drain()
            self._traffic.sent += len(piece)
            rest = rest[len(piece) :]
            if rate:
                await asyncio.sleep(len(piece) / rate)

    def _latency_s(self) -> float:
        latency_ms = 0.0
        for toxic in self._proxy.toxics_of(self._stream, "latency"):
            jitter = toxic.get("jitter")
            latency_ms += max(toxic.get("latency") + (self._proxy.random.uniform(-jitter, jitter) if jitter else 0), 0)
        return latency_ms / 1000
