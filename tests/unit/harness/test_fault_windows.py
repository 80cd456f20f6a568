"""When faults were in effect, by traces written by hand: who was alive when it was killed, and what crosses a cut."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.checkers.evidence.fault_windows import check_windows
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import AdminCommand, ControlRecord, Json, Manifest, RunFolder
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import MS, S

Line = dict[str, Json]
SEEN = Proof(True, "seen")
ENDS = ["kill", "power-cut", "wipe", "purge", "damage", "stop", "restart", "wrong-bytes", "die-in-change"]


def line(second: float, event: str, **fields: Json) -> Line:
    return {"ts": int(second * S), "component": "all", "event": event, **fields}


def heard(second: float, sender: int = 0) -> Line:
    return line(second, "receive", message="CommitPosition", leader_member_id=sender)


def lives(begin: float, end: float) -> list[Line]:
    """A process that hears its leader twice a second, the last time at the end."""
    beats = [heard(end - n / 2) for n in range(int(2 * (end - begin)))]
    return [line(begin, "process-start"), line(begin, "election_state", state="INIT"), *reversed(beats)]


def fault(what: str, begin: float, end: float | None = None, *members: int) -> FaultRecord:
    begin_ns, end_ns = int(begin * S), None if end is None else int(end * S)
    healed = None if end is None else SEEN
    return FaultRecord(what, "member-1", begin_ns, begin_ns, end_ns, end_ns, SEEN, healed, members=members or (1,))


ENDED = Proof(True, "the kernel ended 1 process of member 1 for want of memory")
SHORT = fault("memory-limit", 30, 64.9)
OUT_OF_MEMORY = replace(SHORT, inject_proof=ENDED)
TWO_OUT_OF_MEMORY = replace(
    fault("memory-limit", 8, 62, 2), heal_proof=Proof(True, ENDED.evidence.replace("member 1", "member 2"))
)


def judged(
    path: Path,
    trace: list[Line],
    *faults: FaultRecord,
    commands: tuple[ControlRecord, ...] = (),
    zero: tuple[Line, ...] = (),
    two: tuple[Line, ...] = (),
) -> tuple[Verdict, str]:
    """Judge a trace of member 1; the other members run from 0 s to 150 s, unless their traces are given."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", 3, "test", 1))
    for member_id in range(3):
        run.member(member_id).path.mkdir()
        lines = (zero or lives(0, 150), trace, two or lives(0, 150))[member_id]
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    for each in faults:
        run.add_fault(each)
    for command in commands:
        run.add_control(command)
    (result,) = check_windows(Evidence(run))
    assert isinstance(result, Finding)
    return result.verdict, result.detail


@pytest.mark.parametrize("what", ENDS)
@pytest.mark.parametrize(("died_at", "verdict"), [(59.5, Verdict.VALID), (57, Verdict.UNKNOWN), (10, Verdict.UNKNOWN)])
def test_a_process_that_a_fault_ends_wrote_shortly_before(
    what: str, died_at: float, verdict: Verdict, tmp_path: Path
) -> None:
    trace = [*lives(0, died_at), *([line(60, "process-end", status=0)] if what == "stop" and died_at > 59 else [])]
    found, detail = judged(tmp_path, [*trace, *lives(65, 70)], fault(what, 60, 64.9))
    assert found is verdict
    assert (f"member 1 had written nothing for {int((60 - died_at) * 1000)} ms before" in detail) is (
        verdict is Verdict.UNKNOWN
    )


def command(what: str, begin: float, end: float) -> ControlRecord:
    return ControlRecord(what, int(begin * S), int(end * S), 0, {}, SEEN)


