"""How long the syncs of a member take, seen from outside: in the kernel's table of threads, and in its counters.

A thread that the kernel shows in a sync at all looks from one to another has been there for that time. It may have made
several: with a fast disk, that is what the counters show.

A member moves its recording position after the sync that covers it, at most twice for one sync. So among three moves it
made a whole sync, in the time from the last look before the first move to the first look after the third. At sync
level 0 nothing of this holds.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.errors import UnknownOutcome
from upheaval.runtimes.slow_syncs import sync_calls
from upheaval.waits import wait_until

LOOK_LIMIT_S: Final = 3.0
_INTERVAL_S: Final = 0.005
_MOVES: Final = 3
"""The number of moves with a whole sync among them."""


@dataclass(slots=True)
class SyncTimes:
    """Pairs of begin and duration, in ns: `lasted` has syncs that took at least that long, `bounded` at most."""

    lasted: list[tuple[int, int]] = field(default_factory=list)
    bounded: list[tuple[int, int]] = field(default_factory=list)


class SyncWatch:
    """The syncs of one member. `position` returns its recording position."""

    def __init__(self, pids: Callable[[], Sequence[int]], position: Callable[[], int]) -> None:
        self._pids = pids
        self._position = position
        self.times = SyncTimes()

    def look(self) -> None:
        """Watch until a sync is over or bounded, at most `LOOK_LIMIT_S`."""
        threads, moves = _Threads(self._pids()), _Moves(self._position)

        def is_enough() -> bool:
            threads.look()
            moves.look()
            return bool(threads.over or moves.bounded)

        with contextlib.suppress(UnknownOutcome):
            wait_until(is_enough, timeout_s=LOOK_LIMIT_S, describe=lambda: "no sync was seen", interval_s=_INTERVAL_S)
        self.times.lasted += threads.over
        self.times.bounded += moves.bounded


class _Threads:
    """Which threads of some processes are in a sync, and since when."""

    def __init__(self, pids: Collection[int]) -> None:
        self._files = [path for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/syscall")]
        self._calls = set(map(str, sync_calls()))
        self._since: dict[Path, tuple[int, int]] = {}
        self.over: list[tuple[int, int]] = []

    def look(self) -> None:
        for path in self._files:
            call, before_ns = "", time.monotonic_ns()
            # The thread may be gone.
            with contextlib.suppress(OSError):
                call = path.read_text().partition(" ")[0]
            if call not in self._calls:
                if path in self._since:
                    self.over.append(self._since.pop(path))
            elif path in self._since:
                first_ns, _ = self._since[path]
                self._since[path] = first_ns, before_ns - first_ns
            else:
                self._since[path] = time.monotonic_ns(), 0


class _Moves:
    """When a position moved: after the look at one time, before the end of the look at another."""

    def __init__(self, position: Callable[[], int]) -> None:
        self._read = position
        self._last: tuple[int, int] | None = None
        self._before_moves: list[int] = []
        self.bounded: list[tuple[int, int]] = []

    def look(self) -> None:
        before_ns = time.monotonic_ns()
        position = self._read()
        if self._last is not None and position > self._last[1] >= 0:
            self._before_moves.append(self._last[0])
            if len(self._before_moves) >= _MOVES:
                first_ns = self._before_moves[-_MOVES]
                self.bounded.append((first_ns, time.monotonic_ns() - first_ns))
        self._last = before_ns, position
