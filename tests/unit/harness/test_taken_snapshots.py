"""The promise that an ordered snapshot is taken by every member that runs, from facts alone."""

from dataclasses import replace

import pytest

from upheaval.checkers.evidence.recordings import SnapshotRecord
from upheaval.checkers.evidence.trace_facts import ProcessLife
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.taken_snapshots import Holder, OrderedSnapshot, judge_taken, ordered_snapshots
from upheaval.checkers.verdict import Finding, NotApplicable, Verdict
from upheaval.records import AdminCommand, ControlRecord
from upheaval_chaos.record import Proof

AT = 4096
ORDER = OrderedSnapshot(1, "snapshot", 100, 200, {0: AT, 1: AT})


def snapshot(service_id: int, position: int = AT, *, is_valid: bool = True) -> SnapshotRecord:
    return SnapshotRecord(service_id + 2, 0, 0, position, 1, service_id, is_of_standby=False, is_valid=is_valid)


WHOLE = (snapshot(1), snapshot(0), snapshot(-1))


def holder(
    member_id: int, records: tuple[SnapshotRecord, ...] = WHOLE, begin_ns: int = 0, last_ns: int = 300
) -> Holder:
    life = ProcessLife(member_id, "all", 1, begin_ns, last_ns)
    return Holder(f"member-{member_id}", member_id, records, (life,))


def judged(*holders: Holder, order: OrderedSnapshot = ORDER, services: int = 2) -> Finding:
    finding = judge_taken([order], holders, services)
    assert isinstance(finding, Finding)
    return finding


def test_members_that_have_it_keep_the_promise() -> None:
    finding = judged(holder(0), holder(1), holder(2))
    assert finding.verdict is Verdict.VALID
    assert finding.detail == "1 ordered snapshots are on every member that ran, 3 sets have every service"


def test_without_snapshots_there_is_nothing_to_judge() -> None:
    result = judge_taken([], [holder(0, ())], 1)
    assert result == NotApplicable(Promise.SNAPSHOTS_TAKEN, "no snapshot was ordered, and no recording log names one")


def test_a_member_that_ran_and_has_none_is_named() -> None:
    finding = judged(holder(0), holder(1), holder(2, ()))
    assert (finding.verdict, finding.members, finding.position) == (Verdict.INVALID, (2,), AT)


@pytest.mark.parametrize(
    "absent",
    [
        holder(2, (), begin_ns=150),
        holder(2, (), last_ns=150),
        replace(holder(2, ()), failures=(120,)),
        replace(holder(2, ()), lives=(ProcessLife(2, "service-0", 1, 0, 300),)),
    ],
    ids=["started meanwhile", "ended meanwhile", "said that it failed", "no process with a module"],
)
def test_who_did_not_run_through_or_says_why_not_needs_none(absent: Holder) -> None:
    assert judged(holder(0), holder(1), absent).verdict is Verdict.VALID


def test_a_failure_after_the_command_is_no_reason() -> None:
    assert judged(holder(0), replace(holder(1, ()), failures=(201,))).members == (1,)


def test_a_failure_in_an_earlier_process_is_no_reason() -> None:
    lives = ProcessLife(1, "all", 1, 0, 20), ProcessLife(1, "all", 7, 30, 300)
    absent = replace(holder(1, ()), lives=lives, failures=(10,))
    assert judged(holder(0), absent).members == (1,)
    assert judged(holder(0), replace(absent, failures=(10, 40))).verdict is Verdict.VALID


def test_one_that_was_made_invalid_was_taken() -> None:
    taken = (snapshot(1, is_valid=False), snapshot(0, is_valid=False), snapshot(-1, is_valid=False))
    assert judged(holder(0, taken), holder(1)).verdict is Verdict.VALID


def test_two_positions_of_one_command_are_invalid() -> None:
    finding = judged(holder(0), order=replace(ORDER, seen={0: AT, 1: 64}))
    assert (finding.verdict, finding.members, finding.position) == (Verdict.INVALID, (0, 1), 64)


def test_a_command_that_holds_and_names_no_member_is_unknown() -> None:
    assert judged(holder(0), order=replace(ORDER, seen={})).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_set_without_a_service_is_invalid(lacking: int) -> None:
    records = tuple(record for record in WHOLE if record.service_id != lacking)
    finding = judged(holder(0), holder(1, records))
    assert (finding.verdict, finding.members, finding.position) == (Verdict.INVALID, (1,), AT)
    assert f"none of service {lacking} there" in finding.detail


@pytest.mark.parametrize(
    ("taken_ns", "verdict"), [({AT: 150}, Verdict.INVALID), ({AT: 5}, Verdict.VALID), ({}, Verdict.VALID)]
)
def test_a_set_without_a_service_may_be_what_a_power_cut_left(taken_ns: dict[int, int], verdict: Verdict) -> None:
    lacking = replace(holder(1, WHOLE[1:]), taken_ns=taken_ns, lost_ns=9)
    assert judged(holder(0), lacking).verdict is Verdict.INVALID
    assert judged(holder(0), replace(lacking, lost_power=True)).verdict is verdict


def test_services_without_their_module_are_a_death_between_two_records() -> None:
    unfinished = (*WHOLE, snapshot(1, 8192), snapshot(0, 8192))
    assert judged(holder(0, unfinished), holder(1)).verdict is Verdict.VALID


def test_commands_that_do_not_hold_and_others_ask_for_nothing() -> None:
    def control(what: str, *, holds: bool) -> ControlRecord:
        return ControlRecord(what, 1, 2, 0, {"0": {"snapshot_position": AT}, "1": None}, Proof(holds, ""))

    controls = [control("snapshot", holds=False), control("suspend", holds=True), control("snapshot", holds=True)]
    (order,) = ordered_snapshots(controls, AdminCommand.SNAPSHOT, "snapshot_position")
    assert order == OrderedSnapshot(3, "snapshot", 1, 2, {0: AT})