@pytest.mark.parametrize(
    ("others", "commands", "verdict"),
    [
        ((fault("kill", 10.5),), (), Verdict.VALID),
        ((fault("kill", 10.5, 30),), (), Verdict.VALID),
        ((fault("pause", 10.5, 59),), (), Verdict.VALID),
        ((fault("pause", 10.5, 30),), (), Verdict.UNKNOWN),
        ((fault("pause", 10.5, 30), fault("disk-full", 31, 59)), (), Verdict.VALID),
        ((fault("pause", 10.5, 30), fault("disk-full", 40, 59)), (), Verdict.UNKNOWN),
        ((fault("pause", 20, 59),), (), Verdict.UNKNOWN),
        ((fault("disk-full", 10.5, 59, 2),), (), Verdict.UNKNOWN),
        ((), (command(AdminCommand.ABORT, 10, 11),), Verdict.VALID),
        ((), (command(AdminCommand.SNAPSHOT, 10, 11),), Verdict.UNKNOWN),
    ],
)
def test_what_hit_the_member_before_explains_its_silence(
    others: tuple[FaultRecord, ...], commands: tuple[ControlRecord, ...], verdict: Verdict, tmp_path: Path
) -> None:
    trace = [*lives(0, 10), *lives(65, 70)]
    assert judged(tmp_path, trace, *others, fault("wipe", 60, 64.9), commands=commands)[0] is verdict


def ended(begin: float, end: float) -> list[Line]:
    """The same, and it traced its end."""
    return [*lives(begin, end), line(end, "process-end", status=0)]


@pytest.mark.parametrize(
    ("two", "others", "verdict"),
    [
        ((*ended(0, 9), *lives(62, 150)), (), Verdict.VALID),
        ((*ended(0, 13), *lives(62, 150)), (), Verdict.UNKNOWN),
        ((*ended(0, 9), *lives(30, 150)), (), Verdict.UNKNOWN),
        ((*ended(0, 9), *ended(30, 40), *lives(62, 150)), (), Verdict.UNKNOWN),
        ((*lives(0, 9), *lives(62, 150)), (), Verdict.UNKNOWN),
        ((*lives(0, 9), *lives(62, 150)), (fault("kill", 9, 62, 2),), Verdict.VALID),
        ((*lives(0, 9), *lives(62, 150)), (fault("kill", 40, 62, 2),), Verdict.UNKNOWN),
        ((*lives(0, 9), *lives(62, 150)), (fault("pause", 9, 62, 2),), Verdict.UNKNOWN),
        ((*lives(0, 9), *lives(62, 150)), (fault("memory-limit", 8, 62, 2),), Verdict.UNKNOWN),
        ((*lives(0, 9), *lives(62, 150)), (replace(OUT_OF_MEMORY, members=(2,)),), Verdict.UNKNOWN),
        ((*lives(0, 9), *lives(62, 150)), (TWO_OUT_OF_MEMORY,), Verdict.VALID),
        (
            (*ended(0, 5), *lives(6, 9), *lives(62, 150)),
            (replace(TWO_OUT_OF_MEMORY, inject_begin_ns=S),),
            Verdict.VALID,
        ),
        ((*lives(0, 55), *lives(62, 150)), (fault("die-in-change", 9, 62, 2),), Verdict.UNKNOWN),
    ],
)
def test_a_member_writes_nothing_while_no_other_runs(
    two: tuple[Line, ...], others: tuple[FaultRecord, ...], verdict: Verdict, tmp_path: Path
) -> None:
    """It has no connection then: seed 9630067 cut its power 2.3 s after an abort had ended the other members."""
    trace, zero = [*lives(0, 10), *lives(65, 70)], (*ended(0, 8), *lives(61, 150))
    assert judged(tmp_path, trace, *others, fault("wipe", 60, 64.9), zero=zero, two=two)[0] is verdict


@pytest.mark.parametrize(("limited", "verdict"), [(OUT_OF_MEMORY, Verdict.VALID), (SHORT, Verdict.UNKNOWN)])
def test_what_the_kernel_ended_is_silent_for_ever(limited: FaultRecord, verdict: Verdict, tmp_path: Path) -> None:
    """The limit is lifted before the wipe, and nothing started the member meanwhile."""
    trace = [*lives(0, 35), *lives(65, 70)]
    limit = replace(limited, heal_begin_ns=40 * S, heal_end_ns=40 * S)
    assert judged(tmp_path, trace, limit, fault("wipe", 60, 64.9))[0] is verdict


