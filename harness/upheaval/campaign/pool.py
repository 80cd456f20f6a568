"""Runs plans in this process or in several at a time, in order. Worker processes end with this one."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


@contextlib.contextmanager
def some_at_a_time(work: Callable[[A], B], workers: int) -> Iterator[Callable[[Sequence[A]], Iterator[B]]]:
    """What runs `work` on each item; with several workers `work` has to be of a module, for fresh processes."""
    if workers <= 1:
        yield partial(map, work)
        return
    # Fresh processes: nothing that this one has open, and no thread of it, is in them.
    with multiprocessing.get_context("spawn").Pool(workers, _leave_signals, (os.getpid(),)) as pool:
        yield partial(pool.imap, work)


def _leave_signals(parent: int) -> None:
    """Ctrl-C is for the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != parent:
        os._exit(1)
