"""Sessions, timers, money, messages of services and snapshots: good logs keep the promises, broken ones are found."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_events import FIRST_NUMBER, SEVERAL, EventLog, ledger_log, timers_log, workbench_log
from support.built_runs import new_term
from upheaval.checkers.judge import verify_run
from upheaval.checkers.known_bugs import SLOW_DRIVER, recognised
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Rule, Signature
from upheaval.checkers.states.replay import LoggedMessage, Replay
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Function
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values


def judged(log: EventLog, path: Path, promise: str) -> Finding:
    log.write(path)
    return verify_run(path).finding(promise)


@pytest.mark.parametrize(
    ("make", "promises"),
    [
        (
            ledger_log,
            [
                Promise.SESSIONS_KEPT,
                Promise.SERVICE_MESSAGES_ONCE,
                Promise.MONEY_CONSERVED,
                Promise.STATES_AGREE,
                Promise.SNAPSHOT_IS_REPLAY,
            ],
        ),
        (timers_log, [Promise.SESSIONS_KEPT, Promise.TIMERS_KEPT, Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY]),
        (workbench_log, [Promise.SESSIONS_KEPT, Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY]),
    ],
)
def test_a_good_log_keeps_every_promise(make: Callable[[], EventLog], promises: list[str], tmp_path: Path) -> None:
    make().write(tmp_path)
    report = verify_run(tmp_path)
    found = {finding.promise: finding for finding in report.findings}
    assert [promise for promise in found if promise in promises] == promises
    assert all(found[promise].verdict is Verdict.VALID for promise in promises), report.findings
    assert report.finding(Promise.LINEARIZABLE).verdict is Verdict.VALID


# --- sessions ---


def talks_after_its_end(log: EventLog) -> str:
    log.close()
    log.ask(Function.WRITE, "k", 1)
    return "session 1 closed at position "


def closes_twice(log: EventLog) -> str:
    log.close()
    log.close(reason=cm.CloseReason.TIMEOUT)
    return "session 1 closed at position "


def opens_twice(log: EventLog) -> str:
    log.open()
    return "session 1 opened at position "


def never_opens(log: EventLog) -> str:
    log.ask(Function.WRITE, "k", 1, session=5)
    return "session 5 never opened"


def closes_without_a_reason(log: EventLog) -> str:
    log.close(reason=9)
    return "for unknown reason 9"


@pytest.mark.parametrize(
    "damage", [talks_after_its_end, closes_twice, opens_twice, never_opens, closes_without_a_reason]
)
def test_what_a_session_may_not_do_is_found(damage: Callable[[EventLog], str], tmp_path: Path) -> None:
    log = EventLog("workbench")
    log.open()
    log.ask(Function.WRITE, "k", 0)
    expected = damage(log)
    finding = judged(log, tmp_path, Promise.SESSIONS_KEPT)
    assert finding.verdict is Verdict.INVALID
    assert expected in finding.detail


# --- messages of services, and money ---


def broken_ledger(damage: Callable[[EventLog], object]) -> EventLog:
    log = ledger_log()
    damage(log)
    log.snapshots.clear()
    return log


@pytest.mark.parametrize(
    ("number", "expected"),
    [(FIRST_NUMBER + 2 * SEVERAL - 1, "is there again"), (FIRST_NUMBER + 2 * SEVERAL + 1, "comes after message 16")],
)
def test_a_message_of_a_service_that_is_doubled_or_missing_is_found(number: int, expected: str, tmp_path: Path) -> None:
    log = ledger_log()
    log.number = number
    log.credit(0, "a", 5)
    finding = judged(log, tmp_path, Promise.SERVICE_MESSAGES_ONCE)
    assert finding.verdict is Verdict.INVALID
    assert expected in finding.detail


def test_a_second_credit_makes_money(tmp_path: Path) -> None:
    finding = judged(broken_ledger(lambda log: log.credit(0, "a", 5)), tmp_path, Promise.MONEY_CONSERVED)
    assert finding.verdict is Verdict.INVALID
    assert "5 for account a by transfer 0" in finding.detail
    assert "money was made" in finding.detail


def test_a_credit_that_never_comes_is_lost_money(tmp_path: Path) -> None:
    def lose(log: EventLog) -> None:
        lost = log.ask(Function.TRANSFER, "a", ["b", 1], True)
        for _ in range(30):
            other = log.ask(Function.TRANSFER, "b", ["a", 1], True)
            log.credit(other, "a", 1)
            log.tick(60)
        assert lost

    finding = judged(broken_ledger(lose), tmp_path, Promise.MONEY_CONSERVED)
    assert finding.verdict is Verdict.INVALID
    assert "never came to account b" in finding.detail


def test_a_read_of_too_much_money_is_found(tmp_path: Path) -> None:
    log = ledger_log()
    index = next(i for i, o in enumerate(log.operations) if o.f is Function.BALANCES and i > SEVERAL)
    log.operations[index] = replace(log.operations[index], result=[["", 0], ["a", 100], ["b", 101]])
    finding = judged(log, tmp_path, Promise.MONEY_CONSERVED)
    assert finding.verdict is Verdict.INVALID
    assert f"operation id={log.operations[index].id} at position" in finding.detail
    assert "201 together, 2 accounts began with 200" in finding.detail


def test_an_answer_that_the_log_does_not_give_is_found_even_if_the_sum_is_right(tmp_path: Path) -> None:
    log = ledger_log()
    index = next(i for i, o in enumerate(log.operations) if o.f is Function.BALANCES)
    log.operations[index] = replace(log.operations[index], result=[["", 0], ["a", 100], ["b", 100]])
    finding = judged(log, tmp_path, Promise.MONEY_CONSERVED)
    assert finding.verdict is Verdict.INVALID
    assert "the log before it gives" in finding.detail


# --- timers ---


def fires_twice(log: EventLog) -> str:
    log.fire(0)
    return "timer 0 fired at position"


def nobody_scheduled(log: EventLog) -> str:
    log.fire(9999)
    return "no service had scheduled it"


def too_early(log: EventLog) -> str:
    log.fire(log.operations[-1].id)
    return "its deadline is"


def after_a_cancel(log: EventLog) -> str:
    timer = log.ask(Function.SCHEDULE, "h", 2000, log.time + 2010)
    cancel = log.ask(Function.CANCEL, "", timer, True)
    log.ask(Function.FIRED, "h", result=[])
    log.fire(timer, at=log.time + 2500)
    return f"operation id={cancel} had cancelled it"


def never_fires(log: EventLog) -> str:
    timer = log.ask(Function.SCHEDULE, "h", 100, log.time + 110)
    for _ in range(30):
        log.ask(Function.FIRED, "i", result=[])
        log.tick(60)
    return f"timer {timer}, scheduled at position"


def fires_too_late(log: EventLog) -> str:
    timer = log.ask(Function.SCHEDULE, "h", 100, log.time + 110)
    for _ in range(20):
        log.ask(Function.FIRED, "i", result=[])
        log.tick(60)
    log.fire(timer)
    return f"timer {timer}, due at time {log.time - 1300}, fired at position"


def reads_what_did_not_fire(log: EventLog) -> str:
    log.ask(Function.FIRED, "h", result=[[0, 1, 2, 1]])
    return "the log before it gives []"


@pytest.mark.parametrize(
    "damage",
    [fires_twice, nobody_scheduled, too_early, after_a_cancel, never_fires, fires_too_late, reads_what_did_not_fire],
)
def test_what_a_timer_may_not_do_is_found(damage: Callable[[EventLog], str], tmp_path: Path) -> None:
    log = timers_log()
    expected = damage(log)
    log.snapshots.clear()
    finding = judged(log, tmp_path, Promise.TIMERS_KEPT)
    assert finding.verdict is Verdict.INVALID
    assert expected in finding.detail


@pytest.mark.parametrize(
    ("damage", "late_ms"),
    [(after_a_cancel, 2400), (never_fires, 1000), (fires_too_late, 800)],
    ids=["after-a-cancel", "never-fires", "fires-too-late"],
)
@pytest.mark.parametrize("is_explained", [True, False])
def test_a_stall_explains_what_a_timer_does_too_late(
    damage: Callable[[EventLog], str], late_ms: int, is_explained: bool, tmp_path: Path
) -> None:
    log = timers_log()
    expected = damage(log)
    log.snapshots.clear()
    run = log.write(tmp_path)
    stall_ms = 3000 if is_explained else 300
    with run.member(1).trace.open("a") as trace:
        trace.write(f'{{"ts":2,"event":"loop-stall","stall_ns":{stall_ms}000000}}\n')
    finding = verify_run(tmp_path).finding(Promise.TIMERS_KEPT)
    assert finding.verdict is (Verdict.UNKNOWN if is_explained else Verdict.INVALID)
    assert expected in finding.detail
    assert ("a stall of 3000 ms (member-1/trace.jsonl:5) explains" in finding.detail) is is_explained
    assert 300 < finding.late_ms <= late_ms


def passed_over(log: EventLog, late_ms: int, elections: int = 1) -> None:
    """A timer that is due before terms begin, and fires so long after that."""
    timer = log.ask(Function.SCHEDULE, "h", 100, log.time + 110)
    log.ask(Function.FIRED, "i", result=[])
    for term in range(1, 1 + elections):
        begin = cm.SCHEMA.decode(new_term(term, 1))
        assert isinstance(begin, cm.NewLeadershipTermEvent)
        log.add(cm.SCHEMA.encode(with_values(begin, timestamp=log.tick(1000))))
    for _ in range(late_ms // 50):
        log.ask(Function.FIRED, "i", result=[])
        log.tick(40)
    log.fire(timer)


@pytest.mark.parametrize(
    ("system", "late_ms", "elections", "verdict"),
    [
        ("upheaval", 1200, 1, Verdict.INVALID),
        ("aeron:1.51.0", 1200, 1, Verdict.VALID),
        ("aeron:1.51.0", 1800, 1, Verdict.INVALID),
        ("aeron:1.51.0", 1800, 2, Verdict.VALID),
    ],
)
def test_aeron_fires_what_was_due_before_an_election_within_a_turn_of_its_wheel(
    system: str, late_ms: int, elections: int, verdict: Verdict, tmp_path: Path
) -> None:
    log = timers_log()
    passed_over(log, late_ms, elections)
    log.snapshots.clear()
    run = log.write(tmp_path)
    run.write_manifest(replace(run.read_manifest(), system=system))
    finding = verify_run(tmp_path).finding(Promise.TIMERS_KEPT)
    assert finding.verdict is verdict, finding


def test_aeron_fires_what_was_due_after_an_election_like_anybody(tmp_path: Path) -> None:
    log = timers_log()
    fires_too_late(log)
    log.snapshots.clear()
    run = log.write(tmp_path)
    run.write_manifest(replace(run.read_manifest(), system="aeron:1.51.0"))
    assert verify_run(tmp_path).finding(Promise.TIMERS_KEPT).verdict is Verdict.INVALID


def test_a_stall_that_explains_a_late_timer_does_not_explain_one_that_fires_twice(tmp_path: Path) -> None:
    log = timers_log()
    after_a_cancel(log)
    expected = fires_twice(log)
    log.snapshots.clear()
    run = log.write(tmp_path)
    with run.member(1).trace.open("a") as trace:
        trace.write('{"ts":2,"event":"loop-stall","stall_ns":3000000000}\n')
    finding = verify_run(tmp_path).finding(Promise.TIMERS_KEPT)
    assert finding.verdict is Verdict.INVALID
    assert expected in finding.detail


def test_a_timer_that_is_due_while_the_log_pauses_fires_when_it_goes_on(tmp_path: Path) -> None:
    log = timers_log()
    log.snapshots.clear()
    timer = log.ask(Function.SCHEDULE, "h", 100, log.time + 110)
    log.tick(10_000)
    log.ask(Function.FIRED, "i", result=[])
    log.fire(timer, at=log.time + 400)
    assert judged(log, tmp_path, Promise.TIMERS_KEPT).verdict is Verdict.VALID


def test_a_timer_that_a_leader_without_a_quorum_was_asked_for_may_fire_when_that_is_committed(tmp_path: Path) -> None:
    log = timers_log()
    log.snapshots.clear()
    timer = log.ask(Function.SCHEDULE, "h", 100, log.time + 110)
    for _ in range(20):
        log.ask(Function.FIRED, "i", result=[])
        log.tick(60)
    log.fire(timer)
    asked = log.operations[timer]
    log.operations[timer] = replace(asked, complete_ns=log.operations[-1].invoke_ns + 1)
    assert judged(log, tmp_path, Promise.TIMERS_KEPT).verdict is Verdict.VALID


def test_an_expiry_on_its_way_when_the_timer_is_cancelled_breaks_nothing(tmp_path: Path) -> None:
    log = timers_log()
    log.snapshots.clear()
    timer = log.ask(Function.SCHEDULE, "h", 10, log.time + 20)
    log.ask(Function.CANCEL, "", timer, True)
    log.fire(timer, at=log.time + 5)
    log.ask(Function.FIRED, "h", result=[])
    finding = judged(log, tmp_path, Promise.TIMERS_KEPT)
    assert finding.verdict is Verdict.VALID, finding
    assert "1 of them on their way" in finding.detail


# --- snapshots ---


def test_a_snapshot_that_misses_a_session_is_found(tmp_path: Path) -> None:
    log = workbench_log()
    snapshot = log.snapshots[1][1]
    snapshot.module = [one for one in snapshot.module if not isinstance(cm.SCHEMA.decode(one), cm.ClusterSession)]
    finding = judged(log, tmp_path, Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert "the consensus module of member 1" in finding.detail
    assert "misses session 1, which is open there" in finding.detail


def test_a_snapshot_of_a_service_that_misses_a_session_is_found(tmp_path: Path) -> None:
    log = workbench_log()
    del log.snapshots[0][0].service[1]
    finding = judged(log, tmp_path, Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert "service 0 of member 0" in finding.detail
    assert finding.signature == Signature(Rule.SESSION_UNKNOWN, entry="ClientSession")
    opened, asked = finding.since, finding.position
    assert opened is not None
    assert asked is not None
    assert 0 < opened < asked
    differ = Finding(Promise.STATES_AGREE, Verdict.INVALID, "other states")
    for version in ("1.44.1", "1.49.3", "1.51.0"):
        marked = recognised([finding, differ], [f"aeron:{version}"])
        assert [one.known_cause for one in marked] == [SLOW_DRIVER, SLOW_DRIVER]
    for system in ("upheaval", "aeron:1.52.0"):
        assert recognised([finding, differ], [system]) == (finding, differ)


def test_a_session_that_a_service_does_not_know_hides_no_other_difference_at_that_position(tmp_path: Path) -> None:
    log = workbench_log()
    del log.snapshots[0][0].service[1]
    module = log.snapshots[1][0]
    module.module = [one for one in module.module if not isinstance(cm.SCHEMA.decode(one), cm.ClusterSession)]
    finding = judged(log, tmp_path, Promise.SNAPSHOT_IS_REPLAY)
    assert [one.signature and one.signature.rule for one in (finding, *finding.besides)] == [
        Rule.SESSION_UNKNOWN,
        Rule.MODULE_NOT_OF_LOG,
    ]
    (marked,) = recognised([finding], ["aeron:1.51.0"])
    assert (marked.members, marked.known) == ((1,), "")


def test_a_session_of_a_service_that_the_log_does_not_have_is_no_known_defect(tmp_path: Path) -> None:
    log = workbench_log()
    service = log.snapshots[0][0].service
    session = cm.SCHEMA.decode(service[1])
    assert isinstance(session, cm.ClientSession)
    service.insert(2, cm.SCHEMA.encode(with_values(session, cluster_session_id=99)))
    finding = judged(log, tmp_path, Promise.SNAPSHOT_IS_REPLAY)
    assert "has session 99, which is not open there" in finding.detail
    assert finding.signature is None


def test_a_snapshot_that_misses_a_timer_is_found(tmp_path: Path) -> None:
    log = timers_log()
    snapshot = log.snapshots[2][0]
    snapshot.module = [one for one in snapshot.module if not isinstance(cm.SCHEMA.decode(one), cm.Timer)]
    finding = judged(log, tmp_path, Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert "member 2" in finding.detail
    assert "misses timer" in finding.detail


def test_a_snapshot_that_the_log_does_not_ask_for_is_found(tmp_path: Path) -> None:
    log = workbench_log()
    position = log.snapshots[1][0].position
    log.snapshots[1][0].position = position + 64
    finding = judged(log, tmp_path, Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert f"at position {position + 64}, where the log asks for none" in finding.detail


def test_a_snapshot_with_the_wrong_number_of_messages_is_found(tmp_path: Path) -> None:
    log = ledger_log()
    module = log.snapshots[0][1].module
    module[-2] = cm.SCHEMA.encode(cm.PendingMessageTracker(FIRST_NUMBER + 3, FIRST_NUMBER + 2, 4096, 0))
    finding = judged(log, tmp_path, Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    assert "goes on with message 4 of service 0, the log gives 17" in finding.detail


def state_with(log: EventLog, victim: int, times: int) -> list[bytes]:
    """What a member records at the end that has applied the entry of that operation so many times."""
    replay = Replay("workbench")
    marker = struct.pack("<q", victim)
    for position, message in enumerate(log.messages):
        for _ in range(times if message[32:40] == marker else 1):
            replay.apply(LoggedMessage(position, message))
    return list(replay.state().messages)


@pytest.mark.parametrize(("times", "words"), [(0, "has left out this one"), (2, "has applied twice this one")])
def test_the_first_entry_is_named_at_which_a_member_left_the_others(times: int, words: str, tmp_path: Path) -> None:
    log = workbench_log()
    victim = log.operations[9]
    assert victim.position is not None
    snapshot = log.snapshots[1][1]
    snapshot.service = [*snapshot.service[:3], *state_with(log, victim.id, times)]
    finding = judged(log, tmp_path, Promise.STATES_AGREE)
    assert finding.verdict is Verdict.INVALID
    assert f"operation id={victim.id} " in finding.detail
    assert f"at position {victim.position}" in finding.detail
    assert f"member 1 {words}" in finding.detail
    assert verify_run(tmp_path).finding(Promise.SNAPSHOT_IS_REPLAY).verdict is Verdict.INVALID


def test_no_entry_is_blamed_for_a_record_that_none_touched(tmp_path: Path) -> None:
    log = workbench_log()
    log.add(struct.pack("<HHHH", 0, 9999, 111, 17))  # of an unknown template
    log.ask(Function.WRITE, "other", 2)
    log.snapshot()
    snapshot = log.snapshots[1][-1]
    snapshot.service = [*snapshot.service[:3], *state_with(log, log.operations[1].id, 0)]
    finding = judged(log, tmp_path, Promise.STATES_AGREE)
    assert finding.verdict is Verdict.INVALID
    assert "no entry since the last equal state touches what differs: of record 'l' member 1 has" in finding.detail


@pytest.mark.parametrize(
    ("owners", "verdict"),
    [
        ({0: (0, 1)}, Verdict.UNKNOWN),
        ({0: (0,), 1: (1,)}, Verdict.UNKNOWN),
        ({0: (0, 1), 1: (1,)}, Verdict.VALID),
    ],
    ids=["of one member", "at other positions", "at one position"],
)
def test_states_that_nothing_was_compared_with_do_not_agree(
    owners: dict[int, tuple[int, ...]], verdict: Verdict, tmp_path: Path
) -> None:
    """`owners`: which snapshots, by their numbers, each member has."""
    log = workbench_log()
    taken = log.snapshots
    log.snapshots = {member: [taken[member][number] for number in numbers] for member, numbers in owners.items()}
    run = log.write(tmp_path)
    run.write_manifest(replace(run.read_manifest(), demanded=(Promise.STATES_AGREE,)))
    finding = verify_run(tmp_path).finding(Promise.STATES_AGREE)
    assert finding.verdict is verdict
    is_unknown = finding.detail == "not checked: no position at which two members have a snapshot"
    assert is_unknown is (verdict is Verdict.UNKNOWN)


def test_a_snapshot_that_is_gone_is_unknown(tmp_path: Path) -> None:
    log = workbench_log()
    log.write(tmp_path)
    for path in (tmp_path / "member-1" / "archive").glob("2?-0.rec"):
        path.unlink()
    for promise in (Promise.STATES_AGREE, Promise.SNAPSHOT_IS_REPLAY):
        finding = verify_run(tmp_path).finding(promise)
        assert finding.verdict is Verdict.UNKNOWN
        assert "member 1" in finding.detail
