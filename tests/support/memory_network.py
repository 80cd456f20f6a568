"""A network in memory: byte streams that are delivered when a test says so, in pieces of the size it says.

It implements `ports.Network` for the core's tests: nothing runs on its own, every run is deterministic. A test can
cut connections (with or without what was under way), stall one direction, and refuse addresses.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, repeat

from upheaval_node.errors import NetworkError
from upheaval_node.ports import Buffer, Connection, ConnectionHandler

DEFAULT_CAPACITY = 256 * 1024


class MemoryConnection:
    """One end. What it sends waits here until the network delivers it to the other end."""

    def __init__(self, network: "MemoryNetwork", handler: ConnectionHandler | None, peer: str, address: str) -> None:
        self._network = network
        self.handler = handler
        self.peer = peer
        self.address = address
        self.other: MemoryConnection | None = None
        self.outgoing = bytearray()
        self.is_paused = False
        self.is_stalled = False
        self.is_open = True
        self.wants_writable = False
        self.sent_bytes = 0

    def send(self, parts: Sequence[Buffer]) -> int:
        if not self.is_open:
            return 0
        accepted = 0
        for part in parts:
            room = self._network.capacity - len(self.outgoing)
            self.outgoing += part[:room]
            accepted += min(room, len(part))
            if room < len(part):
                self.wants_writable = True
                break
        self.sent_bytes += accepted
        return accepted

    def pause_reading(self, paused: bool) -> None:
        self.is_paused = paused

    def close(self) -> None:
        """An orderly close: what was sent still arrives, then the other end learns of it."""
        self.is_open = False


class MemoryListener:
    def __init__(
        self, network: "MemoryNetwork", address: str, accept: Callable[[Connection], ConnectionHandler]
    ) -> None:
        self._network = network
        self.address = address
        self.accept = accept

    def close(self) -> None:
        self._network.listeners.pop(self.address, None)


class MemoryNetwork:
    """`pieces` yields the sizes of delivered pieces; `capacity` is what a connection takes before `send` refuses."""

    def __init__(self, pieces: Iterator[int] | None = None, capacity: int = DEFAULT_CAPACITY) -> None:
        self.pieces = pieces if pieces is not None else repeat(1 << 30)
        self.capacity = capacity
        self.listeners: dict[str, MemoryListener] = {}
        self.connections: list[MemoryConnection] = []
        self.refused: set[str] = set()
        self.dialled: list[str] = []
        self._dials: list[tuple[str, MemoryConnection]] = []
        self._ports = count(40000)
        self.dialling_host = "client"
        """Who dials from now on, as the other end sees it."""

    # --- ports.Network ---

    def listen(self, address: str, accept: Callable[[Connection], ConnectionHandler]) -> MemoryListener:
        if address.endswith(":0"):
            address = f"{address[:-2]}:{next(self._ports)}"
        if address in self.listeners:
            raise NetworkError(f"{address} is in use")
        listener = MemoryListener(self, address, accept)
        self.listeners[address] = listener
        return listener

    def dial(self, address: str, handler: ConnectionHandler) -> MemoryConnection:
        connection = MemoryConnection(self, handler, peer=address, address=address)
        self.dialled.append(address)
        self._dials.append((address, connection))
        return connection

    # --- what tests do ---

    def cut(self, *, lose: bool = True) -> int:
        """Break every connection; with `lose` also what is under way. Returns how many connections there were."""
        ends = [end for end in self.connections if end.is_open]
        for end in ends:
            if lose:
                end.outgoing.clear()
            else:
                self._deliver_all(end)
        self.connections.clear()
        for end in ends:
            end.is_open = False
            if end.handler is not None:
                end.handler.on_closed("connection reset")
        return len(ends) // 2

    def stall(self, address: str, *, stalled: bool = True, both: bool = False) -> None:
        """Hold what dialled connections send to `address`; with `both` also the answers."""
        for end in self.connections:
            if end.address == address and (both or end.peer == address):
                end.is_stalled = stalled

    def connections_to(self, address: str) -> list[MemoryConnection]:
        """The dialling ends of the open connections to an address."""
        return [end for end in self.connections if end.address == address and end.peer == address and end.is_open]

    def step(self) -> int:
        """Establish what was dialled and deliver one piece in each direction; returns how much happened."""
        done = self._connect()
        for end in list(self.connections):
            done += self._deliver(end)
        for end in list(self.connections):
            done += self._close(end)
        return done

    def _connect(self) -> int:
        dials, self._dials = self._dials, []
        for address, connection in dials:
            if not connection.is_open:
                continue
            listener = self.listeners.get(address)
            assert connection.handler is not None
            if listener is None or address in self.refused:
                connection.is_open = False
                connection.handler.on_closed("connection refused")
                continue
            other = MemoryConnection(self, None, peer=f"{self.dialling_host}:{next(self._ports)}", address=address)
            connection.other, other.other = other, connection
            self.connections += [connection, other]
            other.handler = listener.accept(other)
            if other.is_open:
                other.handler.on_connected(other)
            connection.handler.on_connected(connection)
        return len(dials)

    def _deliver(self, end: MemoryConnection) -> int:
        other = end.other
        assert other is not None
        if not other.is_open:
            end.outgoing.clear()
            return 0
        if not end.outgoing or end.is_stalled or other.is_paused:
            return 0
        piece = bytes(end.outgoing[: max(next(self.pieces), 1)])
        del end.outgoing[: len(piece)]
        assert other.handler is not None
        other.handler.on_data(memoryview(piece))
        if end.wants_writable and end.is_open:
            end.wants_writable = False
            assert end.handler is not None
            end.handler.on_writable()
        return 1

    def _deliver_all(self, end: MemoryConnection) -> None:
        while end.outgoing and self._deliver(end):
            pass

    def _close(self, end: MemoryConnection) -> int:
        """Once everything that a closed end sent has arrived, the other end learns of the close."""
        other = end.other
        assert other is not None
        if end.is_open or end not in self.connections or (end.outgoing and other.is_open):
            return 0
        if end.is_stalled:
            return 0
        self.connections.remove(end)
        self.connections.remove(other)
        if other.is_open:
            other.is_open = False
            assert other.handler is not None
            other.handler.on_closed("closed by peer")
        return 1
