"""A client that executes commands one at a time: open a session, send one request, close.

The history has its operations like those of a load. This module does not know who gives the commands.
"""

from collections.abc import Callable, Iterator
from itertools import count

from upheaval.records import (
    Function,
    Json,
    Operation,
    Outcome,
    SessionCause,
    SessionEnd,
    Stray,
    decode_result,
    encode_operation,
)
from upheaval.workload import session_end
from upheaval_node.client.session import ClusterClient
from upheaval_node.errors import DecodeError
from upheaval_node.ports import Buffer
from upheaval_node.types import NEVER_NS, Now


class SingleClient:
    """One session and one request at a time. Implements `ports.Agent`; use it only from its own loop."""

    def __init__(
        self,
        open_session: Callable[[], ClusterClient],
        record: Callable[[Operation], None],
        record_end: Callable[[SessionEnd], None],
        record_stray: Callable[[Stray], None],
        clock_ns: Callable[[], int],
    ) -> None:
        self._open_session = open_session
        self._record = record
        self._record_end = record_end
        self._record_stray = record_stray
        self._clock_ns = clock_ns
        self._session: ClusterClient | None = None
        self._ids = count()
        self._wanted: tuple[int, str, int] | None = None
        self._is_sent = False

    @property
    def is_connected(self) -> bool:
        """Whether it has a session that takes requests."""
        return self._session is not None and self._session.is_connected

    @property
    def is_idle(self) -> bool:
        """Whether no request is outstanding."""
        return self._wanted is None

    def open(self) -> None:
        """Begin to open a session, after closing the previous one."""
        self.close()
        self._session = self._open_session()

    def request(self, value: str) -> None:
        """Request the echo of a text."""
        self._wanted = (next(self._ids), value, self._clock_ns())
        self._is_sent = False

    def close(self) -> None:
        """Close the session, if it has one."""
        if self._session is not None:
            self._session.close()
            end = session_end(self._session, self._clock_ns())
            if end is not None:
                self._record_end(end)
            self._session = None

    def open_sessions(self) -> Iterator[SessionEnd]:
        """The records of a session that is still open when the run is written."""
        if self._session is not None:
            end = session_end(self._session, self._clock_ns(), SessionCause.OPEN)
            if end is not None:
                yield end

    @staticmethod
    def request_length(value: str) -> int:
        """The length of the request's payload."""
        return len(encode_operation(0, Function.ECHO, "", value))

    def do_work(self, now: Now) -> int:
        """Send the wanted request, once, and receive its answer."""
        session = self._session
        if session is None:
            return 0
        work = session.do_work(now) + session.poll(lambda _, payload: self._on_response(payload))
        if self._wanted is not None and not self._is_sent and session.is_connected:
            number, value, _ = self._wanted
            self._is_sent = session.offer(encode_operation(number, Function.ECHO, "", value)) > 0
            work += self._is_sent
        return work

    def next_deadline_ns(self) -> int:
        """The deadline of the session; never without a session."""
        return NEVER_NS if self._session is None else self._session.next_deadline_ns()

    def _on_response(self, payload: Buffer) -> None:
        assert self._session is not None
        session = self._session.session_id
        try:
            number, position, result, error = decode_result(payload)
        except DecodeError:
            self._record_stray(Stray(session, self._clock_ns()))
            return
        if self._wanted is None or self._wanted[0] != number:
            self._record_stray(Stray(session, self._clock_ns(), number, position))
            return
        _, value, invoke_ns = self._wanted
        self._wanted = None
        settled: Json = {"error": error} if error else result
        times = (invoke_ns, self._clock_ns())
        self._record(Operation(number, 0, Function.ECHO, "", value, *times, Outcome.OK, settled, position, session))
