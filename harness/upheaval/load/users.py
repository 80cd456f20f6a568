"""Locust users of a cluster: a base for custom ones, and one for each shipped service.

Users are open-loop: each operation has an intended start on the user's schedule, and its latency counts from there. So
the latency of an operation that had to wait for a slow one includes that wait. With a `wait_time` of its own a class
has no schedule: its latencies count from the invocations. Each operation is recorded in the history.
"""

import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

from locust import User, task
from locust.exception import StopUser

from upheaval.accepts import Accepts, Test, tells_requests_apart, test_of
from upheaval.load.settings import SHORT_NAMES, LoadSettings
from upheaval.records import (
    Function,
    Json,
    Operation,
    Outcome,
    SessionCause,
    SessionEnd,
    Stray,
    answer_text,
    call_digest,
    call_payload,
    decode_operation,
    decode_result,
    encode_operation,
)
from upheaval.system import KeptSession, WaitingClient, WaitingClients, WayIn, system_named
from upheaval.workload import APPENDS_A_LIST, LedgerDraw, Session, TimersDraw, session_end
from upheaval_node.client.connect import ClusterError
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.client.driving import ClientOptions
from upheaval_node.client.ingress import parse_ingress_endpoints
from upheaval_node.client.operations import is_response_to
from upheaval_node.errors import DecodeError, NodeError, UsageError
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.named_classes import find_named
from upheaval_node.ports import Buffer
from upheaval_node.tls_files import tls_files
from upheaval_node.types import S

KEYS: Final = 8
REQUEST_TYPE: Final = "upheaval"
FRESH_S: Final = 1.0
"""A user looks this often whether its session has ended. With each call this would cost 15 %."""
LAST_WORDS_S: Final = 0.1
"""The wait for an answer too many after the last call, in a load without limit. There each answer may be that to the
call before, and no pause between calls shows it."""


class LoadContext:
    """What the users of a load share: settings, history, clock, and counters for numbers that must be distinct."""

    def __init__(
        self,
        settings: LoadSettings,
        add: Callable[[Operation], None],
        add_end: Callable[[SessionEnd], None],
        add_stray: Callable[[Stray], None],
    ) -> None:
        self.settings = settings
        self.rate = settings.rate
        """Operations a second of each user, 0 for no limit; it may change while they work."""
        self.add = add
        """Takes each operation when its outcome is settled."""
        self.add_end = add_end
        """Takes each session when it has ended."""
        self.add_stray = add_stray
        """Takes each answer that no operation waits for."""
        self.ids = itertools.count(settings.first_id)
        self.processes = itertools.count(settings.first_id)
        self.values = itertools.count(settings.first_id)
        self.users = itertools.count()
        self.appended = [0] * KEYS
        self._clients: WaitingClients | None = None
        self.in_flight = 0
        self.is_over = False
        """No user begins another operation. Locust itself may end a user right after it has begun one."""

    def clock_ns(self) -> int:
        """The monotonic clock of the users' host."""
        return time.monotonic_ns()

    def new_client(self) -> WaitingClient:
        """A client that is not connected yet."""
        if self._clients is None:
            self._clients = self._make_clients()
        return self._clients.new_client(self.settings.timeout_s)

    @property
    def failure(self) -> str:
        """Why no user can go on, whatever the cluster does; empty if they can."""
        return "" if self._clients is None else self._clients.failure

    def close(self) -> None:
        """Close what the clients shared, after all of them."""
        if self._clients is not None:
            self._clients.close()

    def _make_clients(self) -> WaitingClients:
        settings = self.settings
        way = WayIn(
            settings.run_id,
            Path(settings.history).parent,
            parse_ingress_endpoints(settings.endpoints),
            StaticResolver(settings.addresses),
            settings.host,
            client=settings.client,
            bridge=settings.bridge,
        )
        options: ClientOptions = {
            "client_name": "locust",
            "tls": tls_files(settings.tls),
            "credentials_file": settings.credentials_file,
        }
        return system_named(settings.system).waiting_clients(way, options)


