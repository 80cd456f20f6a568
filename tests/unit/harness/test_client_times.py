"""Answers in time, and sessions that end when their clients are gone: the rules on values, without files."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.call_times import TakenCall
from upheaval.checkers.evidence.events import LogEvents
from upheaval.checkers.evidence.leader_clocks import LeaderClock
from upheaval.checkers.evidence.troubles import Trouble
from upheaval.checkers.liveness.client_times import ClientTimes, is_slow, judge_client_times
from upheaval.checkers.verdict import Finding, NotApplicable, Verdict
from upheaval.records import Function, Operation, Outcome, SessionCause, SessionEnd
from upheaval_node.protocol.cluster_messages import CloseReason
from upheaval_node.types import MS, NEVER_NS, S

# The wall clock of the leader is a million seconds ahead of the monotonic one.
OFFSET_MS = 10**9
ALLOWED_MS = 12_000
LED = LeaderClock(0, 2, OFFSET_MS, None, 0, "member-2/trace.jsonl", OFFSET_MS, 1 * S)
NEXT = replace(LED, leadership_term_id=1, member_id=1, ready_ns=40 * S)
KNOWN = ClientTimes(10 * S, 10 * S, 5 * S)
LOST = SessionEnd(7, 0, 20 * S, SessionCause.LOST)


def log(*, ends_ms: int = 100_000, term: int = 0) -> LogEvents:
    """Of a session that opened at 2 s and said something at 15 s; the log goes on up to some time of the leader's."""
    events = LogEvents()
    for its_term, ms in ((0, 1_000), (0, 20_000), (term, ends_ms)):
        events.add_time(its_term, ms, OFFSET_MS + ms)
    facts = events.session(7)
    facts.add_open(2_000, 0, OFFSET_MS + 2_000)
    facts.add_message(15_000, 0, OFFSET_MS + 15_000)
    return events


def closed(ms: int, reason: CloseReason = CloseReason.TIMEOUT, term: int = 0) -> LogEvents:
    events = log(term=term)
    events.session(7).add_close(ms, reason, term, OFFSET_MS + ms)
    return events


def judged(
    events: LogEvents, end: SessionEnd = LOST, clocks: tuple[LeaderClock, ...] = (LED,), known: ClientTimes = KNOWN
) -> Finding:
    found = judge_client_times(replace(known, ends=(end,)), (), events, clocks)
    assert len(found) == 1
    return found[0]


def test_a_session_that_times_out_in_time_is_as_it_should_be() -> None:
    assert judged(closed(20_000 + ALLOWED_MS)).verdict is Verdict.VALID


@pytest.mark.parametrize("reason", list(CloseReason))
def test_one_that_closes_too_late_is_found(reason: CloseReason) -> None:
    end = replace(LOST, cause=SessionCause.CLIENT)
    found = judged(closed(20_000 + ALLOWED_MS + 100, reason), end)
    assert (found.verdict, found.position, found.late_ms) == (Verdict.INVALID, 32_100, 90)


def test_one_that_never_closes_is_found_where_the_log_goes_on() -> None:
    assert judged(log(ends_ms=20_000 + ALLOWED_MS)).verdict is Verdict.VALID
    found = judged(log())
    assert (found.verdict, found.position, found.members) == (Verdict.INVALID, 100_000, (2,))


def test_one_that_never_closes_is_found_where_the_run_goes_on_and_the_log_does_not() -> None:
    events = log(ends_ms=21_000)
    assert judged(events).verdict is Verdict.VALID
    ended = replace(KNOWN, completed_ns=90 * S, last_term=0)
    assert judged(events, known=ended).verdict is Verdict.INVALID
    assert judged(events, known=replace(ended, last_term=1)).verdict is Verdict.VALID


def test_a_new_leader_begins_the_time_out_anew() -> None:
    both = (LED, NEXT)
    late = closed(40_000 + ALLOWED_MS, term=1)
    assert judged(late, clocks=both).verdict is Verdict.VALID
    assert judged(closed(40_000 + ALLOWED_MS + 100, term=1), clocks=both).verdict is Verdict.INVALID
    # It was due in the term before, which went on for long enough.
    late.add_time(0, 39_000, OFFSET_MS + 39_000)
    assert judged(late, clocks=both).verdict is Verdict.INVALID
    assert judged(late, replace(LOST, ended_ns=39 * S), both).verdict is Verdict.VALID


@pytest.mark.parametrize("until_ns", [25 * S, NEVER_NS])
def test_what_is_done_to_the_cluster_begins_the_time_out_anew(until_ns: int) -> None:
    late = closed(25_000 + ALLOWED_MS)
    assert judged(late).verdict is Verdict.INVALID
    assert judged(late, known=replace(KNOWN, troubles=(Trouble(21 * S, until_ns),))).verdict is Verdict.VALID
    assert judged(late, clocks=(replace(LED, busy=((21 * S, until_ns),)),)).verdict is Verdict.VALID
    assert judged(late, known=replace(KNOWN, troubles=(Trouble(3 * S, 4 * S),))).verdict is Verdict.INVALID


