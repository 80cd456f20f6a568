"""The conditions under which a replay runs: those its process is started with, and those that it changes in itself.

Clock and random numbers are always replaced, so that two replays under equal conditions see the same values. A clock
advances by one millisecond at each reading. Modules imported later see the changes.
"""

import datetime as dt
import gc
import hashlib
import os
import platform
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MethodType
from typing import Any, Final

from upheaval.checkers.own.causes import Cause
from upheaval_chaos.programs import LOCALE

_KEPT: Final = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
"""The environment variables that programs need to be found and to run."""
_TICK_NS: Final = 1_000_000
_CLOCKS: Final = {False: (1_000_000_000, 1_000), True: (946_684_680, 9_000_000)}
"""Seconds since the epoch, and of the monotonic clock, in years in which no run takes place."""
_HASH_SEEDS: Final = {False: "1", True: "4711"}
MORE_HASH_SEEDS: Final = ("2", "30", "400")
"""For what two hash seeds may leave alike, such as a sum of floating-point numbers in the order of a set."""
_PLACES: Final = {
    False: {"TZ": "UTC0", "LC_ALL": "C.UTF-8"},
    True: {"TZ": "UPH-5:45", "LC_ALL": "C"},
}
_LOOKS: Final = 1_000
_HOLES_LENGTH: Final = 512
"""Bytes. Longer objects are not allocated on Python's own heap."""
_HOLES: Final = 2_000
"""The number of objects of each length."""
_OBJECTS: Final = 50
"""The new objects after which the garbage collector runs. With Python's own number it may never run in a short log."""
_OTHER_HOST: Final = "replay.invalid"
_OTHER_NODE: Final = 0x02_00_00_00_00_01
_MORE_PROCESSORS: Final = 3


# --- start of the process ---

_SAME_ADDRESSES: Final = """
import os, sys
try:
    import ctypes
    ctypes.CDLL(None).personality(0x0040000)
except (ImportError, AttributeError):
    pass
os.execv(sys.executable, [sys.executable, "-P", "-m", *sys.argv[1:]])
"""
"""Where the system allows it, disables the randomisation of addresses, so that equal processes have equal addresses."""
LAUNCHER: Final = (sys.executable, "-I", "-S", "-c", _SAME_ADDRESSES)
"""The command of the process, to be followed by a module name and its arguments."""


