"""The client slots: one operation outstanding each, nothing sent twice, a new id after an unknown outcome."""

from collections import Counter, deque
from collections.abc import Callable

from support.search import linearizable_by_search
from upheaval.checkers.verdict import Verdict
from upheaval.records import (
    WORKBENCH,
    Function,
    Operation,
    Outcome,
    SessionCause,
    SessionEnd,
    Stray,
    decode_operation,
)
from upheaval.workload import APPENDS_A_LIST, Load, OperationDraw, WorkloadSettings
from upheaval_node.errors import NodeError, TimeoutExpired
from upheaval_node.ports import Buffer
from upheaval_node.service.services.workbench import Workbench
from upheaval_node.types import NEVER_NS, Now, SessionId, TermId

BACK_PRESSURED = -2


class DirectSession:
    """A session whose service answers at once: requests are executed in order, responses wait for the next poll."""

    def __init__(self, service: "DirectService") -> None:
        self.service = service
        self.is_connected = True
        self.is_closed = False
        self.leadership_term_id = TermId(0)
        self.opened_term_id = TermId(0)
        self.leader_member_id = 0
        self.error: NodeError | None = None
        self.session_id = SessionId(1)
        self.accepts = True
        self.answers = True
        self.offered: list[bytes] = []
        self.responses: deque[bytes] = deque()

    def do_work(self, now: Now) -> int:
        return 0

    def next_deadline_ns(self) -> int:
        return NEVER_NS

    def poll(self, handler: Callable[[int, Buffer], None], limit: int = 10) -> int:
        count = min(limit, len(self.responses))
        for _ in range(count):
            handler(0, self.responses.popleft())
        return count

    def offer(self, *parts: Buffer) -> int:
        if not self.accepts:
            return BACK_PRESSURED
        payload = b"".join(parts)
        self.offered.append(payload)
        response = self.service.execute(payload)
        if self.answers:
            self.responses.append(response)
        return len(self.offered)

    def close(self) -> None:
        self.is_closed = True


class DirectService:
    def __init__(self) -> None:
        self._workbench = Workbench()
        self._position = 0

    def execute(self, payload: bytes) -> bytes:
        self._position += 64
        return self._workbench.execute(payload, self._position)


class Bench:
    """A load with a clock that is turned by hand."""

    def __init__(self, settings: WorkloadSettings) -> None:
        self.now_ns = 1_000
        self.history: list[Operation] = []
        self.sessions: list[DirectSession] = []
        self.service = DirectService()
        self.ends: list[SessionEnd] = []
        self.strays: list[Stray] = []
        self.load = Load(
            settings,
            open_session=self._open,
            record=self.history.append,
            record_end=self.ends.append,
            record_stray=self.strays.append,
            clock_ns=self._clock,
        )

    def turn(self, step_ns: int = 1_000_000) -> int:
        self.now_ns += step_ns
        return self.load.do_work(Now(self.now_ns, 0))

    def _open(self) -> DirectSession:
        self.sessions.append(DirectSession(self.service))
        return self.sessions[-1]

    def _clock(self) -> int:
        self.now_ns += 1
        return self.now_ns


def test_thousands_of_operations_complete_and_the_history_is_linearizable() -> None:
    bench = Bench(WorkloadSettings(slots=8, sessions=2))
    while len(bench.history) < 3000:
        bench.turn()
    assert {operation.outcome for operation in bench.history} == {Outcome.OK}
    assert {operation.f for operation in bench.history} == set(WORKBENCH)
    assert linearizable_by_search(bench.history[:400]).verdict is Verdict.VALID
    ids = [operation.id for operation in bench.history]
    assert len(set(ids)) == len(ids)


def test_one_seed_gives_one_sequence_and_another_seed_another() -> None:
    def drawn(seed: int) -> list[object]:
        draw = OperationDraw(WorkloadSettings(seed=seed))
        return [draw.next() for _ in range(200)]

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


def test_written_and_appended_values_are_unique_and_lists_stay_short() -> None:
    draw = OperationDraw(WorkloadSettings(keys=2))
    written: Counter[str] = Counter()
    appends: Counter[str] = Counter()
    for _ in range(20_000):
        function, key, value = draw.next()
        if function in (Function.WRITE, Function.APPEND):
            written[str(value)] += 1
        if function is Function.APPEND:
            appends[key] += 1
    assert max(written.values()) == 1
    assert max(appends.values()) == APPENDS_A_LIST


