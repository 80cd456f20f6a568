"""`SocketNetwork` and `SelectorNetwork`: the network port over real TCP and Unix stream sockets.

Knows bytes and connections, nothing of frames or streams. Every callback comes from the loop, none from inside the
call that caused it. Kernel buffers of TCP are left to the kernel: setting them would switch its tuning off, and the
tuned size is larger than what an unprivileged process may ask for.
"""

import contextlib
import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from upheaval_node.errors import NetworkError
from upheaval_node.ports import Buffer, Connection, ConnectionHandler
from upheaval_node.runtime.addresses import (
    UNIX_PREFIX,
    LookupResult,
    NameLookup,
    format_address,
    host_and_port,
    look_up,
    unix_path,
    without_lookup,
)
from upheaval_node.runtime.loop import READABLE, WRITABLE, EventSource, Loop

READ_BUFFER_LENGTH: Final = 256 * 1024
UNIX_SOCKET_BUFFER_LENGTH: Final = 2 * 1024 * 1024  # asked for; the kernel gives at most net.core.wmem_max
LISTEN_BACKLOG: Final = 128
ACCEPT_LIMIT: Final = 64  # a round of the loop, so that a storm of dialling peers cannot starve the member
ACCEPT_RETRY_NS: Final = 100_000_000  # after running out of file descriptors
LINGER_NS: Final = 1_000_000_000
# A connection whose bytes stay unacknowledged this long is dead. Without the limit the kernel's retransmission
# back-off would go on for as long again as a network partition lasted.
UNACKNOWLEDGED_TIMEOUT_MS: Final = 5_000
MAX_PARTS: Final = 1024  # IOV_MAX of Linux: more parts in one sendmsg are an error

