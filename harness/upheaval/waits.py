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

    Raises `UnknownOutcome` with `describe()` after a look that began when the time-out had passed: a look may take
    long, and this process may be held up after it. A condition that cannot come true any more raises by itself.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        is_last = time.monotonic() >= deadline
        result = condition()
        if result is not None and result is not False:
            return result
        if is_last:
            raise UnknownOutcome(f"{describe()} (waited {timeout_s:g} s)")
        time.sleep(interval_s)