def test_what_is_done_when_the_time_out_is_over_explains_nothing() -> None:
    late = closed(70_000)
    for until_ns in (69 * S, NEVER_NS):
        assert judged(late, known=replace(KNOWN, troubles=(Trouble(60 * S, until_ns),))).verdict is Verdict.INVALID


def test_the_terms_before_a_session_and_after_its_end_say_nothing_of_it() -> None:
    events = closed(21_000)
    events.add_time(1, 95_000, OFFSET_MS + 95_000)
    assert judged(events, clocks=(LED, NEXT)).verdict is Verdict.VALID
    events = log(ends_ms=41_000, term=1)
    events.add_time(0, 39_000, OFFSET_MS + 90_000)
    events.session(7).open_term = 1
    assert judged(events, replace(LOST, leadership_term_id=1), (LED, NEXT)).verdict is Verdict.VALID


def test_a_clock_that_moved_is_allowed_for() -> None:
    late = closed(21_000 + ALLOWED_MS)
    assert judged(late, clocks=(replace(LED, moved_ms=1_000),)).verdict is Verdict.VALID


def test_a_session_that_opened_in_another_term_is_another_one() -> None:
    assert judged(log(), replace(LOST, leadership_term_id=1)).verdict is Verdict.VALID
    assert judged(log()).verdict is Verdict.INVALID


def test_a_leader_without_a_finished_election_says_nothing() -> None:
    assert judged(log(), clocks=(replace(LED, ready_ns=-1),)).verdict is Verdict.VALID


def test_a_client_closes_only_what_it_closed() -> None:
    events = closed(16_000, CloseReason.CLIENT_ACTION)
    for cause in (SessionCause.LOST, SessionCause.CLUSTER):
        assert judged(events, replace(LOST, cause=cause)).verdict is Verdict.INVALID
    assert judged(events, replace(LOST, cause=SessionCause.CLIENT)).verdict is Verdict.VALID


def test_a_session_in_use_does_not_time_out() -> None:
    told = replace(LOST, cause=SessionCause.CLUSTER, ended_ns=18 * S)
    calm = closed(17_000)
    found = judged(calm, told)
    assert (found.verdict, found.position, found.late_ms) == (Verdict.INVALID, 17_000, 5_000)
    assert judged(closed(20_000), told).verdict is Verdict.VALID
    assert judged(calm, replace(told, cause=SessionCause.LOST)).verdict is Verdict.VALID
    assert judged(calm, told, clocks=(replace(LED, ready_ns=6 * S),)).verdict is Verdict.VALID
    assert judged(calm, told, known=replace(KNOWN, troubles=(Trouble(3 * S, 6 * S),))).verdict is Verdict.VALID
    assert judged(calm, told, clocks=(replace(LED, busy=((6 * S, 6 * S),)),)).verdict is Verdict.VALID


def test_a_session_in_use_may_be_closed_by_a_service_and_time_out_after_a_change_of_leader() -> None:
    told = replace(LOST, cause=SessionCause.CLUSTER, ended_ns=61 * S)
    assert judged(closed(17_000, CloseReason.SERVICE_ACTION), told).verdict is Verdict.VALID
    events = closed(60_000, term=1)
    assert judged(events, told, (LED, NEXT)).verdict is Verdict.VALID
    events.session(7).last = (1, OFFSET_MS + 58_000)
    assert judged(events, told, (LED, NEXT)).verdict is Verdict.INVALID
    events.session(7).last = (0, OFFSET_MS + 58_000)
    assert judged(events, told, (LED, NEXT)).verdict is Verdict.VALID


SILENT = SessionEnd(7, 0, 15 * S, SessionCause.SILENT, 0, 80 * S)


def test_a_silent_client_keeps_its_session_for_the_whole_time_out() -> None:
    assert judged(closed(25_000), SILENT).verdict is Verdict.VALID
    found = judged(closed(24_900), SILENT)
    assert (found.verdict, found.position, found.members, found.late_ms) == (Verdict.INVALID, 24_900, (2,), 90)
    assert "closed at position 24900 by time-out, 9910 ms after its last message" in found.detail


def test_it_may_lose_it_earlier_with_its_connection() -> None:
    early = closed(20_000)
    assert judged(early, SILENT).verdict is Verdict.INVALID
    assert judged(early, replace(SILENT, held_ns=19 * S)).verdict is Verdict.VALID
    assert judged(early, SILENT, known=replace(KNOWN, troubles=(Trouble(16 * S, 17 * S),))).verdict is Verdict.VALID
    assert judged(early, SILENT, known=replace(KNOWN, troubles=(Trouble(13 * S, 14 * S),))).verdict is Verdict.INVALID


def test_it_must_have_lost_it_in_time() -> None:
    assert judged(closed(15_000 + ALLOWED_MS), SILENT).verdict is Verdict.VALID
    assert judged(closed(15_000 + ALLOWED_MS + 100), SILENT).verdict is Verdict.INVALID
    assert judged(closed(26_000, CloseReason.CLIENT_ACTION), SILENT).verdict is Verdict.INVALID


