"""Runs plans in order, in this process or in several worker processes. Workers end with this process."""

import contextlib
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from upheaval.errors import EnvironmentFault

A = TypeVar("A")
B = TypeVar("B")


@contextlib.contextmanager
def some_at_a_time(work: Callable[[A], B], workers: int) -> Iterator[Callable[[Sequence[A]], Iterator[B]]]:
    """Runs `work` on each item. With several workers, `work` has to be importable by fresh processes, and the iterator
    raises `EnvironmentFault` when one of them is ended.
    """
    if workers <= 1:
        yield partial(map, work)
        return
    with contextlib.ExitStack() as stack:
        pool = []
        for _ in range(workers):
            pool.append(_Worker(work))
            stack.callback(pool[-1].end)
        yield partial(_in_order, pool, count())


class _Worker:
    """A process that does one item at a time."""

    def __init__(self, work: Callable[[Any], object]) -> None:
        # A fresh process inherits no open files and no threads of this one.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(work, theirs), daemon=True)
        self._process.start()
        # Its end is then its own: when it ends, so does the connection.
        theirs.close()
        self.is_free = True

    def give(self, number: int, item: object) -> None:
        self.is_free = False
        with self._until_it_ends():
            self.connection.send((number, item))

    def take(self) -> tuple[int, tuple[Any, Exception | None]]:
        """The number of its item, and the result or what was raised."""
        with self._until_it_ends():
            number, outcome = self.connection.recv()
        self.is_free = True
        return number, outcome

    def end(self) -> None:
        self._process.terminate()
        self._process.join()
        self.connection.close()

    @contextlib.contextmanager
    def _until_it_ends(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode or 0
            how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
            raise EnvironmentFault(
                f"a worker process was ended {how}, as when memory runs out: take fewer --workers or --jobs"
            ) from None


def _in_order(workers: Sequence[_Worker], numbers: Iterator[int], items: Sequence[Any]) -> Iterator[Any]:
    numbered = list(zip(numbers, items, strict=False))
    left = iter(numbered)
    done: dict[int, tuple[Any, Exception | None]] = {}
    by_connection = {worker.connection: worker for worker in workers}
    for number, _ in numbered:
        _occupy(workers, left)
        while number not in done:
            for connection in wait(list(by_connection)):
                assert isinstance(connection, Connection)
                other, outcome = by_connection[connection].take()
                done[other] = outcome
            _occupy(workers, left)
        result, error = done.pop(number)
        if error is not None:
            raise error
        yield result


def _occupy(workers: Sequence[_Worker], left: Iterator[tuple[int, Any]]) -> None:
    free = [worker for worker in workers if worker.is_free]
    for worker, (number, item) in zip(free, left, strict=False):
        worker.give(number, item)


def _serve(work: Callable[[Any], object], connection: Connection) -> None:
    """Ignores Ctrl-C: the parent handles it and ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            number, item = connection.recv()
            try:
                outcome: tuple[object, Exception | None] = work(item), None
            except Exception as error:  # noqa: BLE001 - the parent raises it
                error.add_note(f"in a worker process: {traceback.format_exc()}")
                outcome = None, error
            connection.send((number, outcome))
