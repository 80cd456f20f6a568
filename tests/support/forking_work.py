"""Work for `apart`, by name, so that another interpreter can do it."""

import signal

from upheaval.checkers.own import apart as module
from upheaval.checkers.own.apart import apart


def append_to_a_copy() -> tuple[list[int], list[int]]:
    """What comes back, and what this process has after it."""
    known: list[int] = []
    return apart(lambda: known.append(1) or [*known]), known


def take_too_long() -> None:
    """With a limit of a second."""
    module.LONGEST_S = 1
    apart(signal.pause)


def divide_by_zero() -> None:
    """Raises in the copy."""
    apart(lambda: 1 // 0)
