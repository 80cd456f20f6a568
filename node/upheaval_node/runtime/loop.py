"""The event loop of a process: readiness callbacks, timers, and work from other threads.

It knows nothing of sockets' contents, members or agents. Everything but `wake` and `call_from_thread` belongs to the
thread that runs the loop.
"""

import contextlib
import heapq
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from upheaval_node.runtime.readiness import READABLE, best_readiness
from upheaval_node.types import S

_WAKE_READ_LENGTH: Final = 4096


class Cancellable(Protocol):
    """A pending callback, as `call_at` returns it."""

    def cancel(self) -> None:
        """Cancel the callback. Does nothing if it has already run."""


class EventSource(Protocol):
    """The loop's interface to sockets. Times are those of `time.monotonic_ns`."""

    def register(self, fd: int, events: int, callback: Callable[[int], None], *, rings: bool = False) -> None:
        """Call `callback(ready events)` whenever `fd` is ready for one of `events`.

        With `rings`, the callback itself rings the bell of the agent that has work, so no other agent has to run.
        """

    def modify(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Wait for other events of the same descriptor."""

    def unregister(self, fd: int) -> None:
        """Stop waiting for the descriptor. Must be called before it is closed."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back from the loop, never from inside this call."""

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Run work from another thread in the loop."""

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Cancellable:
        """Call back at a time of `time.monotonic_ns`."""


class Timer:
    """A callback that waits for its time; `cancel` forgets it."""

    __slots__ = ("_callback", "deadline_ns")

    def __init__(self, deadline_ns: int, callback: Callable[[], None]) -> None:
        self.deadline_ns = deadline_ns
        self._callback: Callable[[], None] | None = callback

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled, or has already run."""
        return self._callback is None

    def cancel(self) -> None:
        """Forget the callback."""
        self._callback = None

    def fire(self) -> None:
        """Call back, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Loop:
    """Waits for input with `run_once`, and calls the callbacks registered for it. An `EventSource`."""

    def __init__(self) -> None:
        self._readiness = best_readiness()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_count = 0
        self._ringing: set[int] = set()
        self._has_unrung = True
        self.woke_ns = time.monotonic_ns()
        """When the last wait ended: whatever passes from here to the next wait is work."""
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self.register(self._wake_receiver.fileno(), READABLE, self._on_wake)

    def register(self, fd: int, events: int, callback: Callable[[int], None], *, rings: bool = False) -> None:
        """Call `callback(ready events)` whenever `fd` is ready for one of `events`.

        With `rings`, the callback rings the bell of the agent that has work, and `take_unrung` does not count it.
        """
        self._readiness.register(fd, events)
        self._callbacks[fd] = callback
        if rings:
            self._ringing.add(fd)

    def modify(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        """Wait for other events of the same descriptor, or change its callback."""
        self._readiness.modify(fd, events)
        self._callbacks[fd] = callback

    def unregister(self, fd: int) -> None:
        """Stop waiting for the descriptor. Must be called before it is closed."""
        self._readiness.unregister(fd)
        del self._callbacks[fd]
        self._ringing.discard(fd)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call back from the next `run_once`, never from inside this call."""
        self._soon.append(callback)

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Run work from another thread in the loop's own thread, which wakes up for it."""
        self._soon.append(callback)
        self.wake()

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Timer:
        """Call back at a time of `time.monotonic_ns`."""
        timer = Timer(deadline_ns, callback)
        self._timer_count += 1
        heapq.heappush(self._timers, (deadline_ns, self._timer_count, timer))
        return timer

    def wake(self) -> None:
        """Make a waiting `run_once` return. Safe in other threads and in signal handlers."""
        # If the buffer is full, a wake-up is already pending; if the socket is closed, no wait follows.
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"\0")

    def run_once(self, timeout_s: float | None) -> int:
        """Wait at most `timeout_s` (None: without end) for input, deliver it, and return how many callbacks ran."""
        done = 0
        ready_fds = self._readiness.wait(self._bounded_timeout(timeout_s))
        self.woke_ns = time.monotonic_ns()
        # Looked up before the first call: a callback may close a descriptor that another one opens again.
        ready = [(self._callbacks[fd], fd in self._ringing, events) for fd, events in ready_fds]
        ringing = 0
        for callback, rings, events in ready:
            ringing += rings
            callback(events)
            done += 1
        if self._timers:
            done += self._fire_timers()
        for _ in range(len(self._soon)):
            self._soon.popleft()()
            done += 1
        self._has_unrung |= done > ringing or done == 0
        return done

    def take_unrung(self) -> bool:
        """Whether anything that rings no bell has happened since the last call, or a wait has ended without input."""
        has_unrung, self._has_unrung = self._has_unrung, False
        return has_unrung

    def close(self) -> None:
        """Release the descriptors. No callback runs any more."""
        self._readiness.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _bounded_timeout(self, timeout_s: float | None) -> float | None:
        if self._soon:
            return 0
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            return timeout_s
        due_s = max(0.0, (self._timers[0][0] - time.monotonic_ns()) / S)
        return due_s if timeout_s is None else min(due_s, timeout_s)

    def _fire_timers(self) -> int:
        done = 0
        now_ns = time.monotonic_ns()
        while self._timers and self._timers[0][0] <= now_ns:
            heapq.heappop(self._timers)[2].fire()
            done += 1
        return done

    def _on_wake(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(self._wake_receiver.recv(_WAKE_READ_LENGTH)) == _WAKE_READ_LENGTH:
                pass
