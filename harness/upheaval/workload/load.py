"""Seeded load on the shipped services: the operations, and the client slots that send them.

A slot is a `process` of the history. It has one operation in flight, never repeats one, and gets a new id after an
unknown outcome. Sans-IO: the same load runs on real sockets and in the simulation. This module knows client sessions
only by the interface `Session`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final, Protocol

from upheaval.errors import UsageError
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
from upheaval.workload.draws import LedgerDraw, TimersDraw
from upheaval.workload.sessions import Session, SessionThatGivesBack
from upheaval_node.bell import Bell
from upheaval_node.errors import DecodeError, TimeoutExpired
from upheaval_node.ports import Agent, Buffer
from upheaval_node.types import MS, NEVER_NS, NULL_VALUE, Now, S

# Operation ids of one load stay below this; the next load of a run starts above it.
IDS_A_LOAD: Final = 1 << 40
# A read returns a whole list, so a new list starts before reads grow slow.
APPENDS_A_LIST: Final = 200
RECONNECT_DELAY_NS: Final = 100 * MS
# Fragments that one session delivers in one duty cycle, so that none starves the others.
POLL_LIMIT: Final = 100

WORKBENCH_SERVICE: Final = "workbench"
LEDGER_SERVICE: Final = "ledger"
TIMERS_SERVICE: Final = "timers"
SERVICES: Final = (WORKBENCH_SERVICE, LEDGER_SERVICE, TIMERS_SERVICE)
"""The shipped services that a load can drive."""
SILENT_SERVICES: Final = ("tally",)
"""The services that answer no client, and so run beside another one."""

MIX: Final[tuple[tuple[Function, int], ...]] = (
    (Function.READ, 25),
    (Function.WRITE, 25),
    (Function.CAS, 20),
    (Function.APPEND, 20),
    (Function.LIST, 5),
    (Function.ECHO, 5),
)


def session_end(
    session: Session, ended_ns: int, cause: SessionCause = SessionCause.CLIENT, held_ns: int | None = None
) -> SessionEnd | None:
    """The record of a session that has ended; None for one that never opened.

    The reason that the session knows takes precedence over `cause`.
    """
    if session.session_id == NULL_VALUE:
        return None
    if session.error is not None:
        cause = SessionCause.LOST if isinstance(session.error, TimeoutExpired) else SessionCause.CLUSTER
    return SessionEnd(
        session.session_id,
        session.opened_term_id,
        ended_ns,
        cause,
        session.leadership_term_id,
        held_ns,
        followed_member_id=None if session.leader_member_id == NULL_VALUE else session.leader_member_id,
    )


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """The parameters of a load. Slots are spread over the sessions; `rate` is operations a second, 0 for no limit."""

    seed: int = 1
    keys: int = 8
    sessions: int = 2
    slots: int = 32
    rate: int = 0
    operation_timeout_ns: int = 5 * S
    service: str = WORKBENCH_SERVICE
    """The shipped service: workbench, ledger or timers."""
    text_length: int = 0
    """The least length of the texts that the workbench returns, in characters."""
    silent: int = 0
    """How many additional clients fall silent after their first answer."""
    silent_every_ns: int = 6 * S
    """The interval between the starts of two of them."""
    user: str = ""
    """`module:Class` of the users of a custom service, one for each slot; empty for a drawn load."""

    def to_json(self) -> dict[str, Json]:
        """The manifest's field `workload`."""
        fields: dict[str, Json] = {"seed": self.seed, "keys": self.keys, "sessions": self.sessions}
        silent: dict[str, Json] = {"silent": self.silent} if self.silent else {}
        user: dict[str, Json] = {"user": self.user} if self.user else {}
        return {**fields, "slots": self.slots, "rate": self.rate, **silent, **user}


class Draw(Protocol):
    """An endless seeded sequence of operations, each with its id."""

    def next(self, operation_id: int) -> tuple[Function, str, Json]:
        """The next operation: function, key and value."""


def make_draw(settings: WorkloadSettings) -> Draw:
    """The sequence for a service. Raises `UsageError` for a service without one."""
    if settings.service == LEDGER_SERVICE:
        return LedgerDraw(settings.seed, settings.keys)
    if settings.service == TIMERS_SERVICE:
        return TimersDraw(settings.seed)
    if settings.service != WORKBENCH_SERVICE:
        known = ", ".join(SERVICES)
        raise UsageError(f"the workload drives {known}: for service {settings.service} use clients of your own")
    return OperationDraw(settings)


