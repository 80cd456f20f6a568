"""`SocketNetwork` and `SelectorNetwork`: the network port over real TCP and Unix stream sockets.

Opens listeners and connections; with a `TlsIdentity` those of TCP are connections over TLS. Knows nothing of frames or
streams.
"""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable
from typing import Final

from upheaval_node.errors import NetworkError
from upheaval_node.peer_faults import host_of
from upheaval_node.ports import Connection, ConnectionHandler
from upheaval_node.runtime.addresses import (
    UNIX_PREFIX,
    NameLookup,
    format_address,
    host_and_port,
    look_up,
    unix_path,
    without_lookup,
)
from upheaval_node.runtime.connection import ConnectionPool, SelectorConnection, reason_of
from upheaval_node.runtime.loop import EventSource, Loop
from upheaval_node.runtime.readiness import READABLE
from upheaval_node.runtime.tls import Refusal, TlsIdentity
from upheaval_node.runtime.tls_connection import TlsConnection, TlsPool
from upheaval_node.tls_files import ANYBODY, split_name
from upheaval_node.types import MS, S

LISTEN_BACKLOG: Final = 1024  # a full one makes Linux drop what dials, which tries again only after a second
ACCEPT_LIMIT: Final = 64  # a round of the loop, so that a storm of dialling peers cannot starve the member
MAX_HANDSHAKES: Final = 256
MAX_HANDSHAKES_OF_HOST: Final = 64
ACCEPT_RETRY_NS: Final = 100 * MS  # after running out of file descriptors
# A connection whose bytes stay unacknowledged this long is dead. Without the limit the kernel's retransmission
# back-off would go on for as long again as a network partition lasted.
UNACKNOWLEDGED_TIMEOUT_MS: Final = 5_000

_OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

# Linux's errors for a connection that ended before it was accepted (accept(2), "error handling").
_OF_ONE_CONNECTION: Final = frozenset(
    {
        errno.ENETDOWN,
        errno.EPROTO,
        errno.ENOPROTOOPT,
        errno.EHOSTDOWN,
        errno.ENONET,
        errno.EHOSTUNREACH,
        errno.EOPNOTSUPP,
        errno.ENETUNREACH,
        errno.EPERM,
    }
)


class SocketNetwork:
    """Implements `ports.Network` on any one loop."""

    def __init__(
        self,
        loop: EventSource,
        tls: TlsIdentity | None = None,
        *,
        unacknowledged_timeout_ms: int = UNACKNOWLEDGED_TIMEOUT_MS,
    ) -> None:
        self.loop = loop
        self.connections = ConnectionPool(loop, unacknowledged_timeout_ms)
        self.tls = None if tls is None else TlsPool(tls)
        self.open_listeners: set[SelectorListener] = set()
        self._lookup = NameLookup(loop)

    def listen(self, address: str, accept: Callable[[Connection], ConnectionHandler]) -> "SelectorListener":
        """Bind and listen. Raises `NetworkError` with one line that says which address and why."""
        path = unix_path(address)
        if path is not None:
            return SelectorListener(self, _bind_unix(path), address, address, accept)
        host, port = host_and_port(address)
        family, socket_address = without_lookup(host, port) or look_up(host, port)
        sock = _new_socket(address, family)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(socket_address)
            sock.listen(LISTEN_BACKLOG)
        except OSError as error:
            sock.close()
            raise _listen_error(address, error) from error
        bound_port = sock.getsockname()[1]
        bound = f"{address.rpartition(':')[0]}:{bound_port}"
        return SelectorListener(self, sock, bound, address, accept)

    def dial(self, address: str, handler: ConnectionHandler) -> SelectorConnection:
        """Start to connect. An unusable address ends in `on_closed`, like a refused one.

        Over TLS only `name` may answer at `name@host:port`; otherwise a name before the address is ignored.
        """
        name, address = split_name(address) if not address.startswith(UNIX_PREFIX) else ("", address)
        if self.tls is None or address.startswith(UNIX_PREFIX):
            connection = SelectorConnection(self.connections, address, handler)
        else:
            connection = TlsConnection(self.connections, self.tls, address, handler, (name or ANYBODY,))
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

    def has_room_for_handshake(self, peer: str) -> bool:
        """Unfinished handshakes are limited, in total and per host: their peers are not authenticated yet."""
        handshakes = self.tls.handshakes if self.tls is not None else ()
        of_host = sum(host_of(handshake.peer) == host_of(peer) for handshake in handshakes)
        return len(handshakes) < MAX_HANDSHAKES and of_host < MAX_HANDSHAKES_OF_HOST

    def close(self) -> None:
        """Close everything at once, without notice to peers: for the end of a process, after `drain`."""
        for listener in tuple(self.open_listeners):
            listener.close()
        for connection in tuple(self.connections.open):
            connection.abandon()


