"""Turns signals that end a test run into interrupts, so that a running cluster ends, too.

By default Python ends at once by SIGTERM and SIGHUP, without clean-up. This module knows neither pytest nor clusters.
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
    """In the block, the first of these signals raises `KeyboardInterrupt`, as Ctrl-C does; later ones are ignored.

    A signal that is ignored or has another handler keeps that. Outside the main thread nothing changes.
    """
    ours: list[signal.Signals] = []

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - wherever it was
        for signalnum in ours:
            signal.signal(signalnum, signal.SIG_IGN)
        raise KeyboardInterrupt(f"ended by {signal.Signals(number).name}")

    if threading.current_thread() is threading.main_thread():
        ours += [signalnum for signalnum in SIGNALS if signal.getsignal(signalnum) is signal.SIG_DFL]
    for signalnum in ours:
        signal.signal(signalnum, handle)
    try:
        yield
    finally:
        for signalnum in ours:
            signal.signal(signalnum, signal.SIG_DFL)
