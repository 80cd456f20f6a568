"""The conditions under which a replay runs: what its process is started with, and what it changes in itself.

Clock and random numbers are always made here, so that two replays under the same conditions see the same: a clock goes
on by a millisecond each time it is read. What is changed is seen by all that is imported afterwards.
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
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MethodType
from typing import Any, Final

from upheaval.checkers.own.causes import Cause
from upheaval_chaos.programs import LOCALE

_KEPT: Final = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
"""Of the environment variables, what programs need to be found and to run."""
_TICK_NS: Final = 1_000_000
_CLOCKS: Final = {False: (1_000_000_000, 1_000), True: (946_684_680, 9_000_000)}
"""Seconds of the epoch, and of the monotonic clock: years in which no run takes place."""
_HASH_SEEDS: Final = {False: "1", True: "4711"}
_PLACES: Final = {
    False: {"TZ": "UTC0", "LC_ALL": "C.UTF-8"},
    True: {"TZ": "UPH-5:45", "LC_ALL": "C"},
}
_LOOKS: Final = 1_000
_HOLES_LENGTH: Final = 512
"""Longer objects do not come from Python's own heap."""
_HOLES: Final = 2_000
"""Of each length."""
_OTHER_HOST: Final = "replay.invalid"
_OTHER_NODE: Final = 0x02_00_00_00_00_01
_MORE_PROCESSORS: Final = 3


# --- for who starts the process ---

_SAME_ADDRESSES: Final = """
import os, sys
try:
    import ctypes
    ctypes.CDLL(None).personality(0x0040000)
except (ImportError, AttributeError):
    pass
os.execv(sys.executable, [sys.executable, "-P", "-m", *sys.argv[1:]])
"""
"""Where the system allows it: two processes that do the same have their objects at the same addresses."""
LAUNCHER: Final = (sys.executable, "-I", "-S", "-c", _SAME_ADDRESSES)
"""The command of the process, to which the name of a module and its arguments are added."""


def environment(changed: Collection[Cause]) -> Mapping[str, str]:
    """The variables of a replay's process. Modules are found there as here."""
    kept = _KEPT if Cause.ENVIRONMENT in changed else os.environ
    paths = [str(Path(each).absolute()) for each in sys.path if each]
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        **LOCALE,
        **_PLACES[Cause.LOCALE in changed],
        "PYTHONHASHSEED": _HASH_SEEDS[Cause.HASH_SEED in changed],
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@contextmanager
def directory(changed: Collection[Cause]) -> Iterator[Path]:
    """Where it is to run: here, or in an empty folder that is gone afterwards."""
    if Cause.DIRECTORY not in changed:
        yield Path.cwd()
        return
    with TemporaryDirectory(prefix="upheaval-replay-") as empty:
        yield Path(empty)


# --- in the process ---


def enter(changed: Collection[Cause]) -> list[bytes]:
    """Change this process for good. What is returned is to be kept as long as it runs."""
    _set_clock(*_CLOCKS[Cause.CLOCK in changed])
    _set_random(_TICK_NS + (Cause.RANDOM in changed))
    if Cause.HOST in changed:
        _set_host()
    if Cause.PROCESSORS in changed:
        _set_processors((os.cpu_count() or 1) + _MORE_PROCESSORS)
    if Cause.COLLECTOR in changed:
        gc.disable()
    if Cause.RECURSION in changed:
        sys.setrecursionlimit(2 * sys.getrecursionlimit())
    return _holes() if Cause.ADDRESSES in changed else []


def unsettle() -> list[bytes]:
    """Let clock, random numbers and addresses of this process go on: they are not those of another one any more.

    What is returned is to be kept as long as it runs.
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
    """Classes that ask the changed clock; those of the interpreter count as theirs, and they are pickled as those."""
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
        """The interpreter leaves the module out for all but its own classes."""
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
    # Of the C library, which asks the kernel.
    _put(uuid, "_generate_time_safe", None)


def _set_host() -> None:
    """Its name and its network address. `getfqdn` asks no resolver for a name that does not exist."""
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
    """The object whose methods a module gives as its functions."""
    return function.__self__  # type: ignore[attr-defined]


def _put(place: object, name: str, value: object) -> None:
    setattr(place, name, value)


def _holes() -> list[bytes]:
    """Fill the heap with objects of every length, and free half of them: later objects have arbitrary addresses."""
    shuffled = random.Random(int.from_bytes(hashlib.sha256(b"holes").digest()))
    every = [bytes(length) for length in range(1, _HOLES_LENGTH - 32, 16) for _ in range(_HOLES)]
    shuffled.shuffle(every)
    return every[: len(every) // 2]