@dataclass(slots=True)
class _Attempt:
    """One operation from its first offer to its outcome. `decode` gives result and position of an answer."""

    f: Function
    key: str
    value: Json
    payload: bytes
    test: Test | None
    """Recognises its answer; None accepts any message."""
    leaves_late_answers: bool
    """Whether a late answer could be taken for the answer to the session's next operation."""
    decode: Callable[[bytes], tuple[Json, int | None]]
    outcome: Outcome = Outcome.UNKNOWN
    answer: bytes | None = None
    result: Json = None
    position: int | None = None
    session: int | None = None
    invoke_ns: int = 0
    complete_ns: int | None = None
    error: BaseException | None = None

    @property
    def name(self) -> str:
        """The name in locust's statistics."""
        return self.key if self.f is Function.CALL else self.f.value

    @property
    def is_matched(self) -> bool | None:
        """As `Operation.matched`."""
        return True if self.f is Function.CALL and self.answer is not None and self.test is not None else None


@dataclass(slots=True)
class _News:
    """Counts the messages of a session that answer no call. They are recorded up to the first that cannot be a late
    answer, so none is missing between two recorded ones.
    """

    session_id: int | None
    unanswered: int = 0
    """Calls that were sent in the session and may still get an answer."""
    recorded: int = 0
    is_over: bool = False

    def takes(self) -> bool:
        """Whether to record one more."""
        if self.is_over:
            return False
        self.recorded += 1
        self.is_over = self.recorded > self.unanswered
        return True


