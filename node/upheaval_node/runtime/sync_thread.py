"""The one thread of a process that makes files durable, so that the loop never waits for a disk.

It calls one function of `os` and nothing else; results go back through the loop. Requests for one file that queue up
while a sync runs are served by one sync, because a sync covers everything written before it began.
"""

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from upheaval_node.runtime.loop import Loop


class SyncRequest(NamedTuple):
    """`sync` is called in the thread and may raise; `done` is called from the loop with the error or None.

    Requests with an equal `key` (one file at one level) may share one call of `sync`.
    """

    key: tuple[int, int]
    sync: Callable[[], None]
    done: Callable[[Exception | None], None]


class SyncThread:
    """Serves sync requests in order. The first request starts the thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._requests: queue.SimpleQueue[SyncRequest | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None

    def submit(self, request: SyncRequest) -> None:
        """Queue a request. Its result comes through the loop."""
        if self._worker is None:
            self._worker = threading.Thread(target=self._run, name="sync", daemon=True)
            self._worker.start()
        self._requests.put(request)

    def close(self) -> None:
        """Serve what is queued, then end the thread. Results still need a run of the loop to arrive."""
        if self._worker is not None:
            self._requests.put(None)
            self._worker.join()
            self._worker = None

    def _run(self) -> None:
        is_last = False
        while not is_last:
            batch, is_last = self._next_batch()
            results: dict[tuple[int, int], Exception | None] = {}
            answers: list[tuple[Callable[[Exception | None], None], Exception | None]] = []
            for request in batch:
                if request.key not in results:
                    # Deliver the earlier results now, before another sync begins.
                    self._deliver(answers)
                    answers = []
                    results[request.key] = _attempt(request.sync)
                answers.append((request.done, results[request.key]))
            self._deliver(answers)

    def _next_batch(self) -> tuple[list[SyncRequest], bool]:
        batch: list[SyncRequest] = []
        request = self._requests.get()
        while request is not None:
            batch.append(request)
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _deliver(self, answers: list[tuple[Callable[[Exception | None], None], Exception | None]]) -> None:
        if answers:
            self._loop.call_from_thread(lambda: _answer_all(answers))


def _attempt(sync: Callable[[], None]) -> Exception | None:
    try:
        sync()
    except OSError as error:  # the loop's side decides what a failure means
        return error
    return None


def _answer_all(answers: list[tuple[Callable[[Exception | None], None], Exception | None]]) -> None:
    for done, error in answers:
        done(error)
