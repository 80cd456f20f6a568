"""Which message of a session answers which request: your function, or a rule over the bytes of both.

A service may send a session more than answers. `request` and `call` return the first message that `accepts` takes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from upheaval.errors import UsageError
from upheaval_node.ports import Buffer

_TEMPLATE_ID: Final = slice(2, 4)
"""In a message of SBE: the header is block length, template id, schema id and version, 16 bits each."""

Test = Callable[[Buffer], bool]


@runtime_checkable
class AnswerRule(Protocol):
    """Makes the test for an answer from the request."""

    @property
    def tells_requests_apart(self) -> bool:
        """Whether it rejects the late answer to an earlier request of the session."""

    def test_for(self, request: bytes) -> Test:
        """The test for the answer to this request. Raises `UsageError` for a request that the rule does not fit."""


Accepts = Test | AnswerRule
"""What users pass: a function of the answer alone, or a rule."""


@dataclass(frozen=True, slots=True)
class CorrelationAt:
    """The answer repeats `length` bytes of its request, from `offset` of the request at `answer_offset` (default:
    `offset`).
    """

    offset: int
    answer_offset: int | None = None
    length: int = 8

    def __post_init__(self) -> None:
        if min(self.offset, self.answer_offset or 0) < 0 or self.length < 1:
            raise UsageError(f"{self}: offsets count from 0, and an id has at least one byte")

    @property
    def tells_requests_apart(self) -> bool:
        """True: ids of different requests differ, as far as the user makes them differ."""
        return True

    def test_for(self, request: bytes) -> Test:
        """Raises `UsageError` for a request that is too short for its id."""
        wanted = bytes(request[self.offset : self.offset + self.length])
        if len(wanted) < self.length:
            raise UsageError(f"{self}: the request has only {len(request)} bytes")
        begin = self.offset if self.answer_offset is None else self.answer_offset
        return lambda answer: bytes(answer[begin : begin + self.length]) == wanted


class TemplateId:
    """The answer is an SBE message with one of these template ids and a little-endian SBE header."""

    def __init__(self, *ids: int) -> None:
        if not ids or not all(0 <= number < 1 << 16 for number in ids):
            raise UsageError(f"TemplateId{ids}: expected template ids from 0 to 65535")
        self._ids = frozenset(number.to_bytes(2, "little") for number in ids)

    @property
    def tells_requests_apart(self) -> bool:
        """False: the late answer to an earlier request looks the same."""
        return False

    def test_for(self, request: bytes) -> Test:  # noqa: ARG002 - the same for all
        """One test for all requests."""
        return lambda answer: bytes(answer[_TEMPLATE_ID]) in self._ids


def test_of(accepts: Accepts | None, request: bytes) -> Test | None:
    """The test for the answer to a request; None takes any message. Raises `UsageError` as the rule does."""
    return accepts.test_for(request) if isinstance(accepts, AnswerRule) else accepts


def tells_requests_apart(accepts: Accepts | None) -> bool:
    """Whether a late answer cannot pass for the answer to the next request. A function does not say so."""
    return isinstance(accepts, AnswerRule) and accepts.tells_requests_apart
