"""Ctrl-C between two calls of the JVM: one that comes within a call would leave half an answer on its connection."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Yields what raises `KeyboardInterrupt`, with the number of the signal, once one has come; no later one counts."""
    came: list[int] = []

    def keep(number: int, _: object) -> None:
        came.append(number)

    def interrupted() -> None:
        if came:
            raise KeyboardInterrupt(came[0])

    previous = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, keep)
    try:
        yield interrupted
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.SIG_IGN if came else handler)
