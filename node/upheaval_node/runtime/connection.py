"""`SelectorConnection`: one end of a byte stream over a real socket, dialled or accepted.

Knows bytes, nothing of frames or streams. Every callback comes from the loop, none from inside the call that caused
it. Kernel buffers of TCP are left to the kernel: setting them would switch its tuning off, and the tuned size is larger
than what an unprivileged process may ask for.
"""

import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final

from upheaval_node.errors import NetworkError
from upheaval_node.ports import Buffer, Connection, ConnectionHandler
from upheaval_node.runtime.addresses import LookupResult
from upheaval_node.runtime.loop import EventSource
from upheaval_node.runtime.readiness import READABLE, WRITABLE
from upheaval_node.types import S

READ_BUFFER_LENGTH: Final = 256 * 1024
UNIX_SOCKET_BUFFER_LENGTH: Final = 2 * 1024 * 1024  # asked for; the kernel gives at most net.core.wmem_max
LINGER_NS: Final = S
MAX_PARTS: Final = 1024  # IOV_MAX of Linux: more parts in one sendmsg are an error

_IN_PROGRESS: Final = frozenset({errno.EINPROGRESS, errno.EAGAIN, errno.EWOULDBLOCK, errno.EALREADY, errno.EINTR})
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class ConnectionPool:
    """What the connections of one network share: a loop, a read buffer, and the set of connections with a socket.

    `lingering` are closed connections that still send what they had accepted.
    """

    def __init__(self, loop: EventSource, unacknowledged_timeout_ms: int) -> None:
        self.loop = loop
        self.unacknowledged_timeout_ms = unacknowledged_timeout_ms
        self.read_buffer = memoryview(bytearray(READ_BUFFER_LENGTH))
        self.open: set[SelectorConnection] = set()
        self.lingering: set[SelectorConnection] = set()


class SelectorConnection:
    """Implements `ports.Connection`; made by `dial` or by a listener."""

    def __init__(self, pool: ConnectionPool, peer: str, handler: ConnectionHandler | None) -> None:
        self._pool = pool
        self._loop = pool.loop
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
        """The address of the other end; over TLS, with its name in front."""
        return self._peer

    def send(self, parts: Sequence[Buffer]) -> int:
        """Accepts bytes only while connected; parts are buffers of single bytes."""
        if not self._is_connected or self._is_closed or self._is_send_broken:
            self._wants_write = not self._is_connected
            return 0
        accepted = 0
        for first in range(0, len(parts), MAX_PARTS):
            chunk = parts[first : first + MAX_PARTS] if len(parts) > MAX_PARTS else parts
            sent = self._send_now(chunk)
            if sent < 0:
                break
            accepted += sent
            if sent < sum(map(len, chunk)):
                self._wants_write = True
                self._apply_interest()
                break
        return accepted

    def _send_now(self, parts: Sequence[Buffer]) -> int:
        """The number of bytes that the kernel takes at once, -1 when it will take no more."""
        assert self._socket is not None
        try:
            return self._socket.sendmsg(parts)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            # Bytes that the peer sent before it closed must still be read. Reading then finds the end and reports it.
            self._is_send_broken = True
            self._wants_write = False
            self._apply_interest()
            return -1

    def pause_reading(self, paused: bool) -> None:
        """A peer whose bytes are not read must wait once the kernel's buffers are full."""
        if paused != self._is_paused:
            self._is_paused = paused
            self._apply_interest()

    def close(self) -> None:
        """Send what was accepted, then close. Bytes that still arrive are dropped.

        Closing at once would reset the connection if unread input is left, and a reset destroys sent bytes.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._handler = None
        if not self._is_connected or self._socket is None:
            self._dispose()
        else:
            self._linger()

    def _linger(self) -> None:
        self._is_paused = False
        self._wants_write = False
        self._pool.lingering.add(self)
        self._loop.call_at(time.monotonic_ns() + LINGER_NS, self._dispose)
        self._shut_down()
        self._apply_interest()

    def _shut_down(self) -> None:
        """Signal that nothing follows."""
        assert self._socket is not None
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._dispose()

    def abandon(self) -> None:
        """Close at once. The kernel still sends what it can."""
        self._is_closed = True
        self._handler = None
        self._dispose()

    # --- opening: called by the network and its listeners ---

    def start(self, family: socket.AddressFamily, socket_address: object) -> None:
        """Begin to connect to a resolved address."""
        try:
            self._adopt(socket.socket(family, socket.SOCK_STREAM))
            assert self._socket is not None
            result = self._socket.connect_ex(socket_address)  # type: ignore[arg-type]
        except OSError as error:
            self.fail_later(reason_of(error))
            return
        if family == socket.AF_UNIX and result != 0:
            # A Unix socket connects at once or not at all; EAGAIN means that the listener's backlog is full.
            self.fail_later(reason_of(OSError(result, os.strerror(result))))
        elif result == 0 or result in _IN_PROGRESS:
            self._apply_interest()
        else:
            self.fail_later(reason_of(OSError(result, os.strerror(result))))

    def on_looked_up(self, result: LookupResult | NetworkError) -> None:
        """Connect to the resolved address, or fail with the error of the look-up."""
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
            self._fail(reason_of(OSError(error, os.strerror(error))))
            return
        if self._is_connected_to_itself():
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._fail("connection refused (no listener)")
            return
        self._established()

    def _established(self) -> None:
        """A dialled connection is established."""
        assert self._handler is not None
        self._is_connected = True
        tried_to_send, self._wants_write = self._wants_write, False
        self._apply_interest()
        handler = self._handler
        handler.on_connected(self)
        if tried_to_send and not self._is_closed:
            handler.on_writable()

    def _is_connected_to_itself(self) -> bool:
        """Dialling a free port of the ephemeral range on the same host can connect a socket to itself."""
        assert self._socket is not None
        if self._socket.family == socket.AF_UNIX:
            return False
        try:
            return bool(self._socket.getsockname() == self._socket.getpeername())
        except OSError:
            return False

    def _read(self) -> None:
        assert self._socket is not None
        buffer = self._pool.read_buffer
        try:
            length = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(reason_of(error))
            return
        if length == 0:
            self._fail("closed by the peer")
        else:
            self._on_bytes(buffer[:length])

    def _on_bytes(self, data: memoryview) -> None:
        assert self._handler is not None
        self._handler.on_data(data)

    def _resume_writing(self) -> None:
        if self._handler is not None:
            self._wants_write = False
            self._handler.on_writable()
            self._apply_interest()

    def _discard_input(self) -> None:
        if self._socket is None:
            return
        try:
            ended = self._socket.recv_into(self._pool.read_buffer) == 0
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
        self._pool.open.add(self)
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, UNIX_SOCKET_BUFFER_LENGTH)
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                timeout_ms = self._pool.unacknowledged_timeout_ms
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)

    def _apply_interest(self) -> None:
        if self._socket is None:
            return
        if not self._is_connected:
            wanted = WRITABLE
        else:
            wanted = (0 if self._is_paused else READABLE) | (WRITABLE if self._wants_writable() else 0)
        self._set_events(wanted)

    def _wants_writable(self) -> bool:
        return self._wants_write

    def _set_events(self, wanted: int) -> None:
        if wanted == self._registered_events or self._socket is None:
            return
        if self._registered_events == 0:
            self._loop.register(self._fd, wanted, self._on_ready, rings=True)
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
        self._pool.lingering.discard(self)
        self._pool.open.discard(self)


def reason_of(error: OSError) -> str:
    """The reason for a failure, in the words of the operating system."""
    return (error.strerror or str(error)).lower()
