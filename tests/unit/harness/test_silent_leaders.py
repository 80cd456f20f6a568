"""A leader that answers no client is found between the faults of its silence: they explain only what they hit."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.checkers.evidence.call_times import CallTimes
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.evidence.troubles import failover_ns, timeouts_of
from upheaval.checkers.history.columns import History
from upheaval.checkers.liveness.progress import check_progress
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import ControlRecord, Function, Manifest, Operation, Outcome, RunFolder
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import MS, S

MANIFEST = Manifest("run-1", "process", 3, "aeron", 1)
ALLOWED_S = failover_ns(timeouts_of(MANIFEST)) // S
FOUND_S = ALLOWED_S + 2 * timeouts_of(MANIFEST).session_ns // S
LEADER, ONE, OTHER = range(3)
SILENT_S, OVER_S = 100, 400
SESSION = 7


def fault(what: str, begin_s: float, end_s: float | None, *members: int) -> FaultRecord:
    begin_ns, end_ns = int(begin_s * S), None if end_s is None else int(end_s * S)
    return FaultRecord(what, "", begin_ns, begin_ns, end_ns, end_ns, members=members)


def asked(second: float, answered: float | None, session: int | None = SESSION) -> Operation:
    """By a client, whose operation has the number of its millisecond."""
    number, completed_ns = int(second * 1000), None if answered is None else int(answered * S)
    outcome = Outcome.UNKNOWN if answered is None else Outcome.OK
    position = None if answered is None else number
    return Operation(
        number, 1, Function.READ, "k", None, int(second * S), completed_ns, outcome, None, position, session
    )


def refused(second: float) -> Operation:
    """Of a client without a session, so that it was not sent."""
    return replace(asked(second, second + 1, None), outcome=Outcome.FAIL, position=None)


LONG_SILENCE = [asked(90, 90.1), asked(SILENT_S, OVER_S), asked(OVER_S - 0.1, OVER_S)]
"""One request waits for the whole silence, and the client runs up to its end."""
IN_VAIN = [asked(90, 90.1), *(asked(second, None) for second in range(SILENT_S, OVER_S, 20)), asked(420, 420.1, 8)]


def judged(
    path: Path,
    *faults: FaultRecord,
    operations: list[Operation] = LONG_SILENCE,
    commands: tuple[ControlRecord, ...] = (),
    calls: CallTimes | None = None,
    stall_s: int = 0,
) -> Finding:
    """The members are in one term all the time; a leader that stalls does so up to second 390."""
    run = RunFolder(path)
    run.create(MANIFEST)
    for member_id in range(3):
        fields = {"leadership_term_id": 0, "leader_member_id": LEADER, "state": "CLOSED"}
        lines = [{"ts": 0, "event": "process-start"}, {"ts": S, "event": "election_state", **fields}]
        if stall_s and member_id == LEADER:
            lines.append({"ts": 390 * S, "event": "loop-stall", "stall_ns": stall_s * S})
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for each in faults:
        run.add_fault(each)
    for command in commands:
        run.add_control(command)
    (result,) = check_progress(run, MANIFEST, facts_of_members(run, 3), History.of(operations), calls)
    assert isinstance(result, Finding)
    return result


@pytest.mark.parametrize("operations", [LONG_SILENCE, IN_VAIN], ids=["waits", "in vain"])
@pytest.mark.parametrize(
    ("faults", "begin_s", "end_s"),
    [
        ((), 100, 400),
        ((fault("pause", 395, 396, LEADER),), 100, 395),
        ((fault("pause", 150, 151, ONE), fault("pause", 390, 391, OTHER)), 100, 390),
        ((fault("kill", 120, None, ONE), fault("pause", 390, 391, OTHER)), 100, 390),
        ((fault("pause", 60, 110, ONE), fault("kill", 105, None, OTHER)), 110 + ALLOWED_S, 400),
    ],
    ids=["none", "of the leader at its end", "of one follower after the other", "stays down", "before"],
)
def test_a_silence_is_judged_between_the_faults(
    faults: tuple[FaultRecord, ...], begin_s: int, end_s: int, operations: list[Operation], tmp_path: Path
) -> None:
    finding = judged(tmp_path, *faults, operations=operations)
    assert finding.verdict is Verdict.INVALID
    # Requests that are never answered show only that their client waited from the first to the last of them.
    apart_ms = 20_000 if operations is IN_VAIN else 100
    assert 0 <= (end_s - begin_s - ALLOWED_S) * 1000 - finding.late_ms <= 2 * apart_ms
    assert "member 0 led, and members 0, " in finding.detail


@pytest.mark.parametrize(
    "faults",
    [
        (fault("pause", SILENT_S + ALLOWED_S - 1, 399, LEADER),),
        (fault("pause", SILENT_S - ALLOWED_S + 1, SILENT_S - ALLOWED_S + 2, LEADER), fault("kill", 102, None, LEADER)),
        (fault("kill", SILENT_S + ALLOWED_S - 1, None, ONE, OTHER),),
        (fault("kill", 90, None, ONE), fault("pause", 110, 399, OTHER)),
        tuple(fault("pause", second, second + 1, LEADER) for second in range(SILENT_S, OVER_S, FOUND_S)),
    ],
    ids=["the leader", "again and again", "both followers", "no quorum", "too often to find it"],
)
def test_a_silence_that_faults_explain_is_good(faults: tuple[FaultRecord, ...], tmp_path: Path) -> None:
    assert judged(tmp_path, *faults).verdict is Verdict.VALID


@pytest.mark.parametrize(("until_s", "verdict"), [(FOUND_S - 1, Verdict.VALID), (FOUND_S + 3, Verdict.INVALID)])
def test_after_a_fault_of_the_leader_clients_need_time_to_find_it(
    until_s: int, verdict: Verdict, tmp_path: Path
) -> None:
    """Their sessions may be over."""
    again_s = 100 + ALLOWED_S
    asking = [asked(again_s + second, None) for second in range(until_s + 1)]
    hit = fault("pause", 95, 100, LEADER)
    later = fault("kill", again_s + until_s, None, ONE)
    assert judged(tmp_path, hit, later, operations=[asked(90, 90.1), *asking]).verdict is verdict


def test_a_leader_that_answers_nothing_before_the_first_answer_is_found(tmp_path: Path) -> None:
    in_vain = [asked(second, None) for second in range(2, OVER_S, 5)]
    finding = judged(tmp_path, operations=[*in_vain, asked(OVER_S, OVER_S + 0.1)])
    assert finding.verdict is Verdict.INVALID
    assert "member 0 led, and members 0, 1, 2 were healthy" in finding.detail


@pytest.mark.parametrize(
    "asking",
    [[0.2, 0.5], [2], range(OVER_S - FOUND_S + 2, OVER_S, 5)],
    ids=["before the first leader", "while they look for it", "soon before the first answer"],
)
def test_clients_may_ask_in_vain_until_they_find_the_first_leader(asking: Sequence[float], tmp_path: Path) -> None:
    in_vain = [asked(second, None) for second in asking]
    assert judged(tmp_path, operations=[*in_vain, asked(OVER_S, OVER_S + 0.1)]).verdict is Verdict.VALID


@pytest.mark.parametrize(
    "asking",
    [
        [asked(30, None)],
        [refused(30)],
        [refused(second) for second in range(2, OVER_S, 5)],
        [*(asked(second, None) for second in range(30, 35)), *(asked(second, None) for second in range(300, 305))],
        [asked(100, 100.04), asked(100.05, None)],
    ],
    ids=["one in vain", "one that was not sent", "a load that is refused", "two short loads", "after an answer"],
)
def test_a_pause_between_two_loads_is_no_silence(asking: list[Operation], tmp_path: Path) -> None:
    assert judged(tmp_path, operations=[*asking, asked(OVER_S, OVER_S + 0.1)]).verdict is Verdict.VALID


def test_a_fault_before_the_first_answer_explains_a_silence(tmp_path: Path) -> None:
    in_vain = [asked(second, None) for second in range(2, OVER_S, 5)]
    cut = fault("pause", 1, OVER_S - FOUND_S, ONE)
    assert judged(tmp_path, cut, operations=[*in_vain, asked(OVER_S, OVER_S + 0.1)]).verdict is Verdict.VALID


def test_three_requests_in_vain_must_be_between_the_faults(tmp_path: Path) -> None:
    """Those that a fault of the followers may have delayed show nothing, and two may get lost."""
    early = [asked(second, None) for second in (101, 102, 103)]
    late = [asked(second, None) for second in (200, 230)]
    hits = (fault("kill", 100, 104, ONE, OTHER), fault("kill", 350, None, ONE, OTHER))
    operations = [asked(90, 90.1), *early, *late, asked(500, 500.1)]
    assert judged(tmp_path / "two", *hits, operations=operations).verdict is Verdict.VALID
    operations.append(asked(210, None))
    assert judged(tmp_path / "three", *hits, operations=operations).verdict is Verdict.INVALID


def test_stalls_explain_a_part_of_a_silence(tmp_path: Path) -> None:
    later = fault("pause", 395, 396, LEADER)
    assert judged(tmp_path / "long", later, stall_s=290).verdict is Verdict.UNKNOWN
    assert judged(tmp_path / "short", later, stall_s=200).verdict is Verdict.INVALID


def test_admin_commands_are_troubles_of_all_members(tmp_path: Path) -> None:
    often = tuple(
        ControlRecord("snapshot", second * S, second * S + 1, 0, {}, Proof(True, ""))
        for second in range(SILENT_S, OVER_S, ALLOWED_S - 1)
    )
    assert judged(tmp_path / "often", commands=often).verdict is Verdict.VALID
    assert judged(tmp_path / "once", commands=often[-1:]).verdict is Verdict.INVALID


@pytest.mark.parametrize(("span_s", "verdict"), [((100, 390), Verdict.VALID), ((390, 391), Verdict.INVALID)])
def test_calls_without_a_time_may_have_ended_a_silence(
    span_s: tuple[int, int], verdict: Verdict, tmp_path: Path
) -> None:
    begin_s, end_s = span_s
    calls = CallTimes(untimed=[(begin_s * S, end_s * S + 500 * MS)])
    assert judged(tmp_path, calls=calls).verdict is verdict
