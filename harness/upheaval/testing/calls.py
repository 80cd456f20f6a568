"""Requests of a test to a service of its own, each written into the history of the run as a call.

Their payloads mean nothing here: the history holds their digests, by which the log is searched. This module knows
neither clusters nor files.
"""

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Self, overload

from upheaval.records import Function, Operation, Outcome, answer_text, call_digest
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.ports import Buffer
from upheaval_node.sbe import SbeMessage
from upheaval_node.sbe.schema import message_type

NAME: Final = "request"


class Client(ABC):
    """A client of the cluster: `request` sends bytes to the service and waits for its answer.

    Each request is a call of the history where there is a log of calls.
    """

    def __init__(self, calls: "CallLog | None") -> None:
        self._calls = calls
        self._slot = -1 if calls is None else calls.new_process()

    @overload
    def request(self, payload: Buffer) -> bytes: ...

    @overload
    def request(self, payload: SbeMessage) -> SbeMessage: ...

    def request(self, payload: Buffer | SbeMessage) -> bytes | SbeMessage:
        """The answer; to a message of an SBE schema it is a message, too.

        Raises `NotSent` when it had no effect for certain, `OutcomeUnknown` when it may have one, now or later, and
        `SbeError` for an answer that is no message of the schema.
        """
        if isinstance(payload, SbeMessage):
            return message_type(payload).schema.decode(self._answer_to(payload.encode()))
        return self._answer_to(bytes(payload))

    def _answer_to(self, payload: bytes) -> bytes:
        self._require_session()
        if self._calls is None:
            return self._ask(payload)
        try:
            with self._calls.call(self._slot, payload, self._session_id) as answers:
                answers.append(self._ask(payload))
                return answers[0]
        except OutcomeUnknown:
            self._slot = self._calls.new_process()
            raise

    def _require_session(self) -> None:
        """What has to be there before a request begins. Raises `NotSent`; nothing is written down then."""

    @abstractmethod
    def close(self) -> None:
        """End its session."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _session_id(self) -> int | None:
        """The cluster session that took the last request; None when none did."""

    @abstractmethod
    def _ask(self, payload: bytes) -> bytes:
        """Send it and wait for the answer."""


class CallLog:
    """All calls of one run. Clients of several threads may share it."""

    def __init__(self, add: Callable[[Operation], None], clock_ns: Callable[[], int], first_id: int = 0) -> None:
        self._add = add
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._ids = itertools.count(first_id)
        self.acknowledged = 0
        self._processes = itertools.count(first_id)

    def new_process(self) -> int:
        """A client slot: one call at a time, and none after one whose outcome is unknown."""
        return next(self._processes)

    @contextmanager
    def call(
        self, process: int, payload: bytes, session_id: Callable[[], int | None] = lambda: None
    ) -> Iterator[list[bytes]]:
        """Around one call, whose answer is put into the list.

        What ends it by anything but an answer or `NotSent` leaves its outcome unknown.
        """
        invoke_ns, outcome = self._clock_ns(), Outcome.UNKNOWN
        answers: list[bytes] = []
        try:
            yield answers
            outcome = Outcome.OK
        except NotSent:
            outcome = Outcome.FAIL
            raise
        finally:
            complete_ns = self._clock_ns() if outcome is Outcome.OK else None
            with self._lock:
                self.acknowledged += outcome is Outcome.OK
                self._add(
                    Operation(
                        id=next(self._ids),
                        process=process,
                        f=Function.CALL,
                        key=NAME,
                        value=call_digest(payload),
                        invoke_ns=invoke_ns,
                        complete_ns=complete_ns,
                        outcome=outcome,
                        result=answer_text(answers[0]) if answers else None,
                        session=None if outcome is Outcome.FAIL else session_id(),
                    )
                )
