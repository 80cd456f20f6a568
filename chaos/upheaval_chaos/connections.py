"""What is seen of links by sockets: `ping` makes a connection and returns its outcome, `received` asks the kernel how
many bytes each connection has received.

Also run as a program by the Python of a container, in a network name space of its own, to which its text is sent: so it
needs the standard library only, no rights, and nothing of ours.
"""

import json
import socket
import struct
import sys
import time
from typing import Any, NamedTuple

_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_DONE, _ERROR = 3, 2
_INFO = 2
# Sizes in the kernel's structures: the message before its attributes, and the counter's offset in the attribute
# `_INFO`.
_MESSAGE_LENGTH = 72
_BYTES_RECEIVED = 128
_ESTABLISHED = 1


class Received(NamedTuple):
    """One connection: its ports, its peer, and the number of received bytes. `cookie` identifies the socket."""

    port: int
    peer: str
    peer_port: int
    cookie: str
    length: int


def received() -> list[Received]:
    """All TCP connections of this name space. Raises `OSError` when the kernel refuses the query."""
    connections: list[Received] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as diag:
        diag.settimeout(5)
        wanted = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 1 << (_INFO - 1), 1 << _ESTABLISHED)
        header = struct.pack("=IHHII", 16 + len(wanted) + 48, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0)
        diag.send(header + wanted + bytes(48))
        while True:
            data = diag.recv(1 << 18)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == _DONE:
                    return connections
                if kind == _ERROR:
                    raise OSError("the kernel does not report what connections received")
                connections.extend(_of_message(data[16:length]))
                data = data[(length + 3) & ~3 :]


def _of_message(message: bytes) -> list[Received]:
    port, peer_port = struct.unpack_from(">HH", message, 4)
    peer, cookie = socket.inet_ntoa(message[24:28]), message[44:52].hex()
    at = _MESSAGE_LENGTH
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _INFO and length >= 4 + _BYTES_RECEIVED + 8:
            (length_received,) = struct.unpack_from("=Q", message, at + 4 + _BYTES_RECEIVED)
            return [Received(port, peer, peer_port, cookie, length_received)]
        at += max((length + 3) & ~3, 4)
    return []


def ping(host: str, port: int, opening: bytes, farewell: bytes, timeout_s: float) -> tuple[str, int]:
    """The outcome of a connection, and how long that took."""
    # Resolve the name before the clock runs: that time is not the link's.
    address = socket.gethostbyname(host)
    begin_ns = time.monotonic_ns()
    try:
        with socket.create_connection((address, port), timeout_s) as connection:
            connection.sendall(opening)
            answer = connection.recv(4096)
            took_ns = time.monotonic_ns() - begin_ns
            if answer and farewell:
                connection.sendall(farewell)
            return ("answered" if answer else "ended"), took_ns
    except TimeoutError:
        what = "silent"
    except ConnectionRefusedError:
        what = "refused"
    except OSError:
        what = "reset"
    return what, time.monotonic_ns() - begin_ns


def _main(arguments: list[str]) -> Any:
    if arguments[0] == "received":
        return received()
    host, port, padding, repeats, hello, farewell, timeout_s = arguments[1:]
    opening = bytes.fromhex(padding) * int(repeats) + bytes.fromhex(hello)
    return ping(host, int(port), opening, bytes.fromhex(farewell), float(timeout_s))


if __name__ == "__main__":
    print(json.dumps(_main(sys.argv[1:])))