class ClusterUser(User):  # type: ignore[misc]
    """A user with its own session. Give it tasks that call `perform`, or `call` for a custom service."""

    abstract = True
    context_of_load: ClassVar[LoadContext]

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.load: LoadContext = type(self).context_of_load
        settings = self.load.settings
        self.number = next(self.load.users)
        """Differs between the users of a load, from 0."""
        self.random = Random(f"locust/{settings.seed}/{self.number}")
        self._client = self.load.new_client()
        self._client.on_unasked = self._on_unasked
        self._kept = KeptSession(self._client, FRESH_S)
        self._asks_shipped = False
        self._news = _News(None)
        self._session: Session | None = None
        """The session whose end has to be recorded."""
        self._process = next(self.load.processes)
        self._rate = settings.rate
        # Users that were spawned at the same instant have different phases.
        self._phase = self.random.random()
        self._began_ns: int | None = None
        self._intended_ns: int | None = None
        """The intended start of the current task; None without a schedule: before it begins, and for ever in a subclass
        with another `wait_time`."""

    # --- locust's hooks ---

    def run(self) -> None:
        """Run as locust does, and end the session whatever a subclass does in its `on_stop`."""
        try:
            super().run()
        finally:
            self.close_client()

    def wait_time(self) -> float:
        """The seconds until the next intended start; 0 if it has passed.

        The schedule begins with the first call, or here if there was none.
        """
        now_ns = self.load.clock_ns()
        if self._rate != self.load.rate:
            # A new rate begins a new schedule, without the backlog of the old one.
            self._rate, self._intended_ns = self.load.rate, now_ns
        if not self._period_ns:
            return 0.0
        if self._intended_ns is None:
            self._intended_ns = (self._began_ns or now_ns) + round(self._phase * self._period_ns)
        self._intended_ns += self._period_ns
        return max(0.0, (self._intended_ns - now_ns) / S)

    @property
    def _period_ns(self) -> int:
        return round(S / self._rate) if self._rate else 0

    # --- operations ---

    def perform(self, function: Function, key: str, value: Json = None, *, operation_id: int | None = None) -> Json:
        """Perform an operation of a shipped service and return its result, None without one.

        It is recorded in the history and in locust's statistics. `operation_id` must come from `new_id`; pass it if the
        task needs to know the id.
        """
        if operation_id is None:
            operation_id = self.new_id()
        payload = encode_operation(operation_id, function, key, value)
        self._asks_shipped = True
        attempt = _Attempt(
            function, key, value, payload, lambda received: is_response_to(operation_id, received), False, _decoded
        )
        self._try(attempt, operation_id)
        return attempt.result

    def call(self, name: str, payload: bytes, accepts: Accepts | None = None) -> bytes | None:
        """Send a request to a custom service and return the answer, None without one.

        The call is recorded in the history, and in locust's statistics as `name`. The answer is the first message that
        `accepts` takes. Without `accepts` it is the first message that the service sends to this session; then the
        service may send nothing else, or no call without `accepts` counts as acknowledged. An acknowledged call must be
        in the log, which has the digest of its payload.
        """
        payload = call_payload(payload)
        is_mixed_up = not tells_requests_apart(accepts)
        test = test_of(accepts, payload)
        attempt = _Attempt(Function.CALL, name, call_digest(payload), payload, test, is_mixed_up, _answered)
        self._try(attempt, self.new_id())
        return attempt.answer

    def new_id(self) -> int:
        """A number that no other operation of this run has, for use in the payloads of calls."""
        return next(self.load.ids)

    def _try(self, attempt: _Attempt, operation_id: int) -> None:
        if self.load.is_over:
            raise StopUser
        # This remains true if locust ends the user during the request.
        attempt.error = OutcomeUnknown("the user was ended before the answer came: the outcome is unknown")
        attempt.invoke_ns = self.load.clock_ns()
        if self._began_ns is None:
            self._began_ns = attempt.invoke_ns
        try:
            answer = self._request(attempt)
            complete_ns = self.load.clock_ns()
            attempt.result, attempt.position = attempt.decode(answer)
            attempt.outcome, attempt.answer, attempt.complete_ns = Outcome.OK, answer, complete_ns
            attempt.error = None
        except NodeError as error:
            attempt.error = error
            attempt.outcome = Outcome.FAIL if isinstance(error, NotSent) else Outcome.UNKNOWN
        finally:
            attempt.invoke_ns = max(attempt.invoke_ns, self._client.invoke_ns)
            self._settle(attempt, operation_id)

    def _settle(self, attempt: _Attempt, operation_id: int) -> None:
        self.load.add(
            Operation(
                id=operation_id,
                process=self._process,
                f=attempt.f,
                key=attempt.key,
                value=attempt.value,
                invoke_ns=attempt.invoke_ns,
                complete_ns=attempt.complete_ns,
                outcome=attempt.outcome,
                result=attempt.result,
                position=attempt.position,
                session=attempt.session,
                matched=attempt.is_matched,
            )
        )
        self._fire(attempt)
        if attempt.outcome is Outcome.UNKNOWN:
            self._process = next(self.load.processes)
            if attempt.leaves_late_answers:
                self._kept.give_up()

    def _request(self, attempt: _Attempt) -> bytes:
        """Send the request. Raises `NotSent` for every error before the request was sent."""
        self.load.in_flight += 1
        try:
            if attempt.f is Function.CALL:
                _require_opaque(attempt.payload)
            self._require_session()
            attempt.session = self._client.session_id
            news = self._news_of(attempt.session)
            news.unanswered += 1
            try:
                answer = self._client.request(attempt.payload, attempt.test)
            except NotSent:
                news.unanswered -= 1
                raise
            news.unanswered -= 1
            return answer
        finally:
            self.load.in_flight -= 1

    def _require_session(self) -> None:
        try:
            if not self._kept.goes_on():
                self.end_session()
                self._session = self._kept.open()
        except NodeError as error:
            # Keep the number of different texts small, because statistics are kept for each.
            reason = str(error) if isinstance(error, ClusterError) else type(error).__name__
            raise NotSent(f"no session: {reason}") from error

    def close_client(self) -> None:
        """Close the client. The session's end is recorded although locust may kill a user that is still closing it."""
        try:
            is_in_doubt = not (self._period_ns or self._asks_shipped or self._news.is_over)
            self._kept.close(LAST_WORDS_S if is_in_doubt else 0)
        finally:
            self.end_session()

    def end_session(self) -> None:
        """Close the session, if there is one, and record its end."""
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.close()
        finally:
            end = session_end(session, self.load.clock_ns())
            if end is not None:
                self.load.add_end(end)

    def open_session(self) -> SessionEnd | None:
        """The record of the open session, for a run that is recorded now; None without one."""
        if self._session is None:
            return None
        return session_end(self._session, self.load.clock_ns(), SessionCause.OPEN)

    def _on_unasked(self, payload: Buffer) -> None:
        session_id = self._kept.session_id
        if session_id is None:
            return
        if not self._asks_shipped:
            if self._news_of(session_id).takes():
                self.load.add_stray(Stray(session_id, self.load.clock_ns(), text=answer_text(payload)))
            return
        operation_id: int | None = None
        position: int | None = None
        with contextlib.suppress(DecodeError):
            operation_id, position, _, _ = decode_result(payload)
        self.load.add_stray(Stray(session_id, self.load.clock_ns(), operation_id, position))

    def _news_of(self, session_id: int) -> _News:
        if self._news.session_id != session_id:
            self._news = _News(session_id)
        return self._news

    def _fire(self, attempt: _Attempt) -> None:
        end_ns = attempt.complete_ns or self.load.clock_ns()
        intended_ns = attempt.invoke_ns
        if self._period_ns and self._intended_ns is not None:
            intended_ns = min(self._intended_ns, intended_ns)
        self.environment.events.request.fire(
            request_type=REQUEST_TYPE,
            name=attempt.name,
            response_time=(end_ns - intended_ns) / 1e6,
            response_length=len(attempt.answer or b""),
            exception=attempt.error,
            context={},
        )