_IN_PROGRESS: Final = frozenset({errno.EINPROGRESS, errno.EAGAIN, errno.EWOULDBLOCK, errno.EALREADY, errno.EINTR})
_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class SocketNetwork:
    """Implements `ports.Network` on one loop, whichever that is."""

    def __init__(self, loop: EventSource, *, unacknowledged_timeout_ms: int = UNACKNOWLEDGED_TIMEOUT_MS) -> None:
        self.loop = loop
        self.read_buffer = memoryview(bytearray(READ_BUFFER_LENGTH))
        self.unacknowledged_timeout_ms = unacknowledged_timeout_ms
        self.lingering: set[SelectorConnection] = set()
        self.open_connections: set[SelectorConnection] = set()
        self.open_listeners: set[SelectorListener] = set()
        self._lookup = NameLookup(loop)

    def listen(self, address: str, accept: Callable[[Connection], ConnectionHandler]) -> "SelectorListener":
        """Bind and listen. Raises `NetworkError` with one line that says which address and why."""
        path = unix_path(address)
        if path is not None:
            return SelectorListener(self, _bind_unix(path), address, accept)
        host, port = host_and_port(address)
        family, socket_address = without_lookup(host, port) or look_up(host, port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(socket_address)
            sock.listen(LISTEN_BACKLOG)
        except OSError as error:
            sock.close()
            raise _listen_error(address, error) from error
        bound_port = sock.getsockname()[1]
        return SelectorListener(self, sock, f"{address.rpartition(':')[0]}:{bound_port}", accept)

    def dial(self, address: str, handler: ConnectionHandler) -> "SelectorConnection":
        """Start to connect. An address that cannot be used ends in `on_closed`, like a refused one."""
        connection = SelectorConnection(self, address, handler)
        try:
            path = unix_path(address)
            if path is not None:
                connection.start(socket.AF_UNIX, path)
                return connection
            host, port = host_and_port(address)
            known = without_lookup(host, port)
        except NetworkError as error:
            connection.fail_later(str(error))
            return connection
        if known is not None:
            connection.start(*known)
        else:
            self._lookup.start(host, port, connection.on_looked_up)
        return connection

    def close(self) -> None:
        """Let go of everything at once, without a word to anybody: for the end of a process, after `drain`."""
        for listener in tuple(self.open_listeners):
            listener.close()
        for connection in tuple(self.open_connections):
            connection.abandon()


class SelectorNetwork(SocketNetwork):
    """On the loop of a process, which it can turn by itself."""

    def __init__(self, loop: Loop, *, unacknowledged_timeout_ms: int = UNACKNOWLEDGED_TIMEOUT_MS) -> None:
        super().__init__(loop, unacknowledged_timeout_ms=unacknowledged_timeout_ms)
        self.loop: Loop = loop

    def drain(self, timeout_ns: int) -> None:
        """Give closed connections at most this long to hand over what they still hold: for the end of a process."""
        deadline_ns = time.monotonic_ns() + timeout_ns
        while self.lingering and (left_ns := deadline_ns - time.monotonic_ns()) > 0:
            self.loop.run_once(left_ns / 1e9)


class SelectorConnection:
    """Implements `ports.Connection`; made by `dial` or by a listener."""

    def __init__(self, network: SocketNetwork, peer: str, handler: ConnectionHandler | None) -> None:
        self._network = network
        self._loop = network.loop
        self._peer = peer
        self._handler = handler
        self._socket: socket.socket | None = None
        self._fd = -1
        self._registered_events = 0
        self._is_connected = False
        self._is_paused = False
        self._wants_write = False
        self._is_send_broken = False
        self._is_closed = False

    @property
    def peer(self) -> str:
        return self._peer

    def send(self, parts: Sequence[Buffer]) -> int:
        """Accepts bytes only while connected; parts are buffers of single bytes."""
        if not self._is_connected or self._is_closed or self._is_send_broken:
            self._wants_write = not self._is_connected
            return 0
        assert self._socket is not None
        accepted = 0
        for first in range(0, len(parts), MAX_PARTS):
            chunk = parts[first : first + MAX_PARTS] if len(parts) > MAX_PARTS else parts
            length = sum(map(len, chunk))
            try:
                sent = self._socket.sendmsg(chunk)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                # What the peer sent before it went is still to be read; reading then finds the end and reports it.
                self._is_send_broken = True
                self._wants_write = False
                self._apply_interest()
                return accepted
            accepted += sent
            if sent < length:
                self._wants_write = True
                self._apply_interest()
                break
        return accepted

    def pause_reading(self, paused: bool) -> None:
        if paused != self._is_paused:
            self._is_paused = paused
            self._apply_interest()

    def close(self) -> None:
        """Hand over what was accepted, then close. What the peer still sends is thrown away.

        Closing at once would reset the connection when unread input is left, and a reset destroys what was sent.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._handler = None
        if not self._is_connected or self._socket is None:
            self._dispose()
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._dispose()
            return
        self._is_paused = False
        self._wants_write = False
        self._apply_interest()
        self._network.lingering.add(self)
        self._loop.call_at(time.monotonic_ns() + LINGER_NS, self._dispose)

    def abandon(self) -> None:
        """Close at once; the kernel still hands over what it can."""
        self._is_closed = True
        self._handler = None
        self._dispose()

    # --- how it comes to be: called by the network and its listeners ---

    def start(self, family: socket.AddressFamily, socket_address: object) -> None:
        """Begin to connect to a looked-up address."""
        try:
            self._adopt(socket.socket(family, socket.SOCK_STREAM))
            assert self._socket is not None
            result = self._socket.connect_ex(socket_address)  # type: ignore[arg-type]
        except OSError as error:
            self.fail_later(_reason(error))
            return
        if family == socket.AF_UNIX and result != 0:
            # A Unix socket connects at once or not at all; EAGAIN means that the listener's backlog is full.
            self.fail_later(_reason(OSError(result, os.strerror(result))))
        elif result == 0 or result in _IN_PROGRESS:
            self._apply_interest()
        else:
            self.fail_later(_reason(OSError(result, os.strerror(result))))

    def on_looked_up(self, result: LookupResult | NetworkError) -> None:
        if self._is_closed:
            return
        if isinstance(result, NetworkError):
            self._fail(str(result))
        else:
            self.start(*result)

    def start_accepted(self, sock: socket.socket, accept: Callable[[Connection], ConnectionHandler]) -> None:
        """Take over a socket that a listener accepted."""
        self._adopt(sock)
        self._is_connected = True
        handler = accept(self)
        if not self._is_closed:
            self._handler = handler
            self._apply_interest()
            handler.on_connected(self)

    def fail_later(self, reason: str) -> None:
        """Report the end from the loop, because the caller is inside `dial` or `send`."""
        self._set_events(0)
        self._loop.call_soon(lambda: self._fail(reason))

    # --- readiness ---

    def _on_ready(self, events: int) -> None:
        if self._is_closed:
            self._discard_input()
        elif not self._is_connected:
            self._finish_connecting()
        else:
            if events & READABLE and not self._is_paused:
                self._read()
            if events & WRITABLE and self._wants_write:
                self._resume_writing()

    def _finish_connecting(self) -> None:
        assert self._socket is not None
        assert self._handler is not None
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error != 0:
            self._fail(_reason(OSError(error, os.strerror(error))))
            return
        if self._is_connected_to_itself():
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._fail("connection refused (nobody listens)")
            return
        self._is_connected = True
        tried_to_send, self._wants_write = self._wants_write, False
        self._apply_interest()
        handler = self._handler
        handler.on_connected(self)
        if tried_to_send and not self._is_closed:
            handler.on_writable()

    def _is_connected_to_itself(self) -> bool:
        """Dialling a free port of the ephemeral range on one's own host can connect a socket to itself."""
        assert self._socket is not None
        if self._socket.family == socket.AF_UNIX:
            return False
        try:
            return bool(self._socket.getsockname() == self._socket.getpeername())
        except OSError:
            return False

    def _read(self) -> None:
        assert self._socket is not None
        assert self._handler is not None
        buffer = self._network.read_buffer
        try:
            length = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(_reason(error))
            return
        if length == 0:
            self._fail("closed by the peer")
        else:
            self._handler.on_data(buffer[:length])

    def _resume_writing(self) -> None:
        if self._handler is not None:
            self._wants_write = False
            self._handler.on_writable()
            self._apply_interest()

    def _discard_input(self) -> None:
        if self._socket is None:
            return
        try:
            ended = self._socket.recv_into(self._network.read_buffer) == 0
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            ended = True
        if ended:
            self._dispose()

    # --- state ---

    def _adopt(self, sock: socket.socket) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._network.open_connections.add(self)
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, UNIX_SOCKET_BUFFER_LENGTH)
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                timeout_ms = self._network.unacknowledged_timeout_ms
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)

    def _apply_interest(self) -> None:
        if self._socket is None:
            return
        if not self._is_connected:
            wanted = WRITABLE
        else:
            wanted = (0 if self._is_paused else READABLE) | (WRITABLE if self._wants_write else 0)
        self._set_events(wanted)

    def _set_events(self, wanted: int) -> None:
        if wanted == self._registered_events or self._socket is None:
            return
        if self._registered_events == 0:
            self._loop.register(self._fd, wanted, self._on_ready)
        elif wanted == 0:
            self._loop.unregister(self._fd)
        else:
            self._loop.modify(self._fd, wanted, self._on_ready)
        self._registered_events = wanted

    def _fail(self, reason: str) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        handler, self._handler = self._handler, None
        self._dispose()
        if handler is not None:
            handler.on_closed(reason)

    def _dispose(self) -> None:
        if self._socket is not None:
            self._set_events(0)
            self._socket.close()
            self._socket = None
        self._network.lingering.discard(self)
        self._network.open_connections.discard(self)


