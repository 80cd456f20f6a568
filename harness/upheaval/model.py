"""What a user says of a service of his own: what it should answer, and what must hold over its log and its states.

A model is a sequential specification, as for Porcupine or Knossos: one copy that nothing can go wrong with. A promise
is a function that asserts something of a whole run. Both are judged by `upheaval.checkers.own.own_model`, in a process
of their own.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from upheaval_node.sbe import SbeMessage

PlainPromise = Callable[["OwnRun"], object]

PROMISES: Final[dict[str, PlainPromise]] = {}
"""Those of the modules that were imported, by their sentences."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a client to the service, as the log has it.

    For a test of a model its payload is enough.
    """

    payload: bytes
    position: int = -1
    """The end of its message in the log."""
    session_id: int = -1
    timestamp: int = -1
    """The cluster's time at the request."""
    answer: bytes | None = None
    """What the client received, for promises. None if it received nothing, and in a model, which computes it."""

    @property
    def text(self) -> str:
        """The payload as UTF-8. Raises `UnicodeDecodeError`."""
        return self.payload.decode("utf-8")

    def json(self) -> Any:
        """The payload as JSON. Raises `ValueError`."""
        return json.loads(self.payload)


class Model(ABC):
    """What one copy of the service would answer, one request after the other. Its attributes are its state.

    An instance is made without arguments, for each key of `partition`, and gets all requests of that key in one order.
    """

    @abstractmethod
    def apply(self, request: Request) -> Any:
        """Change the state, and return what the answer must be: bytes, text, an SBE message, or anything else as JSON.

        None is the answer `null`.
        """

    @staticmethod
    def partition(request: Request) -> str:  # noqa: ARG004 - for those who override it
        """The key of the requests that share a state with this one; by default there is one state."""
        return ""

    def agrees(self, request: Request, expected: Any, answer: bytes) -> bool:  # noqa: ARG002 - as above
        """Whether an answer is the expected one, for services that may answer in several ways."""
        return says(answer, expected)

    # What else the log has, called in its order. `timestamp` is the cluster's time, in its time unit.

    def session_opened(self, session_id: int, timestamp: int) -> None:
        """The log opens a session here."""

    def session_closed(self, session_id: int, timestamp: int) -> None:
        """The log closes a session here."""

    def timer_fired(self, timer_id: int, timestamp: int) -> None:
        """The log has a timer of the service here."""

    def service_message(self, payload: bytes, timestamp: int) -> None:
        """The log has a message here that the service sent to itself (`cluster.offer`)."""

    def term_began(self, term_id: int, timestamp: int) -> None:
        """A leadership term begins here."""

    def time_passed(self, timestamp: int) -> None:
        """The cluster's time goes on to `timestamp`, before the entry that has it."""


class OwnRun:
    """What a promise is about: the requests in the order of the log, and the states that they lead to."""

    def __init__(self, requests: Iterable[Request], states: Callable[[], Iterator[tuple[Request, Any]]]) -> None:
        self._requests = requests
        self._states = states
        self.position: int | None = None
        """Of the request that was given last."""

    def requests(self) -> Iterator[Request]:
        """Those in the committed log, with the answers that clients got."""
        for request in self._requests:
            self.position = request.position
            yield request

    def states(self) -> Iterator[tuple[Request, Any]]:
        """Each request and the service after it: one instance, which reads the log and must not be changed."""
        for request, service in self._states():
            self.position = request.position
            yield request, service


def promise(sentence: str) -> Callable[[PlainPromise], PlainPromise]:
    """Register a function of an `OwnRun` as a promise with that sentence.

    It is broken when the function raises `AssertionError` or returns False.
    """

    def register(function: PlainPromise) -> PlainPromise:
        known = PROMISES.get(sentence, function)
        # A module that is imported anew, or by another name, brings the same ones.
        if _place(known) != _place(function) and _lines(known) != _lines(function):
            raise ValueError(f"duplicate promise {sentence!r}: {_place(known)} and {_place(function)}")
        PROMISES[sentence] = function
        return function

    if callable(sentence):
        raise TypeError('expected the sentence of a promise, as in @promise("money is conserved")')
    return register


def says(answer: bytes, expected: Any) -> bool:
    """Whether an answer is these bytes, this text, or else this value as JSON, in which 1 and true differ."""
    if isinstance(expected, SbeMessage):
        expected = expected.encode()
    if isinstance(expected, bytes | bytearray | memoryview):
        return answer == bytes(expected)
    try:
        if isinstance(expected, str) and answer == expected.encode("utf-8"):
            return True
        return _canonical(json.loads(answer)) == _canonical(expected)
    except ValueError:
        return False


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _place(function: PlainPromise) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', function)}"


def _lines(function: PlainPromise) -> object:
    """The file and the line at which it begins; itself where it has none."""
    code = getattr(function, "__code__", None)
    return function if code is None else (code.co_filename, code.co_firstlineno)