@pytest.mark.parametrize("what", ["kill", "power-cut", "wipe"])
def test_members_that_one_fault_ends_do_not_explain_each_others_silence(what: str, tmp_path: Path) -> None:
    trace = [*lives(0, 10), *lives(65, 70)]
    verdict, detail = judged(tmp_path, trace, fault(what, 40, 64.9, 0, 1, 2), zero=tuple(trace), two=tuple(trace))
    assert verdict is Verdict.UNKNOWN
    assert "had written nothing for 30000 ms before" in detail


def test_a_fault_before_the_start_of_a_process_explains_nothing_of_its_end(tmp_path: Path) -> None:
    trace = [*lives(0, 10), *lives(12, 20), *lives(65, 70)]
    found, detail = judged(tmp_path, trace, fault("kill", 10, 11.9), fault("wipe", 60, 64.9))
    assert found is Verdict.UNKNOWN
    assert "wipe of member-1: member 1 had written nothing for 40000 ms before" in detail


@pytest.mark.parametrize("what", ["kill", "wipe"])
def test_a_process_that_starts_for_long_has_no_heartbeats_yet(what: str, tmp_path: Path) -> None:
    """A stall line would come after the turn in which the service reads its snapshot."""
    trace = [*lives(0, 9.9), line(12, "process-start"), *lives(20, 40)]
    assert judged(tmp_path, trace, fault("kill", 10, 12.1), fault(what, 15, 19.9))[0] is Verdict.VALID


def test_a_member_that_ended_in_order_may_be_wiped_later(tmp_path: Path) -> None:
    trace = [*lives(0, 10), line(10.1, "process-end", status=0), *lives(65, 70)]
    assert judged(tmp_path, trace, fault("wipe", 60, 64.9))[0] is Verdict.VALID


def test_stalls_explain_a_silence_before_a_fault(tmp_path: Path) -> None:
    stalled = line(58, "loop-stall", stall_ns=46 * S)
    trace = [*lives(0, 12), stalled, *lives(65, 70)]
    assert judged(tmp_path, trace, fault("wipe", 60.5, 64.9))[0] is Verdict.UNKNOWN
    assert judged(tmp_path / "then", trace, fault("wipe", 60, 64.9))[0] is Verdict.VALID


@pytest.mark.parametrize("what", ["kill", "wipe", "purge", "damage"])
def test_a_process_that_goes_on_after_its_death_contradicts_it(what: str, tmp_path: Path) -> None:
    trace = [*lives(0, 61), *lives(65, 70)]
    found, detail = judged(tmp_path, trace, fault(what, 60, 64.9))
    assert found is Verdict.UNKNOWN
    assert "wrote a line 1000 ms after it" in detail


@pytest.mark.parametrize(
    ("proof", "others", "verdict"),
    [
        ("member 1 is down; its 9 files are gone", (), Verdict.VALID),
        ("member 1 was down already; its 9 files are gone", (), Verdict.UNKNOWN),
        ("member 1 was down already; its 9 files are gone", (fault("kill", 30, 64.9),), Verdict.VALID),
        ("member 1 was down already; its 9 files are gone", (fault("kill", 0, 0.5),), Verdict.UNKNOWN),
        ("member 1 was down already; its 9 files are gone", (fault("pause", 30, 50),), Verdict.UNKNOWN),
        ("member 1 was down already; its 9 files are gone", (fault("memory-limit", 30, 64.9),), Verdict.UNKNOWN),
        ("member 1 was down already; its 9 files are gone", (OUT_OF_MEMORY,), Verdict.VALID),
    ],
    ids=["ended", "found down", "killed before", "killed before its start", "paused", "limited", "out of memory"],
)
def test_a_member_without_messages_was_ended_by_the_fault_or_by_another(
    proof: str, others: tuple[FaultRecord, ...], verdict: Verdict, tmp_path: Path
) -> None:
    trace = [line(1, "process-start"), line(9, "role"), line(65, "process-start"), line(70, "role")]
    wipe = replace(fault("wipe", 60, 64.9), inject_proof=Proof(True, proof))
    found, detail = judged(tmp_path, trace, *others, wipe)
    assert found is verdict
    assert ("it found member 1 down, and nothing explains the end of process 'all'" in detail) is (
        verdict is Verdict.UNKNOWN
    )


