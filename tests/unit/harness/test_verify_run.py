"""Good runs are valid, and each way to break a run is found, with the operation and the position named."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import (
    LogBuilder,
    end_processes,
    good_run,
    new_term,
    operation_index,
    payload_index,
    session_message,
    trace_line,
)
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report, Verdict
from upheaval.errors import UsageError
from upheaval.records import (
    Converge,
    Failure,
    FinalPosition,
    Function,
    Json,
    Operation,
    Outcome,
    RunFolder,
    add_failure,
    encode_operation,
    seal,
)


def test_a_good_run_is_valid_in_every_promise(tmp_path: Path) -> None:
    good_run().write(tmp_path)
    report = verify_run(tmp_path)
    assert {finding.verdict for finding in report.findings} == {Verdict.VALID}, report.findings
    assert report.verdict.exit_status == 0


@pytest.mark.parametrize("name", ["history.jsonl", "member-1/archive/more", "notes"])
def test_a_named_pipe_is_refused_and_not_read_for_ever(tmp_path: Path, name: str) -> None:
    good_run().write(tmp_path)
    pipe = tmp_path / name
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match=f"{name} is a named pipe: a run folder has files alone"):
        verify_run(tmp_path)


@pytest.mark.parametrize(
    ("told", "promise", "verdict"),
    [
        ("run-ended", Promise.RUN_ENDED, Verdict.UNKNOWN),
        ("invariants", Promise.INVARIANTS, Verdict.INVALID),
        ("tasks-passed", Promise.TASKS_PASSED, Verdict.INVALID),
        ("test-passed", Promise.TEST_PASSED, Verdict.INVALID),
        ("of a later version", Promise.RUN_ENDED, Verdict.UNKNOWN),
    ],
)
def test_what_only_the_harness_saw_fail_is_in_the_verdict_and_breaks_no_seal(
    told: str, promise: Promise, verdict: Verdict, tmp_path: Path
) -> None:
    good_run().write(tmp_path)
    end_processes(RunFolder(tmp_path))
    seal(RunFolder(tmp_path))
    add_failure(RunFolder(tmp_path), Failure(told, "why it failed"))
    report = verify_run(tmp_path)
    assert report.verdict is report.finding(promise).verdict is verdict
    assert ("why it failed" in report.finding(promise).detail) is (told != "of a later version")
    assert report.finding(Promise.EVIDENCE_SEALED).verdict is Verdict.VALID


def test_a_run_over_several_terms_and_segments_with_fragmented_messages_is_valid(tmp_path: Path) -> None:
    built = good_run(1500, echo_length=4000)
    built.write(tmp_path)
    assert built.end_positions[0] > 5 * 128 * 1024
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.VALID, report.findings


def test_an_entry_dropped_from_one_members_log_is_invalid_and_named(tmp_path: Path) -> None:
    built = good_run()
    victim = built.operations[operation_index(built, lambda o: o.f is Function.WRITE, after=100)]
    del built.payloads[1][payload_index(built.payloads[1], victim.id)]
    built.write(tmp_path)
    last = built.end_positions[0]
    finals = tuple(FinalPosition(i, last, last, 1) for i in range(3))
    manifest = replace(built.manifest, converge=Converge(True, 1, finals))
    RunFolder(tmp_path).write_manifest(manifest)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.INVALID
    finding = report.finding(Promise.LOGS_EQUAL)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail
    assert victim.position is not None
    assert "position" in finding.detail
    assert (finding.members, finding.operation) == ((0, 1), victim.id)
    assert report.finding(Promise.LOGS_COMPLETE).verdict is Verdict.INVALID


def test_a_hole_in_one_members_recording_is_invalid_and_the_position_is_named(tmp_path: Path) -> None:
    built = good_run()
    built.write(tmp_path)
    segment = tmp_path / "member-2" / "archive" / "7-0.rec"
    victim = built.operations[200]
    start = _start_of(built.payloads[2], victim.id)
    data = bytearray(segment.read_bytes())
    data[start : start + 32] = bytes(32)
    segment.write_bytes(data)
    finding = verify_run(tmp_path).finding(Promise.LOGS_COMPLETE)
    assert finding.verdict is Verdict.INVALID
    assert f"position {start}" in finding.detail
    assert f"operation id={victim.id} " in finding.detail


def test_an_entry_cut_out_of_one_members_recording_is_invalid_and_named(tmp_path: Path) -> None:
    built = good_run()
    built.write(tmp_path)
    segment = tmp_path / "member-1" / "archive" / "3-0.rec"
    victim = built.operations[200]
    start = _start_of(built.payloads[1], victim.id)
    assert victim.position is not None
    data = segment.read_bytes()
    segment.write_bytes((data[:start] + data[victim.position :]).ljust(len(data), b"\0"))
    finding = verify_run(tmp_path).finding(Promise.LOGS_COMPLETE)
    assert finding.verdict is Verdict.INVALID
    assert f"no valid frame at position {start}" in finding.detail
    assert f"operation id={victim.id} " in finding.detail
    assert (finding.members, finding.position, finding.operation) == ((1,), start, victim.id)


def test_a_log_that_does_not_begin_at_its_beginning_is_unknown(tmp_path: Path) -> None:
    built = good_run(2000)
    built.write(tmp_path)
    for member_id, recording_id in enumerate(built.recording_ids):
        catalog = tmp_path / f"member-{member_id}" / "archive" / "archive.catalog"
        data = bytearray(catalog.read_bytes())
        at = data.rindex(struct.pack("<q", recording_id), 0, 32 + 128 + 32 + 24)
        struct.pack_into("<q", data, at + 24, 128 * 1024)
        catalog.write_bytes(data)
        (tmp_path / f"member-{member_id}" / "archive" / f"{recording_id}-0.rec").unlink()
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.UNKNOWN, report.findings
    assert "begins at position 131072" in report.finding(Promise.LINEARIZABLE).detail


def test_a_changed_byte_in_one_members_recording_is_invalid_and_named(tmp_path: Path) -> None:
    built = good_run()
    built.write(tmp_path)
    victim = built.operations[operation_index(built, lambda o: o.f is Function.APPEND, after=50)]
    start = _start_of(built.payloads[0], victim.id)
    segment = tmp_path / "member-0" / "archive" / "0-0.rec"
    data = bytearray(segment.read_bytes())
    data[start + 32 + 32 + 24] ^= 1  # the key
    segment.write_bytes(data)
    finding = verify_run(tmp_path).finding(Promise.LOGS_EQUAL)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail
    assert f"position {start}" in finding.detail


def test_an_acknowledged_write_that_never_happened_is_invalid_and_named(tmp_path: Path) -> None:
    built = good_run()
    ghost = Operation(
        987654, 1, Function.WRITE, "k1", 5, invoke_ns=1, complete_ns=2, outcome=Outcome.OK, result=None, position=4096
    )
    built.operations.append(ghost)
    built.write(tmp_path)
    report = verify_run(tmp_path)
    finding = report.finding(Promise.ACKNOWLEDGED_NOT_LOST)
    assert (report.verdict, finding.verdict) == (Verdict.INVALID, Verdict.INVALID)
    assert "id=987654" in finding.detail
    assert "position 4096" in finding.detail
    fields = finding.to_fields()
    assert (fields["members"], fields["position"], fields["operation"]) == ([], 4096, 987654)


def test_two_swapped_results_are_invalid_and_named(tmp_path: Path) -> None:
    built = good_run()
    first = operation_index(built, lambda o: o.f is Function.READ and o.result is not None, after=50)
    other = operation_index(
        built, lambda o: o.f is Function.READ and o.result not in (None, built.operations[first].result), after=first
    )
    a, b = built.operations[first], built.operations[other]
    built.operations[first] = replace(a, result=b.result)
    built.operations[other] = replace(b, result=a.result)
    built.write(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.INVALID
    assert f"id={a.id} " in finding.detail
    assert f"position {a.position}" in finding.detail
    assert (finding.position, finding.operation) == (a.position, a.id)


@pytest.mark.parametrize("function", [Function.READ, Function.LIST, Function.CAS, Function.ECHO])
def test_a_changed_result_is_invalid_and_named(tmp_path: Path, function: Function) -> None:
    built = good_run()
    index = operation_index(built, lambda o: o.f is function and o.result not in (None, []), after=60)
    victim = built.operations[index]
    wrong: dict[Function, Json] = {Function.LIST: [1, 2, 3], Function.CAS: not victim.result}
    built.operations[index] = replace(victim, result=wrong.get(function, 123456))
    built.write(tmp_path)
    report = verify_run(tmp_path)
    finding = report.finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail
    assert f"position {victim.position}" in finding.detail


def test_a_log_order_against_real_time_is_invalid(tmp_path: Path) -> None:
    built = good_run()
    index = operation_index(built, lambda o: o.f is Function.ECHO, after=100)
    victim = built.operations[index]
    built.operations[index] = replace(victim, invoke_ns=0, complete_ns=1)
    built.write(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.LINEARIZABLE)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail


def test_a_position_that_the_service_reported_wrongly_is_invalid(tmp_path: Path) -> None:
    built = good_run()
    assert built.operations[7].position is not None
    built.operations[7] = replace(built.operations[7], position=built.operations[7].position + 32)
    built.write(tmp_path)
    assert verify_run(tmp_path).finding(Promise.ACKNOWLEDGED_NOT_LOST).verdict is Verdict.INVALID


def test_an_operation_that_is_in_the_log_twice_is_invalid_and_named(tmp_path: Path) -> None:
    built = good_run()
    victim = built.operations[30]
    again = session_message(encode_operation(victim.id, victim.f, victim.key, victim.value))
    for payloads in built.payloads:
        payloads.append(again)
    built.write(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.APPLIED_ONCE)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail
    assert f"position {victim.position} and again at position {built.end_positions[0]}" in finding.detail
    assert (finding.position, finding.operation) == (built.end_positions[0], victim.id)


def test_an_operation_that_was_never_sent_but_is_in_the_log_is_invalid(tmp_path: Path) -> None:
    built = good_run()
    index = next(i for i, o in enumerate(built.operations) if o.outcome is Outcome.UNKNOWN and o.id % 40 == 19)
    built.operations[index] = replace(built.operations[index], outcome=Outcome.FAIL)
    built.write(tmp_path)
    assert verify_run(tmp_path).finding(Promise.APPLIED_ONCE).verdict is Verdict.INVALID


def test_two_leaders_of_a_term_in_the_traces_are_invalid_and_named(tmp_path: Path) -> None:
    built = good_run()
    built.traces[1].append(trace_line(1, 0))
    built.write(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.ONE_LEADER_A_TERM)
    assert finding.verdict is Verdict.INVALID
    assert "term 0 has leader 0" in finding.detail
    assert "member-1/trace.jsonl:3" in finding.detail
    assert finding.members == (0, 1)


@pytest.mark.parametrize("message", ["NewLeadershipTerm", "CommitPosition"])
@pytest.mark.parametrize("event", ["send", "receive"])
def test_a_leaders_message_of_another_member_in_the_same_term_is_invalid(
    tmp_path: Path, message: str, event: str
) -> None:
    built = good_run()
    line = {"ts": 9, "event": event, "message": message, "leadership_term_id": 1, "leader_member_id": 0}
    built.traces[2].append(json.dumps(line))
    built.write(tmp_path)
    finding = verify_run(tmp_path).finding(Promise.ONE_LEADER_A_TERM)
    assert finding.verdict is Verdict.INVALID
    assert "leader 0 (member-2/trace.jsonl:4)" in finding.detail


def test_a_member_that_entered_a_term_under_another_leader_is_invalid(tmp_path: Path) -> None:
    built = good_run()
    built.traces[1].append(
        json.dumps({"ts": 9, "event": "leadership_term", "leadership_term_id": 1, "leader_member_id": 1})
    )
    built.write(tmp_path)
    assert verify_run(tmp_path).finding(Promise.ONE_LEADER_A_TERM).verdict is Verdict.INVALID


def test_two_leaders_of_a_term_in_the_logs_are_invalid(tmp_path: Path) -> None:
    built = good_run()
    for payloads in built.payloads:
        payloads.append(new_term(1, 1))
    built.write(tmp_path)
    assert verify_run(tmp_path).finding(Promise.ONE_LEADER_A_TERM).verdict is Verdict.INVALID


@pytest.mark.parametrize("member_id", [0, 1, 2])
def test_a_recording_cut_below_the_final_position_is_invalid_and_named(tmp_path: Path, member_id: int) -> None:
    built = good_run()
    built.write(tmp_path)
    name = f"{built.recording_ids[member_id]}-0.rec"
    segment = tmp_path / f"member-{member_id}" / "archive" / name
    cut = built.operations[-5].position
    assert cut is not None
    segment.write_bytes(segment.read_bytes()[:cut])
    finding = verify_run(tmp_path).finding(Promise.LOGS_COMPLETE)
    assert finding.verdict is Verdict.INVALID
    assert f"member {member_id}" in finding.detail
    assert f"position {cut}" in finding.detail
    assert str(built.end_positions[0]) in finding.detail


def test_frames_past_the_final_position_may_differ(tmp_path: Path) -> None:
    built = good_run()
    built.write(tmp_path)
    log = LogBuilder()
    for payload in built.payloads[0]:
        log.append(payload)
    end = log.position
    log.append(b"only on this member")
    segment = tmp_path / "member-0" / "archive" / "0-0.rec"
    data = bytearray(segment.read_bytes())
    data[end : end + len(log.blocks[-1])] = log.blocks[-1]
    segment.write_bytes(data)
    assert verify_run(tmp_path).verdict is Verdict.VALID


def test_a_run_without_a_converge_phase_is_unknown(tmp_path: Path) -> None:
    built = good_run()
    built.converged = False
    built.write(tmp_path)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.UNKNOWN
    assert report.verdict.exit_status == 3
    assert report.finding(Promise.RUN_CONVERGED).verdict is Verdict.UNKNOWN


def test_a_run_that_did_not_converge_in_time_is_no_valid_run(tmp_path: Path) -> None:
    built = good_run()
    built.converged = False
    folder = built.write(tmp_path)
    folder.write_manifest(replace(built.manifest, converge=Converge(False, 1, ())))
    report = verify_run(tmp_path)
    assert report.finding(Promise.RUN_CONVERGED).verdict is Verdict.TIMEOUT
    assert report.verdict.exit_status == 3


def test_final_positions_that_differ_or_miss_a_member_are_unknown(tmp_path: Path) -> None:
    built = good_run()
    folder = built.write(tmp_path)
    manifest = folder.read_manifest()
    assert manifest.converge is not None
    members = manifest.converge.members
    for broken in (members[:2], (replace(members[0], commit_position=4096), *members[1:])):
        folder.write_manifest(replace(manifest, converge=replace(manifest.converge, members=broken)))
        report = verify_run(tmp_path)
        assert report.finding(Promise.RUN_CONVERGED).verdict is Verdict.UNKNOWN
        assert report.verdict is Verdict.UNKNOWN


def test_a_run_with_too_little_traffic_is_unknown(tmp_path: Path) -> None:
    good_run(60).write(tmp_path)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.UNKNOWN
    assert report.finding(Promise.ENOUGH_TRAFFIC).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "missing",
    [
        "history.jsonl",
        "member-1/trace.jsonl",
        "member-1/archive/archive.catalog",
        "member-1/cluster/recording.log",
        "member-1/archive/3-0.rec",
    ],
)
def test_a_missing_file_is_unknown_never_valid(tmp_path: Path, missing: str) -> None:
    good_run().write(tmp_path)
    (tmp_path / missing).unlink()
    assert verify_run(tmp_path).verdict is Verdict.UNKNOWN


def test_no_readable_log_at_all_is_unknown(tmp_path: Path) -> None:
    good_run().write(tmp_path)
    for member_id in range(3):
        (tmp_path / f"member-{member_id}" / "cluster" / "recording.log").unlink()
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.UNKNOWN
    assert report.finding(Promise.LINEARIZABLE).verdict is Verdict.UNKNOWN


def test_a_log_entry_that_no_client_sent_is_unknown_and_named(tmp_path: Path) -> None:
    built = good_run()
    for payloads in built.payloads:
        payloads.append(session_message(encode_operation(5555, Function.WRITE, "k", 1), 1))
    built.write(tmp_path)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.UNKNOWN
    assert "id=5555" in report.finding(Promise.HISTORY_COMPLETE).detail


def test_a_malformed_history_is_one_line_with_file_line_and_reason(tmp_path: Path) -> None:
    good_run().write(tmp_path)
    history = tmp_path / "history.jsonl"
    lines = history.read_text().splitlines()
    for broken, reason in (
        (lines[5][:-5], "not JSON"),
        ('["a list"]', "not a JSON object"),
        (json.dumps({**json.loads(lines[5]), "invoke_ns": "soon"}), "'invoke_ns' must be an integer"),
        (json.dumps({**json.loads(lines[5]), "outcome": "maybe"}), "unknown outcome 'maybe'"),
        (json.dumps({**json.loads(lines[5]), "f": "increment"}), "unknown operation 'increment'"),
        (json.dumps({**json.loads(lines[5]), "f": "acquire"}), "unknown operation 'acquire'"),
        (lines[3], "duplicate operation id"),
    ):
        history.write_text("\n".join([*lines[:5], broken, *lines[6:]]) + "\n")
        with pytest.raises(UsageError) as caught:
            verify_run(tmp_path)
        assert f"{history}:6: " in str(caught.value)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_run_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a run folder"):
        verify_run(tmp_path)


@pytest.mark.parametrize("other", [1, 99])
def test_a_manifest_of_another_format_is_a_usage_error(tmp_path: Path, other: int) -> None:
    good_run().write(tmp_path)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": other}))
    with pytest.raises(UsageError, match=f"format {other}, this version reads format 2"):
        verify_run(tmp_path)


def _start_of(payloads: list[bytes], operation_id: int) -> int:
    """The log position at which an operation's frame begins."""
    log = LogBuilder()
    index = payload_index(payloads, operation_id)
    for payload in payloads[: index + 1]:
        log.append(payload)
    return log.position - len(log.blocks[-1])


