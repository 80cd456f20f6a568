"""Another interpreter for work that forks. A fork of a process with threads may block, and tests leave threads."""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

PATIENCE_S = 300.0
"""What one piece of work may take on a busy machine."""


@contextmanager
def other_interpreter(*folders: str) -> Iterator[ProcessPoolExecutor]:
    """One without threads, which finds modules in these folders first."""
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=_find_in, initargs=folders) as pool:
        yield pool


def _find_in(*folders: str) -> None:
    sys.path[:0] = folders
