"""`AsyncioLoop`: sockets of the process runtime on a running asyncio event loop.

Readiness comes from `add_reader` and `add_writer`; there is no selector and no thread of its own. Knows nothing of
what the sockets carry.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

from upheaval_node.runtime.readiness import READABLE, WRITABLE
from upheaval_node.types import S


class AsyncioLoop:
    """Implements `loop.EventSource`.

    `on_event` is called after every callback, because agents must check for new input. Exceptions of a callback go to
    `on_error`: on an event loop no caller would receive them.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        on_event: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._on_event = on_event
        self._on_error = on_error
        self._registered: dict[int, int] = {}

    def register(self, fd: int, events: int, callback: Callable[[int], None], *, rings: bool = False) -> None:  # noqa: ARG002
        """Call `callback(ready events)` whenever `fd` is ready for one of `events`."""
        self._registered[fd] = 0
        self.modify(fd, events, callback)

    def modify(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Wait for other events of the same descriptor."""
        before = self._registered[fd]
        self._registered[fd] = events
        if events & ~before & READABLE:
            self._loop.add_reader(fd, self._deliver, callback, READABLE)
        elif before & ~events & READABLE:
            self._loop.remove_reader(fd)
        if events & ~before & WRITABLE:
            self._loop.add_writer(fd, self._deliver, callback, WRITABLE)
        elif before & ~events & WRITABLE:
            self._loop.remove_writer(fd)

    def unregister(self, fd: int) -> None:
        """Stop waiting for the descriptor. Must be called before it is closed."""
        events = self._registered.pop(fd)
        if events & READABLE:
            self._loop.remove_reader(fd)
        if events & WRITABLE:
            self._loop.remove_writer(fd)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back in the next turn of the event loop."""
        self._loop.call_soon(self._run, callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Does nothing if the event loop is already closed."""
        # The event loop may be closed when the thread has its answer, which is then not needed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._run, callback)

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back at a time of `time.monotonic_ns`."""
        delay_s = max(0.0, (deadline_ns - time.monotonic_ns()) / S)
        return self._loop.call_later(delay_s, self._run, callback)

    def _deliver(self, callback: Callable[[int], None], events: int) -> None:
        self._run(lambda: callback(events))

    def _run(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - whatever it is, callers wait for what it prevented
            self._on_error(error)
        self._on_event()
