"""Clients that use the cluster in ways in which a load does not, each again and again.

A load keeps its sessions busy for a whole run and knows all members. These clients are idle in a session, close it with
requests in flight, or know a single member, which has to redirect them to the leader. Sans-IO.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle
from typing import Final, Protocol

from upheaval.records import (
    ConnectAnswer,
    ConnectAttempt,
    Function,
    Operation,
    Outcome,
    SessionCause,
    SessionEnd,
    encode_operation,
)
from upheaval.workload.load import LEDGER_SERVICE, TIMERS_SERVICE, WORKBENCH_SERVICE, session_end
from upheaval.workload.sessions import Session
from upheaval_node.bell import Bell
from upheaval_node.client.connect import AuthenticationError
from upheaval_node.ports import Agent
from upheaval_node.types import MS, NEVER_NS, NULL_VALUE, Now, S

FIRST_ID: Final = 1 << 59
"""Their operation ids and processes are above those of all loads."""
PAUSE_NS: Final = 1500 * MS
"""The time between two sessions of a client."""
REQUESTS: Final = 3
ANSWER_NS: Final = 2 * S
"""How long a client that knows one member waits for a session."""
READS: Final = {
    WORKBENCH_SERVICE: (Function.ECHO, "in flight"),
    LEDGER_SERVICE: (Function.BALANCES, ""),
    TIMERS_SERVICE: (Function.FIRED, "t0"),
}
"""A request of each service that changes nothing, and its key."""


class OtherClient(StrEnum):
    """The kinds of such clients."""

    IDLE = "idle"
    """Sends nothing but keep-alives, for longer than a session lasts without them."""
    HASTY = "hasty"
    """Closes its session right after its requests, before it has an answer."""
    ONE_ENDPOINT = "one-endpoint"
    """Knows the endpoint of one member, another one for each session."""


class TimedSession(Session, Protocol):
    """A session that knows when its connection last took a message."""

    sent_ns: int


@dataclass(frozen=True, slots=True)
class Records:
    """Where these clients record what happens. `clock_ns` is the monotonic clock of the host."""

    operation: Callable[[Operation], None]
    end: Callable[[SessionEnd], None]
    attempt: Callable[[ConnectAttempt], None]
    clock_ns: Callable[[], int]


class _Client(ABC):
    """One session after the other."""

    def __init__(self, open_session: Callable[[], TimedSession], records: Records) -> None:
        self.session: TimedSession | None = None
        self.records = records
        self.begin_ns = 0
        self.retry_ns = 0
        self.sessions = 0
        """How many of its sessions have ended."""
        self._open_session = open_session

    def do_work(self, now: Now, *, may_open: bool) -> int:
        if self.session is None:
            if now.ns < self.retry_ns or not may_open:
                return 0
            self.session, self.begin_ns = self._open_session(), now.ns
        session = self.session
        work = session.do_work(now) + session.poll(lambda _, __: None)
        if not session.is_closed and session.is_connected:
            work += self._use(session, now)
        if not session.is_closed:
            return work
        self._end(session, now)
        self.session, self.retry_ns = None, now.ns + PAUSE_NS
        return work + 1

    def next_deadline_ns(self) -> int:
        return self.retry_ns if self.session is None else self.session.next_deadline_ns()

    def open_end(self, cause: SessionCause) -> SessionEnd | None:
        """The record of its session, if it has one."""
        if self.session is None:
            return None
        end = session_end(self.session, self.records.clock_ns(), cause)
        return None if end is None else replace(end, sent_ns=self.session.sent_ns)

    @abstractmethod
    def _use(self, session: TimedSession, now: Now) -> int:
        """Use the open session; close it when it is no longer needed."""

    def _end(self, session: TimedSession, now: Now) -> None:  # noqa: ARG002 - of all kinds
        end = self.open_end(SessionCause.CLIENT)
        if end is not None:
            self.sessions += 1
            self.records.end(end)


class _Idle(_Client):
    def __init__(self, open_session: Callable[[], TimedSession], records: Records, idle_ns: int) -> None:
        super().__init__(open_session, records)
        self._idle_ns = idle_ns

    def keep(self) -> None:
        """Keep the present session."""
        self._idle_ns = NEVER_NS

    def _use(self, session: TimedSession, now: Now) -> int:
        if now.ns < self.begin_ns + self._idle_ns:
            return 0
        session.close()
        return 1

    def next_deadline_ns(self) -> int:
        deadline_ns = super().next_deadline_ns()
        return deadline_ns if self.session is None else min(deadline_ns, self.begin_ns + self._idle_ns)


class _Hasty(_Client):
    def __init__(self, open_session: Callable[[], TimedSession], records: Records, service: str, first_id: int) -> None:
        super().__init__(open_session, records)
        self._function, self._key = READS[service]
        self._next_id = first_id
        self._sent: list[Operation] = []

    def _use(self, session: TimedSession, now: Now) -> int:  # noqa: ARG002 - of all kinds
        while len(self._sent) < REQUESTS:
            operation_id, invoke_ns = self._next_id, self.records.clock_ns()
            if session.offer(encode_operation(operation_id, self._function, self._key, None)) <= 0:
                return 0
            self._next_id += 1
            self._sent.append(
                Operation(
                    id=operation_id,
                    process=operation_id,
                    f=self._function,
                    key=self._key,
                    value=None,
                    invoke_ns=invoke_ns,
                    complete_ns=None,
                    outcome=Outcome.UNKNOWN,
                    result=None,
                    position=None,
                    session=session.session_id,
                )
            )
        session.close()
        return 1

    def _end(self, session: TimedSession, now: Now) -> None:
        super()._end(session, now)
        for operation in self._sent:
            self.records.operation(operation)
        self._sent.clear()


class _OneEndpoint(_Client):
    def __init__(
        self, open_session: Callable[[int], TimedSession], records: Records, member_ids: Sequence[int]
    ) -> None:
        self._members = cycle(member_ids)
        self._member = -1

        def open_at_next() -> TimedSession:
            self._member = next(self._members)
            return open_session(self._member)

        super().__init__(open_at_next, records)

    def _use(self, session: TimedSession, now: Now) -> int:  # noqa: ARG002 - of all kinds
        session.close()
        return 1

    def _end(self, session: TimedSession, now: Now) -> None:
        super()._end(session, now)
        if session.session_id != NULL_VALUE:
            answer = ConnectAnswer.ADMITTED
        else:
            is_refused = isinstance(session.error, AuthenticationError)
            answer = ConnectAnswer.REFUSED if is_refused else ConnectAnswer.NONE
        self.records.attempt(ConnectAttempt(None, answer, now.ns, self.begin_ns, self._member))


class OtherClients(Agent):
    """Clients of the given kinds as one agent.

    `open_session` makes a session that knows all members, `open_at` one that knows that member. An idle client is idle
    for `idle_ns` nanoseconds.
    """

    def __init__(
        self,
        kinds: Sequence[OtherClient],
        *,
        open_session: Callable[[], TimedSession],
        open_at: Callable[[int], TimedSession],
        records: Records,
        service: str,
        member_ids: Sequence[int],
        idle_ns: int,
        first_id: int = 0,
    ) -> None:
        self.bell: Bell | None = None
        self._is_over = False
        self._now_ns = 0
        self._clients: list[_Client] = []
        if OtherClient.IDLE in kinds:
            self._clients.append(_Idle(open_session, records, idle_ns))
        if OtherClient.HASTY in kinds:
            self._clients.append(_Hasty(open_session, records, service, first_id + FIRST_ID))
        if OtherClient.ONE_ENDPOINT in kinds:
            self._clients.append(_OneEndpoint(open_at, records, member_ids))

    @property
    def sessions(self) -> int:
        """How many sessions they have opened."""
        return sum(client.sessions for client in self._clients) + sum(1 for _ in self.open_sessions())

    @property
    def is_idle(self) -> bool:
        """Whether no client but an idle one has a session, or had one just now."""
        return all(
            isinstance(client, _Idle) or (client.session is None and client.retry_ns <= self._now_ns)
            for client in self._clients
        )

    def stop(self) -> None:
        """Open no more sessions. An idle client keeps its session."""
        self._is_over = True
        for client in self._clients:
            if isinstance(client, _Idle):
                client.keep()

    def do_work(self, now: Now) -> int:
        """Open due sessions, use them, and close them."""
        self._now_ns = now.ns
        return sum(client.do_work(now, may_open=not self._is_over) for client in self._clients)

    def next_deadline_ns(self) -> int:
        """The deadline of a session, or of the next one."""
        return min(client.next_deadline_ns() for client in self._clients)

    def open_sessions(self) -> Iterator[SessionEnd]:
        """The records of the sessions that are still open."""
        for client in self._clients:
            end = client.open_end(SessionCause.OPEN)
            if end is not None:
                yield end
