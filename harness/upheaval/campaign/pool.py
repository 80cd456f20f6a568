"""Runs plans in order, in this process or in several worker processes. Workers end with this process."""

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
    """Runs `work` on each item. With several workers, `work` has to be importable by fresh processes."""
    if workers <= 1:
        yield partial(map, work)
        return
    # Fresh processes inherit no open files and no threads of this one.
    with multiprocessing.get_context("spawn").Pool(workers, _leave_signals, (os.getpid(),)) as pool:
        yield partial(pool.imap, work)


def _leave_signals(parent: int) -> None:
    """Ignore Ctrl-C: the parent handles it and ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.getppid() != parent:
        os._exit(1)