def test_a_session_that_is_still_open_has_not_ended() -> None:
    still = replace(LOST, cause=SessionCause.OPEN)
    assert judged(log(), replace(still, ended_ns=100 * S)).detail.startswith("0 sessions ended")
    assert judged(closed(50_000, CloseReason.CLIENT_ACTION), still).verdict is Verdict.INVALID


def operation(took_ns: int, f: Function = Function.READ, outcome: Outcome = Outcome.OK) -> Operation:
    return Operation(1, 0, f, "k", None, 50 * S, 50 * S + took_ns, outcome, None, 9)


def test_only_answers_of_shipped_services_are_slow() -> None:
    assert is_slow(operation(10 * S + 1), KNOWN)
    assert not is_slow(operation(10 * S), KNOWN)
    assert not is_slow(operation(99 * S, Function.CALL), KNOWN)
    assert not is_slow(operation(99 * S, outcome=Outcome.UNKNOWN), KNOWN)


def test_a_late_answer_is_found_where_nothing_was_done_to_the_cluster() -> None:
    late = operation(100 * S)
    (found,) = judge_client_times(KNOWN, [late], LogEvents(), ())
    assert (found.verdict, found.operation, found.late_ms) == (Verdict.INVALID, 1, 90 * S // MS)
    faulty = replace(KNOWN, troubles=(Trouble(51 * S, 140 * S),))
    assert [type(each) for each in judge_client_times(faulty, [late], LogEvents(), ())] == [NotApplicable]
    short = replace(KNOWN, troubles=(Trouble(51 * S, 52 * S),))
    assert judge_client_times(short, [late], LogEvents(), ())[0].late_ms == 88 * S // MS


def test_a_call_is_late_by_its_entry_and_not_by_its_answer() -> None:
    call = operation(100 * S, Function.CALL)
    in_time = TakenCall(call, 640, 60 * S, 60 * S + MS, 2)
    assert [type(each) for each in judge_client_times(KNOWN, (), LogEvents(), (), [in_time])] == [NotApplicable]
    late = replace(in_time, earliest_ns=62 * S)
    (found,) = judge_client_times(KNOWN, (), LogEvents(), (), [late])
    assert isinstance(found, Finding)
    assert (found.verdict, found.operation, found.position, found.members) == (Verdict.INVALID, 1, 640, (2,))
    assert found.late_ms == 2_000
    for excused in (replace(late, busy=((51 * S, 53 * S),)), replace(late, ready_ns=52 * S)):
        assert [type(each) for each in judge_client_times(KNOWN, (), LogEvents(), (), [excused])] == [NotApplicable]


IDLE = SessionEnd(7, 0, 60 * S + MS, SessionCause.CLUSTER, 0, sent_ns=59 * S)
"""Of a client that sent a keep-alive each second until the cluster closed its session."""


def test_a_session_that_its_client_keeps_alive_does_not_time_out() -> None:
    found = judged(closed(60_000), IDLE)
    assert (found.verdict, found.position, found.members, found.late_ms) == (Verdict.INVALID, 60_000, (2,), 8_990)
    assert "closed at position 60000 by time-out while its client kept it alive" in found.detail


@pytest.mark.parametrize(
    "end",
    [
        replace(IDLE, sent_ns=54 * S),
        replace(IDLE, sent_ns=None),
        replace(IDLE, followed_term_id=1),
        replace(IDLE, cause=SessionCause.LOST),
    ],
)
def test_one_whose_client_sent_nothing_or_elsewhere_may_time_out(end: SessionEnd) -> None:
    assert judged(closed(60_000), end).verdict is Verdict.VALID


def test_a_keep_alive_may_be_lost_while_something_is_done_to_the_cluster() -> None:
    for trouble in (Trouble(10 * S, 56 * S), Trouble(60 * S, 70 * S)):
        assert judged(closed(60_000), IDLE, known=replace(KNOWN, troubles=(trouble,))).verdict is Verdict.VALID
    assert judged(closed(60_000), IDLE, known=replace(KNOWN, troubles=(Trouble(1, 54 * S),))).verdict is Verdict.INVALID
    assert judged(closed(60_000), IDLE, (replace(LED, ready_ns=56 * S),)).verdict is Verdict.VALID


ASKED = SessionEnd(7, 0, 20 * S, SessionCause.CLIENT, 0, sent_ns=20 * S)


def test_a_client_that_asks_to_close_its_session_closes_it() -> None:
    assert judged(closed(20_001, CloseReason.CLIENT_ACTION), ASKED).verdict is Verdict.VALID
    found = judged(closed(20_500), ASKED)
    assert (found.verdict, found.position) == (Verdict.INVALID, 20_500)
    assert "by time-out after its client had asked to close it" in found.detail


def test_a_request_to_close_that_nothing_took_may_have_no_effect() -> None:
    assert judged(closed(20_500), replace(ASKED, sent_ns=19 * S)).verdict is Verdict.VALID
    trouble = (Trouble(18 * S, 19 * S),)
    assert judged(closed(20_500), ASKED, known=replace(KNOWN, troubles=trouble)).verdict is Verdict.VALID
