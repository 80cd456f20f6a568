"""Users that an agent steps: sessions that connect too late, and a history that cannot be written."""

from collections import deque
from collections.abc import Callable

import pytest

from upheaval.errors import EnvironmentFault
from upheaval.load.own import without_patches
from upheaval.records import Operation, Outcome, SessionEnd, Stray, answer_text
from upheaval.workload import WorkloadSettings
from upheaval_node.ports import Buffer
from upheaval_node.types import MS, NEVER_NS, NULL_VALUE, Now, S

with without_patches():
    from locust import task

    from upheaval.load.stepped_users import UserLoad
    from upheaval.load.users import ClusterUser


class Asker(ClusterUser):
    @task
    def ask(self) -> None:
        self.call("ask", b"%d" % self.new_id())


class Cluster:
    """Opens sessions after a delay, and answers at once."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.connect_ns = 0
        self.sessions: list[Opened] = []

    def open_session(self) -> "Opened":
        self.sessions.append(Opened(self, len(self.sessions)))
        return self.sessions[-1]


class Opened:
    """Implements `workload.Session`."""

    leadership_term_id = opened_term_id = 1
    leader_member_id = 0
    error = None

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.is_closed = False
        self.has_leader = True
        self._cluster = cluster
        self._number = number
        self._open_ns = cluster.now_ns + cluster.connect_ns
        self._answers: deque[bytes] = deque()

    @property
    def is_connected(self) -> bool:
        return not self.is_closed and self.has_leader and self._cluster.now_ns >= self._open_ns

    @property
    def session_id(self) -> int:
        return self._number if self._cluster.now_ns >= self._open_ns else NULL_VALUE

    def do_work(self, now: Now) -> int:
        return 0

    def next_deadline_ns(self) -> int:
        return NEVER_NS

    def poll(self, handler: Callable[[int, Buffer], None], limit: int = 1) -> int:
        count = len(self._answers)
        while self._answers:
            handler(0, self._answers.popleft())
        return count

    def offer(self, *parts: Buffer) -> int:
        self._answers.append(bytes(parts[0]))
        return 1

    def push(self, message: bytes) -> None:
        self._answers.append(message)

    def close(self) -> None:
        self.is_closed = True


def load_on(
    cluster: Cluster,
    record: Callable[[Operation], None],
    record_end: Callable[[SessionEnd], None] = lambda _: None,
    record_stray: Callable[[Stray], None] = lambda _: None,
) -> UserLoad:
    return UserLoad(
        WorkloadSettings(slots=1, rate=10, operation_timeout_ns=S, user=f"{__name__}:Asker"),
        open_session=cluster.open_session,  # type: ignore[arg-type]
        record=record,
        record_end=record_end,
        record_stray=record_stray,
        clock_ns=lambda: cluster.now_ns,
    )


def run(load: UserLoad, cluster: Cluster, seconds: float) -> None:
    end_ns = cluster.now_ns + round(seconds * S)
    while cluster.now_ns < end_ns:
        load.do_work(Now(cluster.now_ns, 0))
        cluster.now_ns += 10 * MS


def test_a_session_that_connects_after_its_time_out_takes_no_operation() -> None:
    cluster = Cluster()
    operations: list[Operation] = []
    ends: list[SessionEnd] = []
    load = load_on(cluster, operations.append, ends.append)
    run(load, cluster, 2)
    cluster.sessions[-1].is_closed, cluster.connect_ns = True, 3 * S // 2
    run(load, cluster, 4)
    cluster.connect_ns = 0
    run(load, cluster, 4)
    load.stop()
    run(load, cluster, 1)
    assert load.is_idle
    took = {operation.session for operation in operations if operation.outcome is Outcome.OK}
    assert took == {0, len(cluster.sessions) - 1}
    assert {end.session for end in ends} == took
    assert {operation.session for operation in operations if operation.outcome is Outcome.FAIL} == {None}
    assert all(session.is_closed for session in cluster.sessions)


def test_a_history_that_cannot_be_written_ends_the_load_and_is_no_error_of_a_user() -> None:
    def record(operation: Operation) -> None:
        raise EnvironmentFault(f"cannot write {operation}")

    cluster = Cluster()
    load = load_on(cluster, record)
    with pytest.raises(EnvironmentFault, match="cannot write"):
        run(load, cluster, 2)
    assert load.raised == []


def test_a_message_that_came_before_the_request_was_sent_is_not_its_answer() -> None:
    cluster = Cluster()
    operations: list[Operation] = []
    strays: list[Stray] = []
    load = load_on(cluster, operations.append, record_stray=strays.append)
    run(load, cluster, 1)
    (session,) = cluster.sessions
    session.has_leader = False
    run(load, cluster, 0.4)
    waited = len(operations)
    session.has_leader = True
    session.push(b"news of the new leader")
    run(load, cluster, 1)
    load.stop()
    run(load, cluster, 1)
    assert len(operations) > waited
    assert {operation.outcome for operation in operations} == {Outcome.OK}
    news = answer_text(b"news of the new leader")
    assert [stray.text for stray in strays] == [news]
    assert news not in [operation.result for operation in operations]