def _decoded(answer: bytes) -> tuple[Json, int]:
    _, position, result, refusal = decode_result(answer)
    return {"error": refusal} if refusal else result, position


def _answered(answer: bytes) -> tuple[Json, None]:
    return answer_text(answer), None


def _require_opaque(payload: bytes) -> None:
    """Reject a payload in the form of a shipped service's request.

    That form distinguishes calls in the log from operations of the shipped services.
    """
    try:
        decode_operation(payload)
    except DecodeError:
        return
    raise NotSent("the payload is a request to a shipped service: use perform() for it")


class EchoUser(ClusterUser):
    """Sends texts and gets them back."""

    @task
    def echo(self) -> None:
        """Echo a text that no other operation sends."""
        self.perform(Function.ECHO, "", f"echo {next(self.load.values)}")


class RegisterUser(ClusterUser):
    """Reads, writes and compare-and-sets a few keys that all users share."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._seen: dict[str, Json] = {}

    @task(5)
    def read(self) -> None:
        """Read one of the keys. A later compare-and-set expects the value that this returned."""
        key = self._key()
        self._seen[key] = self.perform(Function.READ, key)

    @task(5)
    def write(self) -> None:
        """Write a value that no other operation writes."""
        key = self._key()
        value = self._seen[key] = next(self.load.values)
        self.perform(Function.WRITE, key, value)

    @task(4)
    def compare_and_set(self) -> None:
        """Expect the value that this user saw last, so that some compare-and-sets succeed and some fail."""
        key = self._key()
        self.perform(Function.CAS, key, [self._seen.get(key), next(self.load.values)])

    def _key(self) -> str:
        return f"r{self.random.randrange(KEYS)}"


class AppendUser(ClusterUser):
    """Appends to a few lists and reads them; a list that has grown long is replaced by a new one."""

    @task(4)
    def append(self) -> None:
        """Append a value that no other operation appends."""
        index = self.random.randrange(KEYS)
        key = self._list_key(index)
        self.load.appended[index] += 1
        self.perform(Function.APPEND, key, next(self.load.values))

    @task(1)
    def read_list(self) -> None:
        """Read one whole list."""
        self.perform(Function.LIST, self._list_key(self.random.randrange(KEYS)))

    def _list_key(self, index: int) -> str:
        settings = self.load.settings
        return f"l{index}.{settings.first_id}.{self.load.appended[index] // APPENDS_A_LIST}"


class WorkbenchUser(RegisterUser, AppendUser, EchoUser):
    """Uses all operations of the workbench service."""


class LedgerUser(ClusterUser):
    """Transfers between a few accounts, and reads all balances."""

    def on_start(self) -> None:
        """Begin this user's own random sequence."""
        self._draw = LedgerDraw(self.random.getrandbits(32), KEYS)

    @task
    def next_operation(self) -> None:
        """Perform the next operation of the sequence: a transfer, or a read of all balances."""
        self.perform(*self._draw.next(0))


class TimersUser(ClusterUser):
    """Schedules and cancels timers, and reads which of them have fired."""

    def on_start(self) -> None:
        """Begin this user's own random sequence, with its own groups of timers."""
        name = f"{self.load.settings.first_id}.{self.number}."
        self._draw = TimersDraw(self.random.getrandbits(32), name)

    @task
    def next_operation(self) -> None:
        """Perform the next operation of the sequence: schedule, cancel or read."""
        operation_id = self.new_id()
        self.perform(*self._draw.next(operation_id), operation_id=operation_id)


def find_user(name: str) -> type[ClusterUser]:
    """The class of a shipped user, or the class that `module:Class` names. Raises `UsageError` for anything else."""
    user = find_named("user", SHORT_NAMES.get(name, name), f"one of {', '.join(SHORT_NAMES)}", SHORT_NAMES)
    if not issubclass(user, ClusterUser):
        raise UsageError(f"user {name!r}: {user.__name__} is not a subclass of upheaval.ClusterUser")
    return user