def demanded(folder: Path, *promises: str) -> Report:
    """The report on a good run whose scenario demands these promises."""
    good = good_run()
    good.write(folder)
    RunFolder(folder).write_manifest(replace(good.manifest, demanded=promises))
    return verify_run(folder)


def test_a_demand_takes_no_finding_away(tmp_path: Path) -> None:
    whole = demanded(tmp_path / "whole")
    report = demanded(tmp_path / "demanding", Promise.LINEARIZABLE, Promise.STATES_AGREE)
    (missing,) = set(report.findings) - set(whole.findings)
    assert (missing.promise, missing.verdict) == (Promise.STATES_AGREE, Verdict.UNKNOWN)
    assert [each for each in report.findings if each is not missing] == list(whole.findings)
    assert [each for each in whole.unchecked if each.promise is not missing.promise] == list(report.unchecked)


def test_every_promise_that_is_demanded_has_a_finding(tmp_path: Path) -> None:
    report = demanded(tmp_path, *Promise)
    assert {finding.promise for finding in report.findings} == set(Promise)
    assert report.unchecked == ()
    assert report.finding(Promise.RUN_ENDED).verdict is Verdict.VALID
    assert report.finding(Promise.TEST_PASSED).verdict is Verdict.UNKNOWN


def test_a_demand_of_a_later_version_is_unknown(tmp_path: Path) -> None:
    found = demanded(tmp_path, "moon-is-round").finding(Promise.RUN_ENDED)
    assert (found.verdict, found.detail) == (
        Verdict.UNKNOWN,
        "the manifest demands promise 'moon-is-round', which this version does not know",
    )