def test_a_slot_has_one_operation_outstanding() -> None:
    bench = Bench(WorkloadSettings(slots=5, sessions=1))
    bench.turn()
    for _ in range(50):
        bench.sessions[0].answers = False
        bench.turn()
    outstanding = len(bench.sessions[0].offered) - len(bench.history)
    assert outstanding == 5
    by_process: dict[int, int] = {}
    for operation in sorted(bench.history, key=lambda operation: operation.invoke_ns):
        assert operation.complete_ns is not None
        assert by_process.get(operation.process, 0) < operation.invoke_ns
        by_process[operation.process] = operation.complete_ns


def test_an_operation_without_an_answer_is_unknown_and_its_slot_goes_on_under_a_new_number() -> None:
    bench = Bench(WorkloadSettings(slots=1, sessions=1, operation_timeout_ns=1_000_000_000))
    bench.turn()
    session = bench.sessions[0]
    session.answers = False
    while not bench.history or bench.history[-1].outcome is Outcome.OK:
        bench.turn(100_000_000)
    lost = bench.history[-1]
    assert (lost.outcome, lost.complete_ns, lost.result) == (Outcome.UNKNOWN, None, None)
    session.answers = True
    count = len(bench.history)
    while len(bench.history) < count + 3:
        bench.turn()
    assert {operation.process for operation in bench.history[count + 1 :]}.isdisjoint({lost.process})
    assert bench.load.counts.unknown >= 1


def test_nothing_is_ever_offered_twice() -> None:
    bench = Bench(WorkloadSettings(slots=4, sessions=1, operation_timeout_ns=5_000_000))
    for turn in range(300):
        bench.turn(3_000_000)
        session = bench.sessions[-1]
        session.answers = turn % 7 != 0
        session.accepts = turn % 11 != 0
        session.leadership_term_id = turn // 50
        session.is_closed = turn % 90 == 89
    ids = [decode_operation(payload)[0] for session in bench.sessions for payload in session.offered]
    assert len(bench.sessions) > 2
    assert len(ids) > 200
    assert len(set(ids)) == len(ids)


def test_an_answer_that_comes_too_late_changes_nothing() -> None:
    bench = Bench(WorkloadSettings(slots=1, sessions=1, operation_timeout_ns=1_000_000))
    bench.turn()
    session = bench.sessions[0]
    late = session.responses.popleft()
    bench.turn(10_000_000)
    settled = len(bench.history)
    assert bench.history[-1].outcome is Outcome.UNKNOWN
    session.responses.clear()
    session.responses.append(late)
    session.accepts = False
    bench.turn(1)
    assert len(bench.history) == settled
    assert bench.strays == [Stray(1, bench.now_ns, bench.history[0].id, 64)]


def test_a_message_that_is_no_answer_is_written_down() -> None:
    bench = Bench(WorkloadSettings(slots=1, sessions=1))
    bench.turn()
    bench.sessions[0].responses.appendleft(b"nonsense")
    bench.turn()
    assert [(stray.session, stray.operation, stray.position) for stray in bench.strays] == [(1, None, None)]
    assert bench.history[0].outcome is Outcome.OK


def test_silent_clients_ask_once_whatever_the_rate_and_are_never_turned_again() -> None:
    bench = Bench(WorkloadSettings(slots=1, sessions=1, silent=3, rate=1))
    for _ in range(130):
        bench.turn(100_000_000)
    assert len(bench.sessions) == 4
    silent = bench.sessions[1:]
    assert [len(session.offered) for session in silent] == [1, 1, 1]
    for session in silent:
        session.do_work = session.poll = session.close = None  # type: ignore[method-assign,assignment]
    answered = sorted(operation.complete_ns or 0 for operation in bench.history)
    bench.turn(100_000_000)
    held_ns = bench.now_ns
    bench.load.close()
    last = [end for end in bench.ends if end.cause is SessionCause.SILENT]
    assert len(last) == 3
    assert {end.ended_ns for end in last} <= set(answered)
    assert all(end.held_ns is not None and end.held_ns >= held_ns for end in last)
    begun_s = [round((end.ended_ns - last[0].ended_ns) / 1e9) for end in last]
    assert begun_s == [0, 6, 12]


