"""How users specify their own service: a model of its answers, and promises over its log and states.

A model is a sequential specification, as for Porcupine or Knossos: one copy without concurrency and faults. A promise
is a function with assertions over a whole run. `upheaval.checkers.own.own_model` judges both, in a process of their
own.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from upheaval_node.sbe import SbeMessage

PlainPromise = Callable[["OwnRun"], object]

PROMISES: Final[dict[str, PlainPromise]] = {}
"""The promises of all imported modules, by their sentences."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a client to the service, as the log has it. A test of a model needs only the payload."""

    payload: bytes
    position: int = -1
    """The log position after its message."""
    session_id: int = -1
    timestamp: int = -1
    """The cluster time of the request."""
    answer: bytes | None = None
    """What the client received, for promises. None without an answer, and always in a model, which computes it."""

    @property
    def text(self) -> str:
        """The payload as UTF-8. Raises `UnicodeDecodeError`."""
        return self.payload.decode("utf-8")

    def json(self) -> Any:
        """The payload as JSON. Raises `ValueError`."""
        return json.loads(self.payload)


class Model(ABC):
    """What one copy of the service would answer to requests in sequence. Its attributes are its state.

    An instance is made without arguments for each key of `partition`. It gets all requests of that key in the order of
    the log.
    """

    @abstractmethod
    def apply(self, request: Request) -> Any:
        """Change the state and return the expected answer: bytes, text, an SBE message, or any other value as JSON.

        None is the answer `null`.
        """

    @staticmethod
    def partition(request: Request) -> str:  # noqa: ARG004 - for those who override it
        """The key of the requests that share a state with this one. By default all share one state."""
        return ""

    def agrees(self, request: Request, expected: Any, answer: bytes) -> bool:  # noqa: ARG002 - as above
        """Whether an answer matches the expected one. Override it for a service with several right answers."""
        return says(answer, expected)

    # Hooks for the other entries, called in the order of the log. `timestamp` is the cluster time, in its unit.

    def session_opened(self, session_id: int, timestamp: int) -> None:
        """The log opens a session."""

    def session_closed(self, session_id: int, timestamp: int) -> None:
        """The log closes a session."""

    def timer_fired(self, timer_id: int, timestamp: int) -> None:
        """A timer of the service fires."""

    def service_message(self, payload: bytes, timestamp: int) -> None:
        """A message that the service sent to itself (`cluster.offer`) arrives."""

    def term_began(self, term_id: int, timestamp: int) -> None:
        """A leadership term begins."""

    def time_passed(self, timestamp: int) -> None:
        """The cluster time advances to `timestamp`, before the entry with that time."""


class OwnRun:
    """What a promise can look at: the requests in the order of the log, and the states that result."""

    def __init__(self, requests: Iterable[Request], states: Callable[[], Iterator[tuple[Request, Any]]]) -> None:
        self._requests = requests
        self._states = states
        self.position: int | None = None
        """Of the request that was given last."""

    def requests(self) -> Iterator[Request]:
        """The requests of the committed log, with the answers that clients received."""
        for request in self._requests:
            self.position = request.position
            yield request

    def states(self) -> Iterator[tuple[Request, Any]]:
        """Each request with the service after it. The service is one instance that reads the log; do not change it."""
        for request, service in self._states():
            self.position = request.position
            yield request, service


def promise(sentence: str) -> Callable[[PlainPromise], PlainPromise]:
    """Register a function of an `OwnRun` as a promise with that sentence.

    The promise is broken when the function raises `AssertionError` or returns False.
    """

    def register(function: PlainPromise) -> PlainPromise:
        known = PROMISES.get(sentence, function)
        # A module that is imported again, or by another name, registers the same promises.
        if _place(known) != _place(function) and _lines(known) != _lines(function):
            raise ValueError(f"duplicate promise {sentence!r}: {_place(known)} and {_place(function)}")
        PROMISES[sentence] = function
        return function

    if callable(sentence):
        raise TypeError('expected the sentence of a promise, as in @promise("money is conserved")')
    return register


def says(answer: bytes, expected: Any) -> bool:
    """Whether an answer equals these bytes, this text, or this value as JSON, where 1 and true differ.

    Raises `ValueError` for an integer of more than 4300 digits.
    """
    if isinstance(expected, SbeMessage):
        expected = expected.encode()
    if isinstance(expected, bytes | bytearray | memoryview):
        return answer == bytes(expected)
    try:
        if isinstance(expected, str) and answer == expected.encode("utf-8"):
            return True
        value = json.loads(answer)
    except (json.JSONDecodeError, UnicodeError):
        return False
    return _canonical(value) == _canonical(expected)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _place(function: PlainPromise) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"


def _lines(function: PlainPromise) -> object:
    """The file and line of its definition, or the object itself without one."""
    code = getattr(function, "__code__", None)
    return function if code is None else (code.co_filename, code.co_firstlineno)
