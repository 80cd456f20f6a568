"""Signals that ask a test run to end, while a cluster runs: they interrupt it, and so the cluster ends along with it.

Python as it is ends at once by SIGTERM and SIGHUP, without any clean-up. This module knows neither pytest nor clusters.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Inside, the first of these signals raises `KeyboardInterrupt`, as Ctrl-C does; the next ones are not heard.

    A signal with another handler, or one that is ignored, is left alone; so are all of them outside the main thread.
    """
    ours: list[signal.Signals] = []

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - wherever it was
        for each in ours:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}")

    if threading.current_thread() is threading.main_thread():
        ours += [each for each in SIGNALS if signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, handle)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