class OperationDraw:
    """Operations for the workbench. Every value that is written or appended is unique."""

    def __init__(self, settings: WorkloadSettings) -> None:
        self._random = Random(f"workload/{settings.seed}")
        self._keys = settings.keys
        self._text_length = settings.text_length
        self._functions = [function for function, _ in MIX]
        self._weights = [weight for _, weight in MIX]
        self._values = count(1)
        self._last_written: dict[str, int] = {}
        self._appended: dict[str, int] = {}

    def next(self, operation_id: int = 0) -> tuple[Function, str, Json]:  # noqa: ARG002 - of every draw
        """The next operation, by the weights of MIX."""
        function = self._random.choices(self._functions, self._weights)[0]
        index = self._random.randrange(self._keys)
        if function in (Function.APPEND, Function.LIST):
            return self._draw_list(function, index)
        key = f"r{index}"
        if function is Function.WRITE:
            value = self._last_written[key] = next(self._values)
            return function, key, value
        if function is Function.CAS:
            # Half of the compare-and-sets expect the last written value, so that some succeed and some fail.
            expected = self._last_written.get(key) if self._random.random() < 0.5 else next(self._values)
            new = self._last_written[key] = next(self._values)
            return function, key, [expected, new]
        if function is Function.ECHO:
            return function, "", f"echo {next(self._values)}".ljust(self._text_length, ".")
        return function, key, None

    def _draw_list(self, function: Function, index: int) -> tuple[Function, str, Json]:
        appended = self._appended.get(f"{index}", 0)
        key = f"l{index}.{appended // APPENDS_A_LIST}"
        if function is Function.LIST:
            return function, key, None
        self._appended[f"{index}"] = appended + 1
        return function, key, next(self._values)


@dataclass(slots=True)
class _Slot:
    process: int
    operation: "_Pending | None" = None


@dataclass(slots=True)
class _Pending:
    """An operation in flight. `sent_term` and `session` are None until a session takes it."""

    id: int
    f: Function
    key: str
    value: Json
    payload: bytes
    invoke_ns: int
    slot: _Slot
    sent_term: int | None = None
    session: int | None = None
    offered: int = 0
    """The result of `offer`."""


@dataclass(slots=True)
class _Lane:
    """One session and its slots. `giver` is the session if it gives messages back."""

    slots: list[_Slot]
    session: Session | None = None
    giver: SessionThatGivesBack | None = None
    retry_ns: int = 0
    free: deque[_Slot] = field(default_factory=deque)
    unsent: deque[_Pending] = field(default_factory=deque)
    outstanding: dict[int, _Pending] = field(default_factory=dict)
    term: int = -1
    falls_silent: bool = False
    """Whether its client falls silent after its first answer and keeps its connection open."""
    silent_ns: int | None = None
    """When it fell silent."""


@dataclass(slots=True)
class LoadCounts:
    """The outcomes of a load's operations: ok, certainly without effect, unknown."""

    ok: int = 0
    fail: int = 0
    unknown: int = 0

    @property
    def total(self) -> int:
        """How many operations are settled."""
        return self.ok + self.fail + self.unknown

    def add(self, outcome: Outcome) -> None:
        """Count one more settled operation."""
        match outcome:
            case Outcome.OK:
                self.ok += 1
            case Outcome.FAIL:
                self.fail += 1
            case Outcome.UNKNOWN:
                self.unknown += 1


class ClientLoad(Agent, Protocol):
    """A load as one agent in the process of its clients, whatever the source of its operations."""

    bell: Bell | None
    counts: LoadCounts

    @property
    def is_idle(self) -> bool:
        """No operation is in flight."""

    @property
    def raised(self) -> Sequence[str]:
        """The errors of the users' code with their places, each distinct text once."""

    def stop(self) -> None:
        """Start no more operations. Those in flight still settle."""

    def open_sessions(self) -> Iterable[SessionEnd]:
        """The records of the sessions that are still open."""

    def close(self) -> None:
        """Settle operations in flight as unknown and close the sessions."""


class LoadMaker(Protocol):
    """Makes a load. `Load` describes the arguments."""

    def __call__(
        self,
        settings: WorkloadSettings,
        *,
        open_session: Callable[[], Session],
        record: Callable[[Operation], None],
        record_end: Callable[[SessionEnd], None],
        record_stray: Callable[[Stray], None],
        clock_ns: Callable[[], int],
        first_id: int = 0,
        first_process: int = 0,
    ) -> ClientLoad:
        """Raises `UsageError` for settings that it cannot use."""


