"""`TlsConnection`: a connection over TLS, whose two ends know each other's names before a byte is passed on.

What arrives is taken from the kernel in one piece, as without TLS, deciphered, and handed on in one piece; what is sent
is ciphered in pieces of bounded length. Ciphertext that the kernel does not take is kept, and nothing more is accepted
until it is gone: that is the same back pressure as without TLS. Knows nothing of certificates' files.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from upheaval_node.ports import Buffer, Connection, ConnectionHandler
from upheaval_node.runtime.connection import READ_BUFFER_LENGTH, ConnectionPool, SelectorConnection
from upheaval_node.runtime.loop import Cancellable
from upheaval_node.runtime.tls import Peer, Refusal, TlsIdentity, check_name, issuer_of, refusal_of
from upheaval_node.tls_files import named_address
from upheaval_node.types import S

if TYPE_CHECKING:
    import socket

SEND_LENGTH: Final = 256 * 1024
"""The number of bytes that are encrypted at once."""

HANDSHAKE_TIMEOUT_NS: Final = 5 * S
MAX_UNSENT: Final = 2 * SEND_LENGTH
"""The limit on ciphertext that waits for the kernel, in bytes. Only a peer that asks for new keys and reads nothing
exceeds it.
"""

PLAIN_BUFFER_LENGTH: Final = READ_BUFFER_LENGTH + 2 * 16 * 1024
"""Room for what one read brings, and for the begun record before it (RFC 8446: at most 16 KiB and 256 bytes)."""

_EMPTY: Final = memoryview(b"")


class TlsPool:
    """What the connections over TLS of one network share: whose end this is, a buffer for plain text, and which of them
    are not secured yet.
    """

    def __init__(self, identity: TlsIdentity) -> None:
        self.identity = identity
        self.plain_buffer = memoryview(bytearray(PLAIN_BUFFER_LENGTH))
        self.handshakes: set[TlsConnection] = set()


class TlsConnection(SelectorConnection):
    """Implements `ports.Connection`. `wanted` are patterns of the names that the other end may have."""

    def __init__(
        self,
        pool: ConnectionPool,
        tls: TlsPool,
        peer: str,
        handler: ConnectionHandler | None,
        wanted: tuple[str, ...],
    ) -> None:
        super().__init__(pool, peer, handler)
        self._shared = tls
        self._identity = tls.identity
        self._wanted = wanted
        self._is_dialled = handler is not None
        self._accept: Callable[[Connection], ConnectionHandler] | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._timer: Cancellable | None = None
        self._is_secured = False
        self._unsent = _EMPTY

    # --- ports.Connection ---

    def send(self, parts: Sequence[Buffer]) -> int:
        """Accepts nothing before the handshake is done, nor while ciphertext waits for the kernel."""
        if not self._is_secured or self._is_closed or self._is_send_broken:
            self._wants_write = not self._is_secured
            return 0
        accepted = 0
        for piece in _pieces(parts):
            if self._unsent:
                self._wants_write = True
                self._apply_interest()
                break
            self._cipher(piece)
            accepted += len(piece)
            if not self._flush() or self._is_closed:
                break
        return accepted

    def _shut_down(self) -> None:
        if not self._unsent:
            super()._shut_down()

    # --- the handshake ---

    def start_accepted(self, sock: "socket.socket", accept: Callable[[Connection], ConnectionHandler]) -> None:
        """The handler is requested once the handshake is done."""
        self._accept = accept
        self._adopt(sock)
        self._is_connected = True
        self._begin_handshake()

    def _established(self) -> None:
        self._is_connected = True
        self._begin_handshake()

    def _begin_handshake(self) -> None:
        self._tls = self._identity.make(self._incoming, self._outgoing, is_server=not self._is_dialled)
        self._shared.handshakes.add(self)
        self._timer = self._loop.call_at(time.monotonic_ns() + HANDSHAKE_TIMEOUT_NS, self._give_up_handshake)
        self._apply_interest()
        self._step_handshake()

    def _end_handshake(self) -> None:
        """It went well, or is over: nothing waits for it any more."""
        self._shared.handshakes.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def _forget_tls(self) -> None:
        """Read and write nothing more: connections that come and go quickly must not keep memory in use."""
        self._end_handshake()
        self._tls = None
        self._incoming = ssl.MemoryBIO()

    def _give_up_handshake(self) -> None:
        if not self._is_secured and not self._is_closed:
            self._refuse(Refusal("handshake-timed-out", "its TLS handshake takes too long"))

    def _step_handshake(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._refuse(refusal_of(error))
            return
        self._flush()
        if self._is_closed:
            return
        name = check_name(self._tls, self._wanted)
        if isinstance(name, Refusal):
            self._refuse(name)
        else:
            self._secure(name)

    def _secure(self, name: str) -> None:
        self._is_secured = True
        self._end_handshake()
        assert self._tls is not None
        self._identity.secured(Peer(name, self._peer, self._is_dialled, issuer_of(self._tls)))
        self._peer = named_address(name, self._peer)
        if self._accept is not None:
            self._handler = self._accept(self)
            self._accept = None
        if self._is_closed or self._handler is None:
            return
        tried_to_send, self._wants_write = self._wants_write, False
        self._apply_interest()
        handler = self._handler
        handler.on_connected(self)
        if tried_to_send and not self._is_closed:
            handler.on_writable()
        if not self._is_closed:
            # The first data may have arrived with the last bytes of the handshake.
            self._deliver()

    def _refuse(self, refusal: Refusal) -> None:
        """End the connection; the other end receives the reason, as far as TLS has an alert for it."""
        if self._is_closed:
            return
        self._identity.refused(refusal, self._peer)
        self._flush()
        self._forget_tls()
        handler, self._handler = self._handler, None
        if not self._is_closed:
            self.close()
        if handler is not None:
            handler.on_closed(f"TLS: {refusal.text}")

    # --- bytes ---

    def _on_ready(self, events: int) -> None:
        if self._unsent:
            self._flush()
            if not self._unsent and self._is_closed:
                self._shut_down()
        super()._on_ready(events)

    def _on_bytes(self, data: memoryview) -> None:
        self._incoming.write(data)
        if self._is_secured:
            self._deliver()
        else:
            self._step_handshake()

    def _deliver(self) -> None:
        """Pass on everything that can be decrypted."""
        assert self._tls is not None
        # With a buffer, the call returns the number of bytes in it, which its type does not express.
        tls: Any = self._tls
        plain = self._shared.plain_buffer
        length = 0
        try:
            while length < PLAIN_BUFFER_LENGTH:
                count: int = tls.read(PLAIN_BUFFER_LENGTH - length, plain[length:])
                if count == 0:
                    break
                length += count
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        except ssl.SSLError as error:
            self._refuse(refusal_of(error))
            return
        if self._outgoing.pending:
            # TLS's own answers to a change of keys.
            self._flush()
        if length and self._handler is not None:
            self._handler.on_data(plain[:length])

    def _cipher(self, piece: Buffer) -> None:
        assert self._tls is not None
        offset = 0
        view = memoryview(piece)
        while offset < len(view):
            offset += self._tls.write(view[offset:])

    def _flush(self) -> bool:
        """Pass ciphertext to the kernel. False when it will take no more."""
        if self._outgoing.pending:
            fresh = self._outgoing.read()
            self._unsent = memoryview(bytes(self._unsent) + fresh if self._unsent else fresh)
        sent = self._send_now((self._unsent,)) if self._unsent else 0
        self._unsent = _EMPTY if sent < 0 else self._unsent[sent:]
        if len(self._unsent) > MAX_UNSENT:
            self._unsent = _EMPTY
            self._refuse(Refusal("does-not-read", "it does not read what TLS answers it"))
        self._apply_interest()
        return sent >= 0

    def _wants_writable(self) -> bool:
        return bool(self._unsent) or (self._is_secured and self._wants_write)

    def _resume_writing(self) -> None:
        if self._is_secured and not self._unsent:
            super()._resume_writing()

    def _dispose(self) -> None:
        self._forget_tls()
        self._unsent = _EMPTY
        super()._dispose()


def _pieces(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """The same bytes in the fewest pieces of at most `SEND_LENGTH`."""
    begun: list[Buffer] = []
    length = 0
    for part in parts:
        rest = memoryview(part)
        while len(rest) > SEND_LENGTH - length:
            begun.append(rest[: SEND_LENGTH - length])
            rest = rest[SEND_LENGTH - length :]
            yield b"".join(begun)
            begun, length = [], 0
        if len(rest):
            begun.append(rest)
            length += len(rest)
    if begun:
        yield b"".join(begun) if len(begun) > 1 else begun[0]