@pytest.mark.parametrize("is_found_down", [True, False])
@pytest.mark.parametrize(
    ("limited", "lifted_s", "verdict"),
    [
        (OUT_OF_MEMORY, 55, Verdict.VALID),
        (OUT_OF_MEMORY, 39, Verdict.UNKNOWN),
        (SHORT, 55, Verdict.UNKNOWN),
    ],
)
def test_a_process_that_began_under_a_limit_may_end_by_it(
    limited: FaultRecord, lifted_s: int, verdict: Verdict, is_found_down: bool, tmp_path: Path
) -> None:
    trace = [*lives(0, 32), *lives(40, 50), *lives(65, 70)]
    wipe = fault("wipe", 60, 64.9)
    if is_found_down:
        wipe = replace(wipe, inject_proof=Proof(True, "member 1 was down already; its 9 files are gone"))
    limit = replace(limited, heal_begin_ns=lifted_s * S, heal_end_ns=lifted_s * S)
    assert judged(tmp_path, trace, limit, fault("kill", 32, 40), wipe)[0] is verdict


# --- links that are cut ---

CUT = replace(fault("blackhole", 100, 130, 0, 1), where="links 0<->1", links=("0->1", "1->0"))


def receives(second: float, *more: Line) -> list[Line]:
    """Member 1, up to the cut and once more."""
    return [*lives(0, 99.9), *sorted([heard(second), *more], key=lambda each: int(str(each["ts"])))]


@pytest.mark.parametrize(("second", "verdict"), [(100.4, Verdict.VALID), (100.6, Verdict.UNKNOWN)])
def test_no_message_crosses_a_cut_link(second: float, verdict: Verdict, tmp_path: Path) -> None:
    assert judged(tmp_path, receives(second), CUT)[0] is verdict


@pytest.mark.parametrize(
    ("second", "stalls", "verdict"),
    [
        (100.5, ((100.16, 60),), Verdict.VALID),
        (125, ((100.16, 60),), Verdict.UNKNOWN),
        (110.4, ((110, 9_900),), Verdict.VALID),
        (110.6, ((110, 9_900),), Verdict.UNKNOWN),
        (102.9, ((101, 900), (102.5, 1_200)), Verdict.VALID),
        (125, ((101, 900), (125, 60)), Verdict.UNKNOWN),
        (100.9, ((99, 500),), Verdict.UNKNOWN),
    ],
)
def test_a_stalled_member_reads_old_messages_only_for_a_while(
    second: float, stalls: tuple[tuple[float, int], ...], verdict: Verdict, tmp_path: Path
) -> None:
    """A stall by its end in seconds, and its length in milliseconds."""
    lines = [line(end, "loop-stall", stall_ns=length_ms * MS) for end, length_ms in stalls]
    assert judged(tmp_path, receives(second, *lines), CUT)[0] is verdict


@pytest.mark.parametrize("what", ["pause", "cpu-limit", "memory-limit"])
@pytest.mark.parametrize(("second", "verdict"), [(110.4, Verdict.VALID), (110.6, Verdict.UNKNOWN)])
def test_a_held_up_member_reads_old_messages_only_for_a_while(
    second: float, verdict: Verdict, what: str, tmp_path: Path
) -> None:
    assert judged(tmp_path, receives(second), fault(what, 99.95, 110), CUT)[0] is verdict


@pytest.mark.parametrize(
    ("ends", "links", "verdict"),
    [
        ("member-0,clients -> member-1", ("0->1", "clients->1"), Verdict.VALID),
        ("clients,member-0 -> member-1", ("clients->1", "0->1"), Verdict.VALID),
        ("member-0,clients -> member-1", ("clients->1",), Verdict.UNKNOWN),
        ("clients,member-0 -> member-1", ("clients->1",), Verdict.UNKNOWN),
    ],
)
def test_links_between_members_are_those_that_were_ordered_beside_those_of_clients(
    ends: str, links: tuple[str, ...], verdict: Verdict, tmp_path: Path
) -> None:
    cut = replace(fault("blackhole", 60, 70, 0, 1), statement=f"blackhole {ends}", links=links)
    assert judged(tmp_path, lives(1, 59), cut)[0] is verdict