class Load:
    """The client slots as one agent. Implements `ClientLoad`.

    `open_session` makes a session. `record` takes each settled operation, `record_end` each session that ended, and
    `record_stray` each answer that no operation waits for. `clock_ns` is the monotonic clock of the host, read right
    before the first offer and right after a response is decoded.
    """

    def __init__(
        self,
        settings: WorkloadSettings,
        *,
        open_session: Callable[[], Session],
        record: Callable[[Operation], None],
        record_end: Callable[[SessionEnd], None],
        record_stray: Callable[[Stray], None],
        clock_ns: Callable[[], int],
        first_id: int = 0,
        first_process: int = 0,
    ) -> None:
        self.bell: Bell | None = None
        self.raised: Sequence[str] = ()
        self.counts = LoadCounts()
        self._settings = settings
        self._open_session = open_session
        self._record = record
        self._record_end = record_end
        self._record_stray = record_stray
        self._clock_ns = clock_ns
        self._draw = make_draw(settings)
        self._ids = count(first_id)
        self._processes = count(first_process)
        self._lanes = list(self._make_lanes())
        self._is_issuing = True
        self._has_begun = False
        self._tokens = 0.0
        self._tokens_ns: int | None = None

    @property
    def is_idle(self) -> bool:
        """No operation is in flight."""
        return not any(lane.outstanding or lane.unsent for lane in self._lanes)

    def stop(self) -> None:
        """Start no more operations. Those in flight still settle."""
        self._is_issuing = False

    def do_work(self, now: Now) -> int:
        """Start due operations, take answers, and settle those that have timed out."""
        self._refill(now.ns)
        if not self._has_begun:
            self._has_begun = True
            for index, lane in enumerate(lane for lane in self._lanes if lane.falls_silent):
                lane.retry_ns = now.ns + index * self._settings.silent_every_ns
        return sum(self._work_on(lane, now) for lane in self._lanes if lane.silent_ns is None)

    def next_deadline_ns(self) -> int:
        """The earliest of: the next operation, a retry, a time-out of a session or an operation."""
        deadline = NEVER_NS
        for lane in self._lanes:
            if lane.silent_ns is not None or (lane.session is None and not self._may_open(lane)):
                continue
            if lane.session is None:
                deadline = min(deadline, lane.retry_ns)
                continue
            deadline = min(deadline, lane.session.next_deadline_ns())
            if lane.outstanding:
                oldest = next(iter(lane.outstanding.values()))
                deadline = min(deadline, oldest.invoke_ns + self._settings.operation_timeout_ns)
            if lane.free and self._is_issuing and self._settings.rate and self._tokens_ns is not None:
                # With a token it waits for its session and looks again after a while.
                missing = 1.0 - self._tokens if self._tokens < 1 else 1.0
                deadline = min(deadline, self._tokens_ns + int(missing * S / self._settings.rate) + 1)
        return deadline

    def close(self) -> None:
        """Settle operations in flight as unknown and close the sessions."""
        self._is_issuing = False
        for lane in self._lanes:
            self._give_up(lane, lambda _: True)
            if lane.session is not None:
                if lane.silent_ns is None:
                    lane.session.close()
                self._end_session(lane)
                lane.retry_ns = NEVER_NS

    def open_sessions(self) -> Iterator[SessionEnd]:
        """The records of the sessions that are still open."""
        for lane in self._lanes:
            end = self._end_of(lane, SessionCause.OPEN)
            if end is not None:
                yield end

    # --- one session ---

    def _make_lanes(self) -> Iterator[_Lane]:
        sessions = max(1, min(self._settings.sessions, self._settings.slots))
        for index in range(sessions):
            slots = [_Slot(next(self._processes)) for _ in range(index, self._settings.slots, sessions)]
            yield _Lane(slots, free=deque(slots))
        for _ in range(self._settings.silent):
            slots = [_Slot(next(self._processes))]
            yield _Lane(slots, free=deque(slots), falls_silent=True)

    def _may_open(self, lane: _Lane) -> bool:
        """A client that would only fall silent need not start when the load ends."""
        return self._is_issuing or not lane.falls_silent

    def _work_on(self, lane: _Lane, now: Now) -> int:
        if lane.session is None:
            if now.ns < lane.retry_ns or not self._may_open(lane):
                return 0
            lane.session = self._open_session()
            lane.giver = lane.session if isinstance(lane.session, SessionThatGivesBack) else None
            # A session that gives messages back stays alive while its client is silent: that client counts as ordinary.
            lane.falls_silent &= lane.giver is None
        session = lane.session
        work = session.do_work(now)
        work += session.poll(lambda _, payload: self._on_response(lane, payload), POLL_LIMIT)
        if lane.giver is not None:
            work += self._take_back(lane, lane.giver.given_back())
        if lane.silent_ns is not None:
            return work
        if session.is_closed:
            self._give_up(lane, lambda _: True)
            self._end_session(lane)
            lane.retry_ns = now.ns + RECONNECT_DELAY_NS
            return work + 1
        if session.leadership_term_id != lane.term:
            # A deposed leader answers no more. The log may or may not have what it received.
            lane.term = session.leadership_term_id
            work += self._give_up(lane, lambda pending: pending.sent_term not in (None, lane.term))
        if lane.outstanding:
            expired_ns = now.ns - self._settings.operation_timeout_ns
            oldest = next(iter(lane.outstanding.values()))
            if oldest.invoke_ns <= expired_ns:
                work += self._give_up(lane, lambda pending: pending.invoke_ns <= expired_ns)
        if session.is_connected:
            work += self._issue(lane, session)
        return work

    def _end_session(self, lane: _Lane) -> None:
        end = self._end_of(lane)
        lane.session = None
        if end is not None:
            self._record_end(end)

    def _end_of(self, lane: _Lane, cause: SessionCause = SessionCause.CLIENT) -> SessionEnd | None:
        """The record of its session, if any. For a silent client the record shows its silence."""
        if lane.session is None:
            return None
        now_ns = self._clock_ns()
        if lane.silent_ns is not None:
            return session_end(lane.session, lane.silent_ns, SessionCause.SILENT, now_ns)
        return session_end(lane.session, now_ns, cause)

    def _issue(self, lane: _Lane, session: Session) -> int:
        """Offer what waits, then new operations for free slots."""
        work = 0
        while lane.unsent or (lane.free and self._is_issuing and (lane.falls_silent or self._may_invoke())):
            if not lane.unsent:
                if self._settings.rate and not lane.falls_silent:
                    self._tokens -= 1
                lane.unsent.append(self._invoke(lane.free.popleft()))
            pending = lane.unsent[0]
            pending.offered = session.offer(pending.payload)
            if pending.offered <= 0:
                break
            lane.unsent.popleft()
            pending.sent_term = session.leadership_term_id
            pending.session = session.session_id
            lane.outstanding[pending.id] = pending
            work += 1
        return work

    def _invoke(self, slot: _Slot) -> _Pending:
        operation_id = next(self._ids)
        function, key, value = self._draw.next(operation_id)
        payload = encode_operation(operation_id, function, key, value)
        return _Pending(operation_id, function, key, value, payload, self._clock_ns(), slot)

    def _on_response(self, lane: _Lane, payload: Buffer) -> None:
        try:
            operation_id, position, result, error = decode_result(payload)
        except DecodeError:
            self._on_stray(lane)
            return
        complete_ns = self._clock_ns()
        pending = lane.outstanding.pop(operation_id, None)
        if pending is None:
            # Usually too late: it was settled as unknown, and its slot has a new id.
            self._on_stray(lane, operation_id, position)
            return
        self._settle(pending, Outcome.OK, {"error": error} if error else result, complete_ns, position)
        lane.free.append(pending.slot)
        if lane.falls_silent:
            lane.silent_ns = complete_ns

    def _on_stray(self, lane: _Lane, operation_id: int | None = None, position: int | None = None) -> None:
        assert lane.session is not None
        self._record_stray(Stray(lane.session.session_id, self._clock_ns(), operation_id, position))

    def _give_up(self, lane: _Lane, wanted: Callable[[_Pending], bool]) -> int:
        """Settle the given operations without an answer: unknown if sent, fail if never taken."""
        given_up = [pending for pending in lane.outstanding.values() if wanted(pending)]
        for pending in given_up:
            del lane.outstanding[pending.id]
            self._settle(pending, Outcome.UNKNOWN, None, None, None)
            pending.slot.process = next(self._processes)
            lane.free.append(pending.slot)
        never_sent = [pending for pending in lane.unsent if wanted(pending)]
        for pending in never_sent:
            lane.unsent.remove(pending)
            self._settle(pending, Outcome.FAIL, None, None, None)
            lane.free.append(pending.slot)
        return len(given_up) + len(never_sent)

    def _take_back(self, lane: _Lane, offered: Sequence[int]) -> int:
        """Settle what its session gives back: no member has it."""
        if not offered:
            return 0
        returned = [pending for pending in lane.outstanding.values() if pending.offered in offered]
        for pending in returned:
            del lane.outstanding[pending.id]
            pending.session = None
            self._settle(pending, Outcome.FAIL, None, None, None)
            lane.free.append(pending.slot)
        return len(returned)

    def _settle(
        self, pending: _Pending, outcome: Outcome, result: Json, complete_ns: int | None, position: int | None
    ) -> None:
        self.counts.add(outcome)
        self._record(
            Operation(
                id=pending.id,
                process=pending.slot.process,
                f=pending.f,
                key=pending.key,
                value=pending.value,
                invoke_ns=pending.invoke_ns,
                complete_ns=complete_ns,
                outcome=outcome,
                result=result,
                position=position,
                session=pending.session,
            )
        )

    # --- rate ---

    def _may_invoke(self) -> bool:
        return not self._settings.rate or self._tokens >= 1

    def _refill(self, now_ns: int) -> None:
        """Add tokens for the time that passed, at most one a slot."""
        if not self._settings.rate:
            return
        if self._tokens_ns is not None:
            self._tokens += (now_ns - self._tokens_ns) * self._settings.rate / S
            self._tokens = min(self._tokens, float(self._settings.slots))
        self._tokens_ns = now_ns
