"""Locust's users without locust's runner: each is a greenlet that yields while it waits for the cluster.

So the users of `upheaval load` run inside one agent, which a simulated process or the loop of real clients steps; in
the simulation, one seed gives one execution. Users take their random numbers from `self.random`. This module knows no
runtime; it knows sessions only by the protocol `workload.Session`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from greenlet import GreenletExit, getcurrent, greenlet
from locust.env import Environment
from locust.exception import StopUser

from upheaval.accepts import Test
from upheaval.errors import EnvironmentFault
from upheaval.load.raised_by_users import TEXTS_MAX, text_of
from upheaval.load.settings import LoadSettings
from upheaval.load.users import ClusterUser, LoadContext, find_user
from upheaval.records import Operation, SessionEnd, Stray
from upheaval.workload import LoadCounts, Session, WorkloadSettings
from upheaval_node.bell import Bell
from upheaval_node.client.driver import NotSent, OutcomeUnknown
from upheaval_node.errors import TimeoutExpired, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.types import MS, NEVER_NS, Now, S

PAUSE_NS: Final = MS
"""The least time between two tasks of a user. A task without requests must not stop the clock of a simulation."""
RECONNECT_DELAY_NS: Final = 100 * MS
RETRY_NS: Final = 10 * MS
_POLL_LIMIT: Final = 100


def runnable_user(name: str) -> type[ClusterUser]:
    """As `find_user`. Raises `UsageError` also for a class without tasks, or with tasks that are not methods."""
    user = find_user(name)
    if not user.tasks:
        raise UsageError(f"user {name!r} has no tasks: mark methods with locust's @task")
    if any(isinstance(task, type) for task in user.tasks):
        raise UsageError(f"user {name!r} has a TaskSet: only `upheaval load` runs these, use methods as tasks")
    return user


class SteppedClient:
    """Implements `system.WaitingClient`, for calls from a greenlet whose parent resumes it when `is_due`."""

    def __init__(self, open_session: Callable[[], Session], clock_ns: Callable[[], int], timeout_ns: int) -> None:
        self.invoke_ns = 0
        self.on_unasked: Callable[[Buffer], None] | None = None
        self.deadline_ns = 0
        """When its user continues in any case."""
        self._open_session = open_session
        self._clock_ns = clock_ns
        self._timeout_ns = timeout_ns
        self._session: Session | None = None
        self._retry_ns = 0
        self._condition: Callable[[], bool] = lambda: True
        self._accepts: Test | None = None
        self._answers: list[bytes] = []
        self._raised: Exception | None = None

    # --- for the agent ---

    def turn(self, now: Now) -> int:
        """Run a duty cycle of the session and deliver its messages. Returns the work done."""
        session = self._session
        return 0 if session is None else session.do_work(now) + session.poll(self._on_message, _POLL_LIMIT)

    def is_due(self, now_ns: int) -> bool:
        """Whether the condition that its user waits for holds, or the deadline has passed."""
        return now_ns >= self.deadline_ns or self._condition()

    def next_deadline_ns(self) -> int:
        """The next deadline of the session."""
        return NEVER_NS if self._session is None else self._session.next_deadline_ns()

    # --- for the user ---

    @property
    def session(self) -> Session:
        """The latest session. Raises `UsageError` before the first one."""
        if self._session is None:
            raise UsageError("the user has no session yet")
        return self._session

    @property
    def session_id(self) -> int:
        """The id of the latest session."""
        return self.session.session_id

    @property
    def is_connected(self) -> bool:
        """Whether that session takes messages."""
        return self._session is not None and self._session.is_connected

    def wait(self, condition: Callable[[], bool], deadline_ns: int) -> None:
        """Yield until the condition holds or the deadline has passed."""
        while not condition() and self._clock_ns() < deadline_ns:
            self._condition, self.deadline_ns = condition, deadline_ns
            parent = getcurrent().parent
            assert parent is not None
            parent.switch()

    def idle(self, seconds: float) -> None:
        """Yield for that many seconds. What has arrived was handled by `turn`."""
        self.wait(lambda: False, self._clock_ns() + round(seconds * S))

    def reconnect(self) -> None:
        """Close the session and open another one. Raises `TimeoutExpired`."""
        self.close()
        self.wait(lambda: False, self._retry_ns)
        session = self._session = self._open_session()
        deadline_ns = self._clock_ns() + self._timeout_ns
        self._retry_ns = self._clock_ns() + RECONNECT_DELAY_NS
        self.wait(lambda: session.is_connected or session.is_closed, deadline_ns)
        if not session.is_connected:
            session.close()
            raise TimeoutExpired("no session within the time-out")

    def request(self, payload: Buffer, accepts: Test | None = None) -> bytes:
        """The first message that `accepts` takes. A message that arrived before the request was sent is no answer.

        Raises `NotSent`, or `OutcomeUnknown` once no answer can come, and what `accepts` raises.
        """
        session, self.invoke_ns = self.session, self._clock_ns()
        deadline_ns = self.invoke_ns + self._timeout_ns
        self._answers.clear()
        self._raised = None
        self._send(session, payload, deadline_ns)
        self._accepts = accepts or (lambda _: True)
        try:
            term = session.leadership_term_id
            self.wait(lambda: self._is_tested or session.is_closed or session.leadership_term_id != term, deadline_ns)
        finally:
            self._accepts = None
        if self._raised is not None:
            raise self._raised
        if not self._answers:
            raise OutcomeUnknown("no answer: the outcome of the request is unknown")
        return self._answers.pop()

    def close(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None and not self._session.is_closed:
            self._session.close()

    def _send(self, session: Session, payload: Buffer, deadline_ns: int) -> None:
        while not session.is_connected or session.offer(payload) <= 0:
            now_ns = self._clock_ns()
            if session.is_closed or now_ns >= deadline_ns:
                raise NotSent("not sent within the time-out")
            if session.is_connected:
                self.wait(lambda: False, min(now_ns + RETRY_NS, deadline_ns))
            else:
                self.wait(lambda: session.is_connected or session.is_closed, deadline_ns)

    @property
    def _is_tested(self) -> bool:
        """Whether `accepts` has taken a message, or raised."""
        return bool(self._answers) or self._raised is not None

    def _on_message(self, timestamp: int, payload: Buffer) -> None:  # noqa: ARG002 - the cluster time is not needed
        if self._accepts is not None and not self._is_tested and self._takes(self._accepts, payload):
            self._answers.append(bytes(payload))
        elif self.on_unasked is not None:
            self.on_unasked(payload)

    def _takes(self, accepts: Test, payload: Buffer) -> bool:
        """A test that raises fails its own request, in the greenlet of its user."""
        try:
            return accepts(payload)
        except Exception as error:  # noqa: BLE001 - the user's own function
            self._raised = error
            return False


class _Context(LoadContext):
    """Gives each user its own client, which the load steps."""

    def __init__(
        self,
        settings: LoadSettings,
        add: Callable[[Operation], None],
        add_end: Callable[[SessionEnd], None],
        add_stray: Callable[[Stray], None],
        clock_ns: Callable[[], int],
        open_session: Callable[[], Session],
    ) -> None:
        super().__init__(settings, add, add_end, add_stray)
        self.clients: list[SteppedClient] = []
        self._clock_ns = clock_ns
        self._open_session = open_session

    def clock_ns(self) -> int:
        """The clock of the runtime."""
        return self._clock_ns()

    def new_client(self) -> SteppedClient:
        """A client that is not connected yet."""
        self.clients.append(SteppedClient(self._open_session, self._clock_ns, round(self.settings.timeout_s * S)))
        return self.clients[-1]


class UserLoad:
    """Implements `workload.ClientLoad`: one user per slot, each with its share of the rate."""

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
        first_process: int = 0,  # noqa: ARG002 - users number ids and processes alike
    ) -> None:
        self.bell: Bell | None = None
        self.counts = LoadCounts()
        self.raised: list[str] = []
        self._record = record
        user_class = runnable_user(settings.user)
        load_settings = LoadSettings(
            "",
            "",
            settings.slots,
            None,
            user=settings.user,
            rate=settings.rate / settings.slots,
            timeout_s=settings.operation_timeout_ns / S,
            seed=settings.seed,
            first_id=first_id,
        )
        self._context = user_class.context_of_load = _Context(
            load_settings, self._add, record_end, record_stray, clock_ns, open_session
        )
        environment = Environment(user_classes=[user_class])
        self._users: list[ClusterUser] = []
        self._lives: list[tuple[SteppedClient, greenlet]] = []
        for _ in range(settings.slots):
            user = user_class(environment)
            self._users.append(user)
            client = self._context.clients[-1]
            self._lives.append((client, greenlet(partial(self._live, user, client))))

    @property
    def is_idle(self) -> bool:
        """Whether every user has ended."""
        return all(life.dead for _, life in self._lives)

    def stop(self) -> None:
        """Let no user begin another operation."""
        self._context.is_over = True
        if self.bell is not None:
            self.bell.rung = True

    def do_work(self, now: Now) -> int:
        """Step each session, and resume each user whose wait is over. Returns the work done."""
        work = 0
        for client, life in self._lives:
            work += client.turn(now)
            if not life.dead and client.is_due(now.ns):
                life.parent = getcurrent()
                life.switch()
                work += 1
        return work

    def next_deadline_ns(self) -> int:
        """The next deadline of any session, or of any user's wait."""
        sessions = min(client.next_deadline_ns() for client, _ in self._lives)
        return min(
            sessions, min((client.deadline_ns for client, life in self._lives if not life.dead), default=NEVER_NS)
        )

    def open_sessions(self) -> Iterator[SessionEnd]:
        """The records of the sessions that are still open, for a run that is recorded now."""
        return (end for user in self._users if (end := user.open_session()) is not None)

    def close(self) -> None:
        """End the users at once. Operations in flight become unknown."""
        self._context.is_over = True
        for user, (client, life) in zip(self._users, self._lives, strict=True):
            if not life.dead:
                life.parent = getcurrent()
                life.throw(GreenletExit)
            user.end_session()
            client.close()

    def _add(self, operation: Operation) -> None:
        self.counts.add(operation.outcome)
        self._record(operation)

    # --- one user, in its greenlet ---

    def _live(self, user: ClusterUser, client: SteppedClient) -> None:
        tasks: Sequence[Callable[[ClusterUser], None]] = type(user).tasks
        self._guard(user.on_start)
        while not self._context.is_over:
            wait_ns = max(round(user.wait_time() * S), PAUSE_NS)
            client.wait(lambda: self._context.is_over, self._context.clock_ns() + wait_ns)
            if not self._context.is_over:
                self._guard(partial(user.random.choice(tasks), user))
        self._guard(user.on_stop)
        self._guard(user.close_client)

    def _guard(self, code: Callable[[], None]) -> None:
        """Keep the text of an exception from the user's own code, so that the user continues.

        Raises `EnvironmentFault` when the history cannot be written.
        """
        try:
            code()
        except StopUser:
            """The user was asked to end in the middle of a task."""
        except EnvironmentFault:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's code raises
            text = text_of(error)
            if text not in self.raised and len(self.raised) < TEXTS_MAX:
                self.raised.append(text)
