"""Locust users without locust's runner: their schedule and latencies, their sessions, and what these hear."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unit.client.answering_member import Member
from upheaval import CorrelationAt
from upheaval.checkers.history.attribution import attributed
from upheaval.load.own import without_patches
from upheaval.load.settings import LoadSettings
from upheaval.records import Operation, Outcome, SessionEnd, Stray
from upheaval.waits import wait_until
from upheaval_node.client.driver import BlockingClient, OutcomeUnknown
from upheaval_node.media.api import Message
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.types import MS, S

with without_patches():
    from locust import TaskSet, between, task
    from locust.env import Environment
    from locust.exception import StopUser

    from upheaval.load.raised_on_stop import report_on_stop
    from upheaval.load.users import ClusterUser, LoadContext

LIMIT_S = 30


class Instant:
    """Implements `system.WaitingClient` and its session: each answer takes 2 ms of a clock that this moves."""

    on_unasked: Callable[[Buffer], None] | None = None
    session_id = 5
    opened_term_id = leadership_term_id = 1
    leader_member_id = 0
    error = None
    is_connected = True
    is_closed = False
    is_mute = False

    def __init__(self) -> None:
        self.invoke_ns = 0
        self.now_ns = 1000 * S

    @property
    def session(self) -> "Instant":
        return self

    def reconnect(self) -> None:
        self.is_closed = False

    def request(self, payload: Buffer, accepts: object = None) -> bytes:
        self.invoke_ns = self.now_ns
        self.now_ns += 2 * MS
        if self.is_mute:
            raise OutcomeUnknown("no answer")
        return bytes(payload)

    def idle(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)

    def close(self) -> None:
        self.is_closed = True


class Context(LoadContext):
    """Keeps what the users record. Its clock is that of the client."""

    def __init__(self, client: Any, rate: float = 10.0) -> None:
        self.operations: list[Operation] = []
        self.ends: list[SessionEnd] = []
        self.strays: list[Stray] = []
        settings = LoadSettings("", "", 1, None, rate=rate)
        super().__init__(settings, self.operations.append, self.ends.append, self.strays.append)
        self.client = client

    def clock_ns(self) -> int:
        return int(getattr(self.client, "now_ns", 0)) or super().clock_ns()

    def new_client(self) -> Any:
        return self.client


def user_of(kind: type[ClusterUser], context: Context) -> tuple[Any, list[float]]:
    """A user, and the latencies in milliseconds that it reports."""
    kind.context_of_load = context
    environment = Environment(user_classes=[kind])
    latencies: list[float] = []
    environment.events.request.add_listener(lambda response_time, **_: latencies.append(response_time))
    return kind(environment), latencies


class Plain(ClusterUser):
    @task
    def ask(self) -> bytes | None:
        return self.call("ask", b"%d" % self.new_id())


class OwnStart(Plain):
    def on_start(self) -> None:
        self.account = "ann"


class OwnLogin(Plain):
    def on_start(self) -> None:
        self.ask()


class OwnWait(Plain):
    wait_time = between(1, 2)


@pytest.mark.parametrize(("kind", "pace_s"), [(Plain, 0.1), (OwnStart, 0.1), (OwnLogin, 0.1), (OwnWait, 1.5)])
def test_latencies_and_rate_are_right_whichever_of_locusts_hooks_a_class_has(
    kind: type[ClusterUser], pace_s: float
) -> None:
    client = Instant()
    user, latencies = user_of(kind, Context(client))
    user.on_start()
    begin_ns, count = client.now_ns, 100
    for _ in range(count):
        user.ask()
        client.now_ns += round(user.wait_time() * S)
    assert max(latencies) == pytest.approx(2)
    assert (client.now_ns - begin_ns) / count / S == pytest.approx(pace_s, rel=0.1)


def test_the_wait_for_a_slow_operation_counts_for_those_that_it_delayed() -> None:
    client = Instant()
    user, latencies = user_of(OwnStart, Context(client))
    user.ask()
    client.now_ns += 10 * S
    assert user.wait_time() == 0
    user.ask()
    assert latencies[1] > 9000


class Leaving(Plain):
    def on_stop(self) -> None:
        """As a class that does not know ours."""

    @task
    def leave(self) -> None:
        self.ask()
        raise StopUser


def test_a_session_ends_with_its_user_whatever_the_class_does_in_on_stop() -> None:
    context = Context(Instant(), rate=0)
    user, _ = user_of(Leaving, context)
    user.run()
    assert context.client.is_closed
    assert [end.session for end in context.ends] == [Instant.session_id]


class Audited(Plain):
    def on_stop(self) -> None:
        raise AssertionError("lost money")

    @task
    class Part(TaskSet):  # type: ignore[misc]
        def on_stop(self) -> None:
            raise AssertionError("lost more")

        @task
        def leave(self) -> None:
            raise StopUser


class Begun(Plain):
    def on_start(self) -> None:
        raise AssertionError("no account")


class Stopped(Plain):
    def on_stop(self) -> None:
        raise StopUser

    @task
    def leave(self) -> None:
        raise StopUser


class Inheriting(Plain):
    @task
    class Base(TaskSet):  # type: ignore[misc]
        def on_stop(self) -> None:
            raise AssertionError("lost more")

        @task
        def leave(self) -> None:
            raise StopUser

    @task
    class Same(Base):
        pass

    @task
    class Further(Base):
        def on_stop(self) -> None:
            super().on_stop()


@pytest.mark.parametrize("part", [Inheriting.Base, Inheriting.Same, Inheriting.Further])
def test_what_an_inherited_hook_raises_is_reported_once(part: type[TaskSet]) -> None:
    report_on_stop(Inheriting)
    user, _ = user_of(Inheriting, Context(Instant(), rate=0))
    raised: list[str] = []
    user.environment.events.user_error.add_listener(lambda exception, **_: raised.append(str(exception)))
    with pytest.raises(AssertionError):
        part(user).on_stop()
    assert raised == ["lost more"]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [(Audited, ["lost more", "lost money"]), (Begun, ["no account"]), (Stopped, [])],
)
def test_what_a_hook_raises_is_reported_once(kind: type[ClusterUser], texts: list[str]) -> None:
    report_on_stop(kind)
    user, _ = user_of(kind, Context(Instant(), rate=0))
    raised: list[str] = []
    user.environment.events.user_error.add_listener(lambda exception, **_: raised.append(str(exception)))
    with pytest.raises(AssertionError if texts else StopUser):
        user.run()
    assert raised == texts


class Greeting(Member):
    """Sends each session a message when it opens, and echoes each request."""

    def _on_message(self, message: Message) -> None:
        super()._on_message(message)
        if isinstance(cm.SCHEMA.decode(message.payload), cm.SessionConnectRequest):
            session_id = len(self.egress)
            self.owed.append((session_id, pack_session_header(1, session_id, 0) + b"welcome"))

    class _Echo:
        @staticmethod
        def execute(payload: Buffer, position: int) -> bytes:
            return bytes(payload)


def test_a_message_that_came_before_the_first_call_is_recorded() -> None:
    """Else each answer of the session is that to the call before, and nothing shows it."""
    member = Greeting()
    member.service = Greeting._Echo()  # type: ignore[assignment]
    member.thread.start()
    context = Context(BlockingClient({0: member.endpoint}, LIMIT_S))
    user, _ = user_of(Plain, context)

    def is_recorded() -> bool:
        user.ask()
        return bool(context.strays)

    try:
        wait_until(is_recorded, timeout_s=LIMIT_S, describe=lambda: "no message too many is recorded")
    finally:
        user.close_client()
        member.stop()
    assert {stray.session for stray in context.strays} == {1}
    assert attributed(context.operations, context.strays).doubt


def test_messages_are_recorded_until_one_cannot_be_a_late_answer() -> None:
    client = Instant()
    context = Context(client)
    user, _ = user_of(Plain, context)

    def hear(*messages: bytes) -> None:
        for message in messages:
            client.now_ns += MS
            user._on_unasked(message)

    client.is_mute = True
    user.call("ask", b"01234567", CorrelationAt(0))
    client.is_mute = False
    hear(b"late answer", b"news")
    assert user.call("ask", b"which") == b"which"
    hear(b"more news")
    assert [stray.text for stray in context.strays] == ["late answer", "news"]
    assert [each.outcome for each in context.operations] == [Outcome.UNKNOWN, Outcome.OK]
    assert attributed(context.operations, context.strays).doubt


PAUSED = """
import sys, time
from upheaval.load import runner

load = runner.Load(runner.LoadSettings("0=127.0.0.1:1", sys.argv[1], 1, None), print)
worked_s = 0.0
for _ in range(2):
    time.sleep(2)
    load._environment.events.test_start.fire(environment=load._environment)
    began_s = time.time()
    for _ in range(50):
        time.sleep(0.01)
        load._environment.events.request.fire(
            request_type="upheaval", name="ask", response_time=1, response_length=1, exception=None, context={}
        )
    worked_s += time.time() - began_s
    load._environment.events.test_stop.fire(environment=load._environment)
print(runner.statistics(load.counted).total.per_second * worked_s)
"""


def test_the_rate_is_that_of_the_time_in_which_users_worked(tmp_path: Path) -> None:
    """The page waits for its button before the first start, and between a stop and the next start."""
    command = [sys.executable, "-c", PAUSED, str(tmp_path / "history.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    # With the pauses it would be 20.
    assert float(done.stdout) == pytest.approx(100, rel=0.6)
