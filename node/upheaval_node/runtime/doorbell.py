"""Doorbells: how a process of a split member informs the others that a shared counter moved.

Counters are in shared memory, which wakes up no process that waits for one. After a duty cycle that moved a counter a
process sends one byte to the Unix datagram socket of every other process of the member. A bell that is missing or
full needs no ring: the process does not run, or a wake-up is pending already.
"""

import contextlib
import os
import socket
from collections.abc import Iterable
from typing import Final

from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.readiness import READABLE

_READ_LIMIT: Final = 64


class Doorbell:
    """The bell of one process, and the buttons of the others."""

    def __init__(self, loop: Loop, path: str, other_paths: Iterable[str]) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._loop = loop
        self._path = path
        self._other_paths = tuple(other_paths)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(path)
        loop.register(self._socket.fileno(), READABLE, self._on_ring)
        self.ring_count = 0

    def ring_others(self) -> None:
        """Wake the other processes. Never blocks, and does not check whether they run."""
        for path in self._other_paths:
            with contextlib.suppress(OSError):
                self._socket.sendto(b"\0", path)

    def close(self) -> None:
        """Close the socket and remove its file."""
        self._loop.unregister(self._socket.fileno())
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _on_ring(self, _events: int) -> None:
        """The ring itself is the message: it ended the wait, and a duty cycle follows."""
        self.ring_count += 1
        with contextlib.suppress(BlockingIOError):
            for _ in range(_READ_LIMIT):
                self._socket.recv(16)