def environment(changed: Collection[Cause], hash_seed: str = "") -> Mapping[str, str]:
    """The environment of a replay's process. It finds the same modules as this process.

    `hash_seed` takes the place of the usual or changed one.
    """
    names = _KEPT if Cause.ENVIRONMENT in changed else os.environ
    paths = [str(Path(path).absolute()) for path in sys.path if path]
    return {
        **{name: os.environ[name] for name in names if name in os.environ},
        **LOCALE,
        **_PLACES[Cause.LOCALE in changed],
        "PYTHONHASHSEED": hash_seed or _HASH_SEEDS[Cause.HASH_SEED in changed],
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


# --- changes in the process ---


def enter(changed: Collection[Cause]) -> list[bytes]:
    """Change this process permanently. The caller must keep the result for the life of the process."""
    _set_clock(*_CLOCKS[Cause.CLOCK in changed])
    _set_random(_TICK_NS + (Cause.RANDOM in changed))
    if Cause.HOST in changed:
        _set_host()
    if Cause.PROCESSORS in changed:
        _set_processors((os.cpu_count() or 1) + _MORE_PROCESSORS)
    if Cause.COLLECTOR in changed:
        gc.disable()
    else:
        gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    if Cause.RECURSION in changed:
        sys.setrecursionlimit(2 * sys.getrecursionlimit())
    holes = _holes() if Cause.ADDRESSES in changed else []
    # What was done so far must not decide when collections come: objects from Python's free lists are not counted, and
    # a collection empties them.
    gc.collect()
    gc.freeze()
    return holes


def unsettle() -> list[bytes]:
    """Advance the clock, the random numbers and the addresses of this process, so that they differ from another's.

    The caller must keep the result for the life of the process.
    """
    for _ in range(_LOOKS):
        time.time()
        random.Random()
        os.urandom(1)
    return _holes()


def _set_clock(epoch_s: int, since_boot_s: int) -> None:
    passed_ns = 0

    def of(begin_s: int) -> Callable[..., int]:
        def read_ns(*_: object) -> int:
            nonlocal passed_ns
            passed_ns += _TICK_NS
            return begin_s * 1_000_000_000 + passed_ns

        return read_ns

    wall, monotonic = of(epoch_s), of(since_boot_s)
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        _put(time, name, _in_seconds(monotonic))
        _put(time, f"{name}_ns", monotonic)
    _put(time, "time", _in_seconds(wall))
    _put(time, "time_ns", wall)
    _put(time, "clock_gettime", _in_seconds(wall))
    _put(time, "clock_gettime_ns", wall)
    for name in ("gmtime", "localtime", "ctime"):
        _put(time, name, _from_now(getattr(time, name)))
    strftime, asctime = time.strftime, time.asctime
    _put(time, "strftime", lambda form, at=None: strftime(form, time.localtime() if at is None else at))
    _put(time, "asctime", lambda at=None: asctime(time.localtime() if at is None else at))
    _set_dates()


def _in_seconds(read_ns: Callable[..., int]) -> Callable[..., float]:
    return lambda *arguments: read_ns(*arguments) / 1e9


def _from_now(convert: Callable[[float], object]) -> Callable[..., object]:
    return lambda seconds=None: convert(time.time() if seconds is None else seconds)


def _set_dates() -> None:
    """Replace date classes by ones that read the changed clock. Instances of the real classes count and pickle as
    theirs.
    """
    real_date, real_datetime = dt.date, dt.datetime

    def kind(real: type) -> type:
        class Kind(type):
            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, real)

            def __subclasscheck__(cls, subclass: type) -> bool:
                return issubclass(subclass, real)

        return Kind

    def now(cls: Any, tz: dt.tzinfo | None = None) -> Any:
        return cls.fromtimestamp(time.time(), tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(time.time(), dt.UTC).replace(tzinfo=None)

    def today(cls: Any) -> Any:
        return cls.fromtimestamp(time.time())

    def date_of(self: dt.datetime) -> Any:
        return dt.date(self.year, self.month, self.day)

    def shown(real: Any) -> Callable[[object], str]:
        """The repr: Python omits the module for all but its own classes."""
        return lambda self: f"{'datetime.' * (type(self) in (dt.date, dt.datetime))}{real.__repr__(self)}"

    of_dates = {"today": classmethod(today), "__module__": "datetime"}
    of_datetimes = {**of_dates, "now": classmethod(now), "utcnow": classmethod(utcnow), "date": date_of}
    for real, fields in ((real_date, of_dates), (real_datetime, of_datetimes)):
        _put(dt, real.__name__, kind(real)(real.__name__, (real,), {**fields, "__repr__": shown(real)}))


def _set_random(seed: int) -> None:
    source = random.Random(seed)
    seeded = random.Random.seed

    def with_seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        seeded(self, source.getrandbits(64) if a is None else a, version)

    _put(os, "urandom", source.randbytes)
    _put(random, "_urandom", source.randbytes)
    _put(random.Random, "seed", with_seed)
    random.seed(source.getrandbits(64))
    _put(random, "seed", MethodType(with_seed, _of_module(random.seed)))
    # This C function asks the kernel.
    _put(uuid, "_generate_time_safe", None)


def _set_host() -> None:
    """Change the host name and the network address. `getfqdn` asks no resolver for a name that does not exist."""
    uname, getfqdn = os.uname(), socket.getfqdn
    here = os.uname_result((uname.sysname, _OTHER_HOST, uname.release, uname.version, uname.machine))
    _put(os, "uname", lambda: here)
    _put(platform, "_uname_cache", None)
    _put(socket, "gethostname", lambda: _OTHER_HOST)
    _put(socket, "getfqdn", lambda name="": getfqdn(name) if name not in ("", _OTHER_HOST) else _OTHER_HOST)
    _put(uuid, "getnode", lambda: _OTHER_NODE)


def _set_processors(count: int) -> None:
    _put(os, "cpu_count", lambda: count)
    if hasattr(os, "process_cpu_count"):
        _put(os, "process_cpu_count", lambda: count)
    if hasattr(os, "sched_getaffinity"):
        _put(os, "sched_getaffinity", lambda _pid: set(range(count)))


def _of_module(function: object) -> Any:
    """The object whose methods a module exposes as functions."""
    return function.__self__  # type: ignore[attr-defined]


def _put(place: object, name: str, value: object) -> None:
    setattr(place, name, value)


def _holes() -> list[bytes]:
    """Fill the heap with objects of every length and free half of them, so that later objects have arbitrary
    addresses.
    """
    shuffled = random.Random(int.from_bytes(hashlib.sha256(b"holes").digest()))
    every = [bytes(length) for length in range(1, _HOLES_LENGTH - 32, 16) for _ in range(_HOLES)]
    shuffled.shuffle(every)
    return every[: len(every) // 2]
