"""The lines of a service's code that read anything outside the log: time, random numbers, addresses, variables, files,
threads, programs, the network.

Reading them is no mistake by itself and breaks no promise. The lines show where to look if a state is not what the log
gives.
"""

import builtins
import gc
import os
import platform
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from upheaval.checkers.own.causes import Cause

PLACES_MAX: Final = 20
_EVENTS: Final = {
    "subprocess.Popen": "starts a program",
    "os.system": "starts a program",
    "socket.connect": "opens a connection",
    "socket.getaddrinfo": "asks for an address of the network",
    "os.listdir": "lists a folder",
    "os.scandir": "lists a folder",
}
_OPEN: Final = "open"
_CLOCKS: Final = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
_DRAWS: Final = ("random", "randrange", "randint", "choice", "choices", "shuffle", "sample", "uniform", "getrandbits")
_HOST_NAMES: Final = (
    (socket, "gethostname"),
    (socket, "getfqdn"),
    (platform, "node"),
    (os, "uname"),
    (uuid, "getnode"),
)
_PROCESSORS: Final = ("cpu_count", "process_cpu_count", "sched_getaffinity")
_COLLECTIONS: Final = ("collect", "isenabled", "get_count", "get_objects", "get_stats")
_LOADS: Final = ("<frozen importlib", "<frozen zipimport")
_LIBRARIES: Final = "/site-packages/"


@dataclass(slots=True)
class Outside:
    """Watches this process from `listen` on, permanently. `source` is the folder of the service's code."""

    source: str
    asked: dict[tuple[Cause, str], None] = field(default_factory=dict)
    """The cause that the call may lead to (`OUTSIDE` for files, threads and the like), and what was read and where. A
    set.
    """

    def listen(self) -> None:
        """Install the watches. They cover modules that are loaded later, too."""
        sys.addaudithook(self._heard)
        for name in _CLOCKS:
            self._note_calls(Cause.CLOCK, time, name, f"calls time.{name}()")
        for name in _DRAWS:
            self._note_calls(Cause.RANDOM, random, name, f"calls random.{name}()")
        for place in (os, random):
            self._note_calls(Cause.RANDOM, place, "urandom" if place is os else "_urandom", "asks for random bytes")
        self._note_calls(Cause.ADDRESSES, builtins, "id", "calls id()")
        for place, name in _HOST_NAMES:
            self._note_calls(Cause.HOST, place, name, f"calls {place.__name__}.{name}()")
        for name in _PROCESSORS:
            if hasattr(os, name):
                self._note_calls(Cause.PROCESSORS, os, name, f"calls os.{name}()")
        for name in _COLLECTIONS:
            self._note_calls(Cause.COLLECTOR, gc, name, f"calls gc.{name}()")
        self._note_calls(Cause.OUTSIDE, threading.Thread, "start", "starts a thread")
        self._note_variables(type(os.environ))

    def _note_calls(self, cause: Cause, place: object, name: str, what: str) -> None:
        function: Callable[..., Any] = getattr(place, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self._note(cause, what)
            return function(*arguments, **named)

        setattr(place, name, call)

    def _note_variables(self, environment: Any) -> None:
        read = environment.__getitem__

        def read_noted(variables: Any, name: Any) -> Any:
            self._note(Cause.ENVIRONMENT, f"reads the environment variable {name!r}")
            return read(variables, name)

        environment.__getitem__ = read_noted

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == _OPEN and isinstance(arguments[0], str | bytes | os.PathLike):
            self._note(Cause.OUTSIDE, f"opens {Path(os.fsdecode(arguments[0])).name!r}")
        elif event in _EVENTS:
            self._note(Cause.OUTSIDE, _EVENTS[event])

    def _note(self, cause: Cause, what: str) -> None:
        """Note the call if it comes from a line of the service's code."""
        where = self._line(sys._getframe(1))
        if where and len(self.asked) < PLACES_MAX:
            self.asked[cause, f"its code {what}, at {where}"] = None

    def _line(self, frame: FrameType | None) -> str:
        """The innermost line of the service's code; empty if there is none, or while a module is loaded."""
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(_LOADS):
                return ""
            if name.startswith(f"{self.source}{os.sep}") and _LIBRARIES not in name:
                return f"{Path(name).relative_to(self.source)}:{frame.f_lineno} in {frame.f_code.co_name}"
            frame = frame.f_back
        return ""
