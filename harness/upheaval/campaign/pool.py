"""Runs plans in order, in this process or in several worker processes. Workers end with this process."""

import contextlib
import multiprocessing
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from upheaval.errors import EnvironmentFault

A = TypeVar("A")
B = TypeVar("B")

AHEAD_MAX: Final = 1_000
"""The number of items that workers have, or have done, before their results are asked for."""


@contextlib.contextmanager
def some_at_a_time(work: Callable[[A], B], workers: int) -> Iterator[Callable[[Sequence[A]], Iterator[B]]]:
    """Runs `work` on each item. The iterator has the results in the order of the items.

    With several workers, `work` has to be importable by fresh processes. They begin as soon as they have the items, and
    work ahead of the iterator. It raises `EnvironmentFault` in place of the result of an item whose process is ended.
    """
    if workers <= 1:
        yield partial(map, work)
        return
    idle, own = SimpleQueue[_Worker](), threading.local()
    threads = ThreadPoolExecutor(workers, initializer=lambda: setattr(own, "worker", idle.get()))
    pool: list[_Worker] = []

    def submit(item: A) -> Future[B]:
        return threads.submit(lambda: own.worker.do(item))

    try:
        for _ in range(workers):
            pool.append(_Worker(work))
            idle.put(pool[-1])
        yield partial(_in_order, submit)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for worker in pool:
            worker.end()
        threads.shutdown()
        for worker in pool:
            worker.close()


class _Worker:
    """A process that does one item at a time, for one thread. Once it is ended, that is the outcome of each item."""

    def __init__(self, work: Callable[[Any], object]) -> None:
        # A fresh process inherits no open files and no threads of this one.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(work, theirs), daemon=True)
        self._process.start()
        # Its end is then its own: when it ends, so does the connection.
        theirs.close()

    def do(self, item: object) -> Any:
        try:
            self._connection.send(item)
            result, error = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode or 0
            how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
            raise EnvironmentFault(
                f"a worker process was ended {how}, as when memory runs out: take fewer --workers or --jobs"
            ) from None
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        self._process.terminate()

    def close(self) -> None:
        """Call this when its thread has ended."""
        self._process.join()
        self._connection.close()


def _in_order(submit: Callable[[A], Future[B]], items: Sequence[A]) -> Iterator[B]:
    submitted = map(submit, items)
    return _results(deque(islice(submitted, AHEAD_MAX)), submitted)


def _results(begun: deque[Future[B]], more: Iterator[Future[B]]) -> Iterator[B]:
    try:
        while begun:
            yield begun.popleft().result()
            begun.extend(islice(more, 1))
    finally:
        for future in begun:
            future.cancel()


def _serve(work: Callable[[Any], object], connection: Connection) -> None:
    """Ignores Ctrl-C: the parent handles it and ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            item = connection.recv()
            try:
                outcome: tuple[object, Exception | None] = work(item), None
            except Exception as error:  # noqa: BLE001 - the parent raises it
                error.add_note(f"in a worker process: {traceback.format_exc()}")
                outcome = None, error
            connection.send(outcome)
