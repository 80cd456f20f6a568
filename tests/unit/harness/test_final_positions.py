"""The commit position comes from traces and recordings, and the manifest's final positions are held to it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import (
    START_LINE,
    BuiltRun,
    end_lines,
    good_run,
    new_term,
    payload_index,
    term_line,
    terms_of,
)
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Converge, FinalPosition, Manifest, Operation, RunFolder
from upheaval_chaos.record import FaultRecord, Proof

ENDED_NS = 10**12
MIDDLE = 300
Write = Callable[[Path], object]


def judged(run: Path) -> Finding:
    return verify_run(run).finding(Promise.FINAL_POSITIONS)


def edit_manifest(run: Path, edit: Callable[[Manifest], Manifest]) -> None:
    folder = RunFolder(run)
    folder.write_manifest(edit(folder.read_manifest()))


def write_finals(run: Path, position: int, *, members: int = 3, completed_ns: int = ENDED_NS) -> None:
    finals = tuple(FinalPosition(member_id, position, position, 0) for member_id in range(members))
    edit_manifest(run, lambda manifest: replace(manifest, converge=Converge(True, completed_ns, finals)))


def add_line(run: Path, member_id: int, line: str) -> None:
    with (run / f"member-{member_id}" / "trace.jsonl").open("a") as trace:
        trace.write(line + "\n")


def appended(term: int, position: int) -> str:
    """What member 1 reported to the leader of a term."""
    fields = {"ts": 1, "event": "send", "message": "AppendPosition", "leadership_term_id": term}
    return json.dumps({**fields, "log_position": position, "follower_member_id": 1, "flags": 0})


def position_of(operation: Operation) -> int:
    assert operation.position is not None
    return operation.position


def half_told(run: Path, *, whole_logs: int = 3) -> tuple[BuiltRun, int]:
    """A run of whose second half manifest, traces and history say nothing, and only so many logs hold it."""
    built = good_run()
    last = next(each for each in built.operations[MIDDLE:] if each.position is not None)
    middle = position_of(last)
    rest = len(built.payloads[0]) - payload_index(built.payloads[0], last.id) - 1
    built.operations = built.operations[: built.operations.index(last) + 1]
    for payloads in built.payloads[whole_logs:]:
        del payloads[-rest:]
    built.write(run)
    write_finals(run, middle)
    (run / "member-0" / "trace.jsonl").write_text("")
    terms = terms_of(built.payloads[0])
    told = term_line(1, 2, middle, terms[1])
    for line in (START_LINE, *built.traces[0], told, *end_lines(middle, terms)):
        add_line(run, 0, line)
    return built, middle


def test_what_only_one_log_has_past_the_commit_position_proves_nothing(tmp_path: Path) -> None:
    """Neither an operation that no client sent nor one that is there again."""
    half_told(tmp_path, whole_logs=1)
    report = verify_run(tmp_path)
    assert {finding.verdict for finding in report.findings} == {Verdict.VALID}, report.findings


def test_a_client_message_on_a_quorum_past_the_commit_position_is_unknown(tmp_path: Path) -> None:
    built, middle = half_told(tmp_path, whole_logs=2)
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.UNKNOWN, finding
    assert f"past position {middle}, the last one known to be committed" in finding.detail
    assert middle < (finding.position or 0) <= built.end_positions[0]


def test_a_term_that_a_quorum_has_past_the_commit_position_is_no_traffic(tmp_path: Path) -> None:
    built = good_run()
    for payloads in built.payloads:
        payloads.append(new_term(2, 1))
    built.write(tmp_path)
    known = max(position_of(each) for each in built.operations if each.position is not None)
    write_finals(tmp_path, known)
    trace = tmp_path / "member-0" / "trace.jsonl"
    trace.write_text(trace.read_text().replace(str(built.end_positions[0]), str(known)))
    assert judged(tmp_path).verdict is Verdict.VALID


def test_a_member_that_had_recorded_past_its_final_position_makes_it_unknown(tmp_path: Path) -> None:
    built, middle = half_told(tmp_path)
    add_line(tmp_path, 1, appended(1, built.end_positions[1]))
    finding = judged(tmp_path)
    assert (finding.verdict, finding.members) == (Verdict.UNKNOWN, (1,)), finding
    for said in (f"append position {middle} of member 1", str(built.end_positions[1]), "member-1/trace.jsonl:6"):
        assert said in finding.detail


def test_a_recording_that_ends_before_what_its_member_told_is_invalid(tmp_path: Path) -> None:
    built = good_run()
    built.write(tmp_path)
    end = built.end_positions[1]
    add_line(tmp_path, 1, appended(1, end + 96))
    finding = judged(tmp_path)
    assert (finding.verdict, finding.members, finding.position) == (Verdict.INVALID, (1,), end), finding
    for said in (f"member 1 ends at position {end}", f"position {end + 96} (member-1/trace.jsonl:6)"):
        assert said in finding.detail


def replace_member(run: Path) -> None:
    (run / "member-1" / "replaced-1").mkdir()


def tell_of_an_earlier_term(run: Path) -> None:
    add_line(run, 1, term_line(2, 0, 0))


def cut_power(run: Path) -> None:
    proof = Proof(True, "gone")
    RunFolder(run).add_fault(FaultRecord("power-cut", "member-1", 5, 6, 7, 8, proof, proof, (1,)))


@pytest.mark.parametrize("excuse", [replace_member, tell_of_an_earlier_term, cut_power])
def test_what_a_member_may_have_lost_is_not_held_against_it(tmp_path: Path, excuse: Write) -> None:
    """A host that was replaced, a log that had to be cut for a later leader, a power cut without syncs."""
    built = good_run()
    built.write(tmp_path)
    add_line(tmp_path, 1, appended(1, built.end_positions[1] + 96))
    assert judged(tmp_path).verdict is Verdict.INVALID
    excuse(tmp_path)
    assert judged(tmp_path).verdict is Verdict.VALID


def test_a_power_cut_excuses_nothing_of_members_that_sync(tmp_path: Path) -> None:
    built = good_run()
    built.write(tmp_path)
    add_line(tmp_path, 1, appended(1, built.end_positions[1] + 96))
    cut_power(tmp_path)
    edit_manifest(tmp_path, lambda manifest: replace(manifest, sync_level=1))
    assert judged(tmp_path).verdict is Verdict.INVALID


def _commit_in_two_steps(run: Path, built: BuiltRun, position: int, ns: int) -> None:
    """The trace calls `position` committed before that time, and the rest after it."""
    trace = run / "member-0" / "trace.jsonl"
    end = built.end_positions[0]
    trace.write_text(trace.read_text().replace(f'"commit_position":{end}', f'"commit_position":{position}'))
    add_line(run, 0, term_line(1, 2, end, terms_of(built.payloads[0])[1]).replace('"ts":1,', f'"ts":{ns},'))


def test_more_load_after_the_converge_phase_is_judged_with_the_rest(tmp_path: Path) -> None:
    built = good_run()
    built.write(tmp_path)
    position = position_of(built.operations[MIDDLE])
    at_ns = 1 + max(each.invoke_ns for each in built.operations if (each.position or position + 1) <= position)
    _commit_in_two_steps(tmp_path, built, position, at_ns)
    write_finals(tmp_path, position, completed_ns=at_ns)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.VALID, report.findings
    assert (
        f"{len([each for each in built.operations if each.position])} "
        in report.finding(Promise.ACKNOWLEDGED_NOT_LOST).detail
    )


def test_logs_that_differ_past_the_final_positions_are_unknown(tmp_path: Path) -> None:
    built = good_run()
    built.payloads[1][-1] = new_term(1, 2)
    built.payloads[2][-1] = new_term(1, 2)
    del built.operations[-5:]
    built.write(tmp_path)
    add_line(tmp_path, 0, term_line(1, 2, built.end_positions[0]))
    write_finals(tmp_path, position_of(built.operations[MIDDLE]), completed_ns=1)
    finding = verify_run(tmp_path).finding(Promise.LOGS_EQUAL)
    assert finding.verdict is Verdict.UNKNOWN, finding
    assert "differ at position" in finding.detail


def test_of_a_single_member_all_that_it_recorded_is_committed(tmp_path: Path) -> None:
    """No message says so: the history goes on after the converge phase."""
    built = good_run()
    built.traces[0] = built.traces[0][:1]
    built.write(tmp_path)
    (tmp_path / "member-0" / "trace.jsonl").write_text(built.traces[0][0] + "\n")
    edit_manifest(tmp_path, lambda manifest: replace(manifest, members=1))
    write_finals(tmp_path, position_of(built.operations[MIDDLE]), members=1, completed_ns=1)
    report = verify_run(tmp_path)
    for promise in (Promise.FINAL_POSITIONS, Promise.ACKNOWLEDGED_NOT_LOST, Promise.LINEARIZABLE):
        assert report.finding(promise).verdict is Verdict.VALID, report.findings


def test_without_a_converge_phase_an_acknowledged_operation_on_one_member_is_invalid(tmp_path: Path) -> None:
    built = good_run()
    built.converged = False
    for payloads in built.payloads[1:]:
        del payloads[-40:]
    built.write(tmp_path)
    reached = built.end_positions[1]
    first = next(each for each in built.operations if (each.position or 0) > reached)
    finding = verify_run(tmp_path).finding(Promise.ACKNOWLEDGED_NOT_LOST)
    assert (finding.verdict, finding.operation, finding.position) == (Verdict.INVALID, first.id, first.position)
    assert f"past the commit position {reached}" in finding.detail


def test_a_member_without_a_readable_log_may_have_had_it_all(tmp_path: Path) -> None:
    built = good_run()
    built.converged = False
    del built.payloads[1][-40:]
    built.write(tmp_path)
    (tmp_path / "member-2" / "cluster" / "recording.log").unlink()
    finding = verify_run(tmp_path).finding(Promise.ACKNOWLEDGED_NOT_LOST)
    assert finding.verdict is Verdict.VALID, finding


@pytest.mark.parametrize("excuse", [replace_member, cut_power])
def test_an_operation_that_a_member_may_have_lost_is_still_acknowledged(tmp_path: Path, excuse: Write) -> None:
    built = good_run()
    built.converged = False
    for payloads in built.payloads[1:]:
        del payloads[-40:]
    built.write(tmp_path)
    excuse(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.ACKNOWLEDGED_NOT_LOST)
    assert finding.verdict is Verdict.VALID, finding
