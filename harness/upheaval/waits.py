"""The one place where the harness waits for something outside of it.

A wait polls a condition until it holds; it ends early when something happened after which it never will. Nothing else
in the harness sleeps.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from upheaval.errors import UnknownOutcome

POLL_INTERVAL_S: Final = 0.01

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None],
    *,
    timeout_s: float,
    describe: Callable[[], str],
    interval_s: float = POLL_INTERVAL_S,
) -> T:
    """The first result of `condition` that is neither None nor False.

    Raises `UnknownOutcome` with `describe()` when the time-out passes. A condition that cannot come true any more
    raises by itself.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = condition()
        if result is not None and result is not False:
            return result
        if time.monotonic() >= deadline:
            raise UnknownOutcome(f"{describe()} (waited {timeout_s:g} s)")
        time.sleep(interval_s)
