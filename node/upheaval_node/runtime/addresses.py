"""Addresses of the process runtime: `host:port`, `[v6]:port` and `unix:PATH`, and the look-up of host names.

Names are looked up in threads of their own, which exist only when names are dialled: a name server that does not
answer, such as Docker's for seconds after a container died, holds up neither the member nor the dials to other names.
Numeric addresses and `localhost` need no look-up.
"""

import queue
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from upheaval_node.errors import NetworkError
from upheaval_node.runtime.loop import EventSource

UNIX_PREFIX: Final = "unix:"
MAX_UNIX_PATH: Final = 107  # sizeof(sun_path) less the terminating zero (Linux, unix(7))

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
LookupResult = tuple[socket.AddressFamily, SocketAddress]
Done = Callable[[LookupResult | NetworkError], None]

MAX_LOOKUPS: Final = 8
"""The most names that are resolved at once. Further ones are queued."""


def unix_path(address: str) -> str | None:
    """The path of a `unix:PATH` address, None for any other address. Raises `NetworkError` when it is too long."""
    if not address.startswith(UNIX_PREFIX):
        return None
    path = address.removeprefix(UNIX_PREFIX)
    if not path or len(path.encode()) > MAX_UNIX_PATH:
        raise NetworkError(f"{address}: a Unix socket path has 1 to {MAX_UNIX_PATH} bytes")
    return path


def host_and_port(address: str) -> tuple[str, int]:
    """Split `host:port` or `[v6]:port`. Raises `NetworkError` for anything else."""
    host, separator, port_text = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_number = port_text.isascii() and port_text.isdigit() and len(port_text) <= 5
    if not separator or not host or not is_number or int(port_text) > 65535:
        raise NetworkError(f"expected host:port, got {address!r}")
    return host, int(port_text)


def format_address(socket_address: object) -> str:
    """The text form of an address from `getsockname` or `getpeername`."""
    if isinstance(socket_address, tuple):
        host, port = str(socket_address[0]), socket_address[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{UNIX_PREFIX}{socket_address or ''}"


def without_lookup(host: str, port: int) -> LookupResult | None:
    """The socket address of a numeric host or of `localhost`; None when the name must be resolved."""
    if host == "localhost":
        host = "127.0.0.1"
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return _at(family, host, port)
    return None


def look_up(host: str, port: int) -> LookupResult:
    """Resolve a name and wait for the answer. Raises `NetworkError`."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NetworkError(f"cannot resolve {host!r}: {error}") from error
    family, _, _, _, socket_address = answers[0]
    return _at(family, str(socket_address[0]), port)


def _at(family: socket.AddressFamily, host: str, port: int) -> LookupResult:
    return family, (host, port) if family == socket.AF_INET else (host, port, 0, 0)


class NameLookup:
    """Resolves names without blocking the loop; the answer arrives as a call from the loop.

    Each name has a thread while it is being resolved. Further dials of the same name meanwhile share the answer.
    """

    def __init__(self, loop: EventSource) -> None:
        self._loop = loop
        self._hosts: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._waiting: dict[str, list[tuple[int, Done]]] = {}
        self._thread_count = 0

    def start(self, host: str, port: int, done: Done) -> None:
        """Look a host up and call `done` from the loop, with the address or the `NetworkError`."""
        if host in self._waiting:
            self._waiting[host].append((port, done))
            return
        self._waiting[host] = [(port, done)]
        if self._thread_count < min(len(self._waiting), MAX_LOOKUPS):
            self._thread_count += 1
            threading.Thread(target=self._run, name=f"name-lookup-{self._thread_count}", daemon=True).start()
        self._hosts.put(host)

    def _run(self) -> None:
        while True:
            host = self._hosts.get()
            self._loop.call_from_thread(partial(self._on_answer, host, _answer(host)))

    def _on_answer(self, host: str, result: LookupResult | NetworkError) -> None:
        for port, done in self._waiting.pop(host):
            if isinstance(result, NetworkError):
                done(result)
            else:
                family, socket_address = result
                done(_at(family, socket_address[0], port))


def _answer(host: str) -> LookupResult | NetworkError:
    try:
        return look_up(host, 0)
    except NetworkError as error:
        return error