def test_a_client_that_would_fall_silent_does_not_begin_when_the_load_ends() -> None:
    bench = Bench(WorkloadSettings(slots=1, sessions=1, silent=2))
    bench.turn()
    bench.load.stop()
    bench.turn(60_000_000_000)
    assert len(bench.sessions) == 2
    assert bench.load.next_deadline_ns() == NEVER_NS


def test_sessions_that_have_not_ended_can_be_written_down_and_go_on() -> None:
    bench = Bench(WorkloadSettings(slots=2, sessions=2, silent=1))
    bench.turn()
    bench.turn()
    bench.sessions[0].error = NodeError("closed")
    causes = [end.cause for end in bench.load.open_sessions()]
    assert causes == [SessionCause.CLUSTER, SessionCause.OPEN, SessionCause.SILENT]
    assert not any(session.is_closed for session in bench.sessions)
    assert bench.ends == []


def test_a_new_leader_makes_what_the_old_one_was_sent_unknown() -> None:
    bench = Bench(WorkloadSettings(slots=3, sessions=1))
    bench.turn()
    session = bench.sessions[0]
    session.responses.clear()
    session.leadership_term_id = 1
    bench.turn()
    assert [operation.outcome for operation in bench.history] == [Outcome.UNKNOWN] * 3


def test_an_operation_that_the_session_never_took_fails() -> None:
    bench = Bench(WorkloadSettings(slots=2, sessions=1))
    bench.turn()
    session = bench.sessions[0]
    session.accepts = False
    bench.turn()
    bench.history.clear()
    session.is_closed = True
    bench.turn()
    outcomes = Counter(operation.outcome for operation in bench.history)
    assert outcomes[Outcome.FAIL] == 1
    offered = {decode_operation(payload)[0] for payload in session.offered}
    assert all(operation.id not in offered for operation in bench.history if operation.outcome is Outcome.FAIL)


def test_stop_lets_the_outstanding_end_and_invokes_nothing_more() -> None:
    bench = Bench(WorkloadSettings(slots=4, sessions=2))
    bench.turn()
    idle = [bench.load.is_idle]
    bench.load.stop()
    bench.turn()
    idle.append(bench.load.is_idle)
    assert idle == [False, True]
    assert bench.turn() == 0
    assert len(bench.history) == 4


def test_close_settles_what_is_outstanding_as_unknown() -> None:
    bench = Bench(WorkloadSettings(slots=4, sessions=2))
    bench.turn()
    bench.load.close()
    assert [operation.outcome for operation in bench.history] == [Outcome.UNKNOWN] * 4
    assert all(session.is_closed for session in bench.sessions)
    assert bench.turn() == 0


def test_the_rate_bounds_what_is_invoked() -> None:
    bench = Bench(WorkloadSettings(slots=10, sessions=2, rate=100))
    for _ in range(100):
        bench.turn(10_000_000)
    assert 80 <= len(bench.history) <= 101
    assert bench.load.next_deadline_ns() <= bench.now_ns + 10_000_001


def test_the_end_of_each_session_is_told_with_its_cause() -> None:
    bench = Bench(WorkloadSettings(slots=3, sessions=3))
    bench.turn()
    told, lost, _ = bench.sessions
    told.error, lost.error = NodeError("closed"), TimeoutExpired("no leader")
    told.session_id, lost.session_id = SessionId(5), SessionId(6)
    lost.leadership_term_id = TermId(4)
    told.is_closed = lost.is_closed = True
    before_ns = bench.now_ns
    bench.turn(0)
    bench.load.close()
    causes = [(end.session, end.leadership_term_id, end.cause) for end in bench.ends]
    assert causes == [(5, 0, SessionCause.CLUSTER), (6, 0, SessionCause.LOST), (1, 0, SessionCause.CLIENT)]
    assert before_ns < bench.ends[0].ended_ns <= bench.now_ns


def test_a_session_that_never_opened_has_no_end() -> None:
    bench = Bench(WorkloadSettings(slots=1, sessions=1))
    bench.turn()
    bench.sessions[0].session_id = SessionId(-1)
    bench.load.close()
    assert bench.ends == []