class SelectorNetwork(SocketNetwork):
    """The network on the loop of a process, which it can run itself."""

    def __init__(
        self,
        loop: Loop,
        tls: TlsIdentity | None = None,
        *,
        unacknowledged_timeout_ms: int = UNACKNOWLEDGED_TIMEOUT_MS,
    ) -> None:
        super().__init__(loop, tls, unacknowledged_timeout_ms=unacknowledged_timeout_ms)
        self.loop: Loop = loop

    def drain(self, timeout_ns: int) -> None:
        """Give closed connections at most this long to send what they still hold: for the end of a process."""
        deadline_ns = time.monotonic_ns() + timeout_ns
        while self.connections.lingering and (left_ns := deadline_ns - time.monotonic_ns()) > 0:
            self.loop.run_once(left_ns / S)


class SelectorListener:
    """Implements `ports.Listener`."""

    def __init__(
        self,
        network: SocketNetwork,
        sock: socket.socket,
        address: str,
        wanted_address: str,
        accept: Callable[[Connection], ConnectionHandler],
    ) -> None:
        self._network = network
        self._loop = network.loop
        self._socket = sock
        self._address = address
        self._wanted_address = wanted_address
        self._accept = accept
        self._is_closed = False
        self._is_registered = True
        sock.setblocking(False)
        self._loop.register(sock.fileno(), READABLE, self._on_ready)
        network.open_listeners.add(self)

    @property
    def address(self) -> str:
        """The bound `host:port`, or `unix:PATH`."""
        return self._address

    def close(self) -> None:
        """Also removes a Unix socket's file."""
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
                if error.errno in _OF_ONE_CONNECTION:
                    continue
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._retry_later()
                return
            self._take(sock, peer_address)

    def _take(self, sock: socket.socket, peer_address: object) -> None:
        peer = self._address if sock.family == socket.AF_UNIX else format_address(peer_address)
        connection = self._make_connection(sock, peer)
        if connection is None:
            sock.close()
            return
        try:
            connection.start_accepted(sock, self._accept)
        except OSError:
            # Setting an option fails when the peer has reset the connection already.
            connection.abandon()

    def _make_connection(self, sock: socket.socket, peer: str) -> SelectorConnection | None:
        tls = self._network.tls
        if tls is None or sock.family == socket.AF_UNIX:
            return SelectorConnection(self._network.connections, peer, None)
        if not self._network.has_room_for_handshake(peer):
            tls.identity.refused(Refusal("handshake-flood", "it begins more TLS handshakes than it ends"), peer)
            return None
        return TlsConnection(
            self._network.connections, tls, peer, None, tls.identity.rules.accepted_at(self._wanted_address)
        )

    def _retry_later(self) -> None:
        """Without the pause, a listener that cannot accept stays ready and the loop spins."""
        self._loop.unregister(self._socket.fileno())
        self._is_registered = False
        self._loop.call_at(time.monotonic_ns() + ACCEPT_RETRY_NS, self._resume)

    def _resume(self) -> None:
        if not self._is_closed:
            self._is_registered = True
            self._loop.register(self._socket.fileno(), READABLE, self._on_ready)


def _new_socket(address: str, family: int) -> socket.socket:
    try:
        return socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        # No descriptor is left.
        raise _listen_error(address, error) from error


def _bind_unix(path: str) -> socket.socket:
    """A listening Unix socket; the socket file that a killed process left is replaced."""
    sock = _new_socket(UNIX_PREFIX + path, socket.AF_UNIX)
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
        return NetworkError(f"cannot listen on {address}: it is not an address of this machine")
    return NetworkError(f"cannot listen on {address}: {reason_of(error)}")
