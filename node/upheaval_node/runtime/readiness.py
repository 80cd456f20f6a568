"""What a loop waits with: epoll where the system has it, else what the standard library finds best.

Knows descriptors and events, and neither callbacks nor time. `selectors` would do everywhere; a wait of its epoll costs
8 microseconds more, and a message that is committed wakes five waits one after the other.
"""

import contextlib
import math
import select
import selectors
from typing import Final, Protocol

READABLE: Final = selectors.EVENT_READ
WRITABLE: Final = selectors.EVENT_WRITE


class Readiness(Protocol):
    """Descriptors and the events that are waited for."""

    def register(self, fd: int, events: int) -> None:
        """Wait for `events`, `READABLE` and `WRITABLE`, of a descriptor."""

    def modify(self, fd: int, events: int) -> None:
        """Wait for other events of the descriptor."""

    def unregister(self, fd: int) -> None:
        """Stop waiting for the descriptor. Must be called before it is closed."""

    def wait(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """The ready descriptors with their events, or none after `timeout_s`; None waits without end."""

    def close(self) -> None:
        """Stop waiting for all descriptors."""


def best_readiness() -> Readiness:
    """Looked up with each call: gevent takes epoll out of `select` where it patches that."""
    return EpollReadiness() if hasattr(select, "epoll") else SelectorReadiness()


class EpollReadiness:
    """Implements `Readiness`."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._in: Final[int] = select.EPOLLIN
        self._out: Final[int] = select.EPOLLOUT
        self._count = 0

    def register(self, fd: int, events: int) -> None:
        """See `Readiness`."""
        self._epoll.register(fd, self._mask_of(events))
        self._count += 1

    def modify(self, fd: int, events: int) -> None:
        """See `Readiness`."""
        self._epoll.modify(fd, self._mask_of(events))

    def unregister(self, fd: int) -> None:
        """See `Readiness`."""
        self._count -= 1
        # A closed descriptor has already left the epoll.
        with contextlib.suppress(OSError):
            self._epoll.unregister(fd)

    def wait(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """See `Readiness`. epoll waits in whole milliseconds: they are rounded up, or a loop would spin to its time."""
        timeout = -1.0 if timeout_s is None else math.ceil(timeout_s * 1e3) * 1e-3
        ready = self._epoll.poll(timeout, max(self._count, 1))
        return [(fd, self._events_of(mask)) for fd, mask in ready]

    def close(self) -> None:
        """See `Readiness`."""
        self._epoll.close()

    def _mask_of(self, events: int) -> int:
        return (self._in if events & READABLE else 0) | (self._out if events & WRITABLE else 0)

    def _events_of(self, mask: int) -> int:
        """An error or a hang-up makes both: the next read or write gets the cause from the system."""
        if mask == self._in:
            return READABLE
        return (WRITABLE if mask & ~self._in else 0) | (READABLE if mask & ~self._out else 0)


class SelectorReadiness:
    """Implements `Readiness` with the standard library's choice."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, events: int) -> None:
        """See `Readiness`."""
        self._selector.register(fd, events)

    def modify(self, fd: int, events: int) -> None:
        """See `Readiness`."""
        self._selector.modify(fd, events)

    def unregister(self, fd: int) -> None:
        """See `Readiness`."""
        self._selector.unregister(fd)

    def wait(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """See `Readiness`."""
        return [(key.fd, events) for key, events in self._selector.select(timeout_s)]

    def close(self) -> None:
        """See `Readiness`."""
        self._selector.close()
