"""Wakes a loop at fixed times to within microseconds, where epoll waits in whole milliseconds: a timer of Linux.

Python has it as `os.timerfd_create` from 3.13 on; until then it is the system's own function.
"""

import ctypes
import os
from typing import Final

from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.readiness import READABLE
from upheaval_node.types import S

_CLOCK_MONOTONIC: Final = 1
_NONBLOCK: Final = os.O_NONBLOCK
_ABSOLUTE: Final = 1
_COUNT_LENGTH: Final = 8


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Times(ctypes.Structure):
    _fields_ = (("interval", _Time), ("first", _Time))


class Ticks:
    """From `first_ns` of the monotonic clock, every `interval_ns`, until closed."""

    def __init__(self, loop: Loop, first_ns: int, interval_ns: int) -> None:
        self._loop = loop
        library = ctypes.CDLL(None, use_errno=True)
        self._fd: int = library.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK)
        times = _Times(_Time(*divmod(interval_ns, S)), _Time(*divmod(first_ns, S)))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no timer")
        if library.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(times), None) < 0:
            os.close(self._fd)
            raise OSError(ctypes.get_errno(), "the timer cannot be set")
        loop.register(self._fd, READABLE, self._on_tick)

    def close(self) -> None:
        """No more of them."""
        self._loop.unregister(self._fd)
        os.close(self._fd)

    def _on_tick(self, _events: int) -> None:
        os.read(self._fd, _COUNT_LENGTH)
