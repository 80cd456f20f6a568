"""A sequence of steps that waits without blocking: a generator that is resumed once a tick.

Where Aeron's agents sleep until an archive or a service answers, ours write `now = yield` and are resumed
with the time of the next duty cycle. A failure leaves the sequence as an exception of `poll`. Knows nothing of what
the steps do.
"""

from collections.abc import Generator
from typing import Generic, TypeVar

from upheaval_node.types import Now

T = TypeVar("T")

StepGenerator = Generator[None, Now, T]


class Steps(Generic[T]):
    """Runs one sequence to its end."""

    def __init__(self, generator: StepGenerator[T]) -> None:
        self._generator = generator
        self._is_started = False
        self._result: list[T] = []
        self._failure: Exception | None = None

    @property
    def is_done(self) -> bool:
        """Whether the sequence has returned; never for one that failed."""
        return bool(self._result)

    @property
    def result(self) -> T:
        """What the sequence returned; only once it is done."""
        return self._result[0]

    def poll(self, now: Now) -> bool:
        """Go on as far as possible; whether the sequence is at its end.

        Raises what a step raises, and the same again when it is polled after that: a failed sequence is never done.
        """
        if self._failure is not None:
            raise self._failure
        if self._result:
            return True
        try:
            if self._is_started:
                self._generator.send(now)
            else:
                self._is_started = True
                next(self._generator)
        except StopIteration as stop:
            self._result.append(stop.value)
        except Exception as failure:
            self._failure = failure
            raise
        return bool(self._result)

    def close(self) -> None:
        """Give the sequence up."""
        self._generator.close()
