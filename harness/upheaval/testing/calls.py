"""Requests of a test to a custom service. The history records each one as a call.

The harness does not interpret the payloads. The history holds their digests, which the judge looks up in the log. This
module knows neither clusters nor files.
"""

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self, overload

from upheaval.accepts import Accepts, Test, test_of
from upheaval.records import Function, Operation, Outcome, Stray, answer_text, call_digest, call_payload, decode_result
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.errors import DecodeError
from upheaval_node.ports import Buffer
from upheaval_node.sbe import SbeMessage
from upheaval_node.sbe.schema import message_type

NAME: Final = "request"
RETRY_WAIT_S: Final = 0.5
"""The wait between two tries of a request. A few of these cover an election."""


@dataclass(slots=True)
class Call:
    """A call in progress. `end` records its outcome."""

    process: int
    payload: bytes
    is_matched: bool
    invoke_ns: int


class Client(ABC):
    """A client of the cluster: `request` sends bytes to the service and waits for the answer.

    The history records each request to a custom service as a call. `accepts` is the default for its requests.
    """

    def __init__(self, calls: "CallLog", accepts: Accepts | None = None) -> None:
        self._calls = calls
        self._accepts = accepts
        self._slot = calls.new_process()
        self._news: list[bytes] = []

    @overload
    def request(
        self, payload: Buffer, accepts: Accepts | None = None, *, retries: int = 0, retry_wait_s: float = RETRY_WAIT_S
    ) -> bytes: ...

    @overload
    def request(
        self,
        payload: SbeMessage,
        accepts: Accepts | None = None,
        *,
        retries: int = 0,
        retry_wait_s: float = RETRY_WAIT_S,
    ) -> SbeMessage: ...

    def request(
        self,
        payload: Buffer | SbeMessage,
        accepts: Accepts | None = None,
        *,
        retries: int = 0,
        retry_wait_s: float = RETRY_WAIT_S,
    ) -> bytes | SbeMessage:
        """Send a request and return its answer: the first message that `accepts` takes, or without one the next
        message.

        The answer to a message of an SBE schema is a message, too. Raises `SbeError` when it does not fit the schema.

        Raises `NotSent` when the request certainly had no effect, and `OutcomeUnknown` when it may have one, now or
        later. With `retries`, either is tried again that many times, after a wait. The history records each try as a
        call of its own, so the service must recognise a request that it already has.
        """
        content = payload.encode() if isinstance(payload, SbeMessage) else call_payload(payload)
        answer = self._answer_to(content, accepts, retries, retry_wait_s)
        return message_type(payload).schema.decode(answer) if isinstance(payload, SbeMessage) else answer

    def _answer_to(self, payload: bytes, accepts: Accepts | None, retries: int, retry_wait_s: float) -> bytes:
        while True:
            try:
                return self._try(payload, accepts)
            except (NotSent, OutcomeUnknown):
                if retries <= 0:
                    raise
            retries -= 1
            self.wait(retry_wait_s)

    def news(self) -> list[bytes]:
        """The messages since the last call of this that answered no request, in the order of arrival."""
        self.wait(0)
        news, self._news = self._news, []
        return news

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Let time pass and receive messages."""

    @abstractmethod
    def close(self) -> None:
        """Close the session."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _try(self, payload: bytes, accepts: Accepts | None) -> bytes:
        """Try a request once. Uses `_call`."""

    @abstractmethod
    def _session_id(self) -> int | None:
        """The cluster session that took the last request, if any."""

    def _test_for(self, payload: bytes, accepts: Accepts | None) -> Test | None:
        """The test for the answer. Raises `UsageError` for a request that the rule does not fit."""
        return test_of(accepts or self._accepts, payload)

    def _begin(self, payload: bytes, test: Test | None) -> Call | None:
        """The call, or None where calls are not recorded."""
        if not self._calls.is_of_own_service:
            return None
        return self._calls.begin(self._slot, payload, is_matched=test is not None)

    def _end(self, call: Call | None, outcome: Outcome, answer: bytes | None = None) -> None:
        """Record the outcome. After an unknown one the client continues as a new process of the history."""
        if call is None:
            if answer is not None:
                self._calls.note_refusal(self._session_id(), answer)
            return
        self._calls.end(call, outcome, answer, None if outcome is Outcome.FAIL else self._session_id())
        if outcome is Outcome.UNKNOWN:
            self._slot = self._calls.new_process()

    @contextmanager
    def _call(self, payload: bytes, test: Test | None) -> Generator[list[bytes]]:
        """Enclose one call, which appends its answer to the list.

        `NotSent` and answers settle it. Any other end leaves its outcome unknown.
        """
        call, outcome = self._begin(payload, test), Outcome.UNKNOWN
        answers: list[bytes] = []
        try:
            yield answers
            outcome = Outcome.OK
        except NotSent:
            outcome = Outcome.FAIL
            raise
        finally:
            self._end(call, outcome, answers[0] if answers else None)

    def _hear(self, payload: Buffer) -> None:
        """Take a message that answers no request."""
        message, session = bytes(payload), self._session_id()
        self._news.append(message)
        if self._calls.is_of_own_service and session is not None:
            self._calls.add_news(session, message)


class CallLog:
    """All calls of one run. Clients in several threads may share it.

    Requests to a shipped service are not calls. Only those that it refuses are recorded.
    """

    def __init__(
        self,
        service: str,
        add: Callable[[Operation], None],
        add_stray: Callable[[Stray], None],
        clock_ns: Callable[[], int],
        first_id: int = 0,
    ) -> None:
        self.is_of_own_service = ":" in service
        self._add = add
        self._add_stray = add_stray
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._ids = itertools.count(first_id)
        self.acknowledged = 0
        self._processes = itertools.count(first_id)

    def new_process(self) -> int:
        """The number of a new process of the history: one call at a time, and none after an unknown outcome."""
        return next(self._processes)

    def begin(self, process: int, payload: bytes, *, is_matched: bool) -> Call:
        """Begin a call that is sent now. `is_matched`: the test can distinguish its answer from other messages."""
        return Call(process, payload, is_matched, self._clock_ns())

    def end(self, call: Call, outcome: Outcome, answer: bytes | None, session: int | None) -> None:
        """Record the outcome of a call."""
        complete_ns = self._clock_ns() if outcome is Outcome.OK else None
        with self._lock:
            self.acknowledged += outcome is Outcome.OK
            self._add(
                Operation(
                    id=next(self._ids),
                    process=call.process,
                    f=Function.CALL,
                    key=NAME,
                    value=call_digest(call.payload),
                    invoke_ns=call.invoke_ns,
                    complete_ns=complete_ns,
                    outcome=outcome,
                    result=None if answer is None else answer_text(answer),
                    session=session,
                    matched=True if call.is_matched and answer is not None else None,
                )
            )

    def add_news(self, session: int, message: bytes) -> None:
        """Record a message that answers no request."""
        with self._lock:
            self._add_stray(Stray(session, self._clock_ns(), text=answer_text(message)))

    def note_refusal(self, session: int | None, answer: bytes) -> None:
        """Record a refusal by a shipped service, if the answer is one."""
        try:
            operation, position, _, refusal = decode_result(answer)
        except DecodeError:
            return
        if refusal and session is not None:
            with self._lock:
                self._add_stray(Stray(session, self._clock_ns(), operation, position, refusal=refusal))