class SelectorListener:
    """Implements `ports.Listener`."""

    def __init__(
        self,
        network: SocketNetwork,
        sock: socket.socket,
        address: str,
        accept: Callable[[Connection], ConnectionHandler],
    ) -> None:
        self._network = network
        self._loop = network.loop
        self._socket = sock
        self._address = address
        self._accept = accept
        self._is_closed = False
        self._is_registered = True
        sock.setblocking(False)
        self._loop.register(sock.fileno(), READABLE, self._on_ready)
        network.open_listeners.add(self)

    @property
    def address(self) -> str:
        return self._address

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._network.open_listeners.discard(self)
        if self._is_registered:
            self._loop.unregister(self._socket.fileno())
        self._socket.close()
        if self._address.startswith(UNIX_PREFIX):
            with contextlib.suppress(OSError):
                os.unlink(self._address.removeprefix(UNIX_PREFIX))

    def _on_ready(self, _events: int) -> None:
        for _ in range(ACCEPT_LIMIT):
            if self._is_closed:
                return
            try:
                sock, peer_address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._retry_later()
                return
            self._take(sock, peer_address)

    def _take(self, sock: socket.socket, peer_address: object) -> None:
        peer = self._address if sock.family == socket.AF_UNIX else format_address(peer_address)
        connection = SelectorConnection(self._network, peer, None)
        try:
            connection.start_accepted(sock, self._accept)
        except OSError:
            # Setting an option fails when the peer has reset the connection already.
            connection.abandon()

    def _retry_later(self) -> None:
        """Without this a listener that cannot accept is ready for ever, and the loop spins."""
        self._loop.unregister(self._socket.fileno())
        self._is_registered = False
        self._loop.call_at(time.monotonic_ns() + ACCEPT_RETRY_NS, self._resume)

    def _resume(self) -> None:
        if not self._is_closed:
            self._is_registered = True
            self._loop.register(self._socket.fileno(), READABLE, self._on_ready)


def _bind_unix(path: str) -> socket.socket:
    """A listening Unix socket; a socket file that a killed process left behind is replaced."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            sock.bind(path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or _is_answered(path):
                raise
            os.unlink(path)
            sock.bind(path)
        sock.listen(LISTEN_BACKLOG)
    except OSError as error:
        sock.close()
        raise _listen_error(UNIX_PREFIX + path, error) from error
    return sock


def _is_answered(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) in (0, errno.EAGAIN)


def _listen_error(address: str, error: OSError) -> NetworkError:
    if error.errno == errno.EADDRINUSE:
        return NetworkError(f"cannot listen on {address}: the address is in use by another process")
    if error.errno == errno.EADDRNOTAVAIL:
        return NetworkError(f"cannot listen on {address}: it is no address of this machine")
    return NetworkError(f"cannot listen on {address}: {_reason(error)}")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
