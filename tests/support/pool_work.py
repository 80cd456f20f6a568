"""Work for `some_at_a_time`, by name, so that its processes find it."""

import os
import signal


def end_at_two(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def pause_at_two(number: int) -> int:
    if number == 2:
        signal.pause()
    return number


def fail_at_two(number: int) -> int:
    return 10 // (number - 2)
