"""Notices when a process of clients could not run, by a thread whose short waits then end late."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from upheaval.errors import EnvironmentFault
from upheaval.records import ClientStall
from upheaval_node.types import MS, S

LEAST_NS: Final = 50 * MS
"""Shorter stalls are not recorded."""
_WAIT_NS: Final = 50 * MS


class StallWatch:
    """Calls `add` with each stall until `close`. Where gevent replaces threads, it watches the greenlets' thread."""

    def __init__(self, add: Callable[[ClientStall], None]) -> None:
        self._add = add
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stall watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Record nothing more."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        # A disk that takes no record fails the run elsewhere.
        with contextlib.suppress(EnvironmentFault):
            due_ns = time.monotonic_ns() + _WAIT_NS
            while not self._is_over.wait(_WAIT_NS / S):
                now_ns = time.monotonic_ns()
                if now_ns - due_ns >= LEAST_NS:
                    self._add(ClientStall(due_ns, now_ns))
                due_ns = time.monotonic_ns() + _WAIT_NS
