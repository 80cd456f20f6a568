"""The log of a member that was purged is compared from where it begins, and excuses nothing else."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.built_runs import BuiltRun, LogBuilder, good_run, operation_index, payload_index
from upheaval.checkers.evidence.log_pieces import log_digest
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report, Verdict
from upheaval.records import Function, Origin, RunFolder, write_origin
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import S

SEGMENT: Final = 128 * 1024
OPERATIONS: Final = 2000
Purge = Callable[[Path], None]
LOGS: Final = (Promise.LOGS_EQUAL, Promise.LOGS_COMPLETE, Promise.LINEARIZABLE, Promise.ACKNOWLEDGED_NOT_LOST)


def cut(path: Path, built: BuiltRun, *members: int, begin: int = SEGMENT) -> None:
    """The first segments of these members' logs are gone."""
    for member_id in members:
        recording_id = built.recording_ids[member_id]
        archive = path / f"member-{member_id}" / "archive"
        data = bytearray((archive / "archive.catalog").read_bytes())
        at = data.rindex(struct.pack("<q", recording_id), 0, 32 + 128 + 32 + 24)
        struct.pack_into("<q", data, at + 24, begin)
        (archive / "archive.catalog").write_bytes(data)
        for base in range(0, begin, SEGMENT):
            (archive / f"{recording_id}-{base}.rec").unlink()


def add_fault(path: Path, what: str, member_id: int, second: int, begin: int = SEGMENT, *, holds: bool = True) -> None:
    evidence = f"member {member_id} was down already; its log begins at position {begin} instead of 0, and so on"
    proofs = Proof(holds, evidence), Proof(True, "started: it")
    times = (second * S,) * 4
    RunFolder(path).add_fault(FaultRecord(what, f"member-{member_id}", *times, *proofs, members=(member_id,)))


def verdicts(report: Report) -> list[Verdict]:
    return [report.finding(promise).verdict for promise in LOGS]


@pytest.mark.parametrize("members", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_the_others_have_what_was_purged(members: tuple[int, ...], tmp_path: Path) -> None:
    built = good_run(OPERATIONS)
    built.write(tmp_path)
    cut(tmp_path, built, *members)
    for member_id in members:
        add_fault(tmp_path, "purge", member_id, 1)
    assert verdicts(verify_run(tmp_path)) == [Verdict.VALID] * len(LOGS)


@pytest.mark.parametrize(("begin", "verdict"), [(SEGMENT, Verdict.VALID), (2 * SEGMENT, Verdict.INVALID)])
def test_a_member_that_moved_may_have_a_copy_of_a_purged_log(begin: int, verdict: Verdict, tmp_path: Path) -> None:
    built = good_run(OPERATIONS)
    built.write(tmp_path)
    cut(tmp_path, built, 2)
    add_fault(tmp_path, "purge", 1, 1, begin)
    assert verify_run(tmp_path).finding(Promise.LOGS_EQUAL).verdict is Verdict.INVALID
    (tmp_path / "member-2" / "replaced-1").mkdir()
    report = verify_run(tmp_path)
    assert report.finding(Promise.LOGS_EQUAL).verdict is verdict
    assert verdict is Verdict.INVALID or verdicts(report) == [Verdict.VALID] * len(LOGS)


def test_what_every_member_purged_is_unknown(tmp_path: Path) -> None:
    built = good_run(OPERATIONS)
    built.write(tmp_path)
    cut(tmp_path, built, 0, 1, 2)
    for member_id in range(3):
        add_fault(tmp_path, "purge", member_id, 1)
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.UNKNOWN, report.findings
    assert report.finding(Promise.LOGS_EQUAL).verdict is Verdict.VALID
    assert f"begins at position {SEGMENT}" in report.finding(Promise.LINEARIZABLE).detail


@pytest.mark.parametrize("wrong", [None, 1, 2])
def test_logs_that_begin_where_no_other_reaches_are_compared_from_there_on(wrong: int | None, tmp_path: Path) -> None:
    """One member was not purged, and its log ends before."""
    built = good_run(2 * OPERATIONS)
    built.write(tmp_path)
    log = tmp_path / "member-0" / "archive" / f"{built.recording_ids[0]}-0.rec"
    log.write_bytes(log.read_bytes()[: SEGMENT // 2].ljust(SEGMENT, b"\0"))
    for base in range(SEGMENT, built.end_positions[0], SEGMENT):
        log.with_name(f"{built.recording_ids[0]}-{base}.rec").unlink()
    for member_id in (1, 2):
        cut(tmp_path, built, member_id, begin=member_id * SEGMENT)
        add_fault(tmp_path, "purge", member_id, 1, member_id * SEGMENT)
    start = None if wrong is None else change_a_key(tmp_path, built, wrong, 3600)
    finding = verify_run(tmp_path).finding(Promise.LOGS_EQUAL)
    verdict = Verdict.VALID if wrong is None else Verdict.INVALID
    assert (finding.verdict, finding.position) == (verdict, start), finding.detail


def not_at_all(_path: Path) -> None:
    """There was no fault."""


def of_another_member(path: Path) -> None:
    add_fault(path, "purge", 2, 1)


def to_another_position(path: Path) -> None:
    add_fault(path, "purge", 1, 1, SEGMENT * 2)


def without_proof(path: Path) -> None:
    add_fault(path, "purge", 1, 1, holds=False)


def before_a_wipe(path: Path) -> None:
    add_fault(path, "wipe", 1, 2)
    add_fault(path, "purge", 1, 1)


def before_a_purge_to_another_position(path: Path) -> None:
    add_fault(path, "purge", 1, 2, SEGMENT * 2)
    add_fault(path, "purge", 1, 1)


def by_another_fault(path: Path) -> None:
    add_fault(path, "damage", 1, 1)


@pytest.mark.parametrize(
    "purge",
    [
        not_at_all,
        of_another_member,
        to_another_position,
        without_proof,
        before_a_wipe,
        before_a_purge_to_another_position,
        by_another_fault,
    ],
    ids=lambda purge: purge.__name__,
)
@pytest.mark.parametrize("others", [(), (0,)])
def test_a_later_begin_that_no_purge_explains_is_a_difference(
    purge: Purge, others: tuple[int, ...], tmp_path: Path
) -> None:
    """Of member 1, while another one may have been purged."""
    built = good_run(OPERATIONS)
    built.write(tmp_path)
    cut(tmp_path, built, 1, *others)
    purge(tmp_path)
    for member_id in others:
        add_fault(tmp_path, "purge", member_id, 1)
    finding = verify_run(tmp_path).finding(Promise.LOGS_EQUAL)
    assert finding.verdict is Verdict.INVALID, finding.detail
    assert "have segments at positions " in finding.detail
    assert 1 in finding.members


def change_a_key(path: Path, built: BuiltRun, member_id: int, after: int) -> int:
    """Returns where the frame with it begins."""
    index = operation_index(built, lambda operation: operation.f is Function.APPEND, after=after)
    log = LogBuilder()
    payloads = built.payloads[member_id]
    for payload in payloads[: payload_index(payloads, built.operations[index].id) + 1]:
        log.append(payload)
    start = log.position - len(log.blocks[-1])
    base = start - start % SEGMENT
    segment = path / f"member-{member_id}" / "archive" / f"{built.recording_ids[member_id]}-{base}.rec"
    data = bytearray(segment.read_bytes())
    data[start - base + 32 + 32 + 24] ^= 1
    segment.write_bytes(data)
    return start


@pytest.mark.parametrize("wrong", [0, 1, 2])
@pytest.mark.parametrize("purged", [0, 1])
def test_a_difference_past_the_begin_is_found(wrong: int, purged: int, tmp_path: Path) -> None:
    built = good_run(OPERATIONS)
    built.write(tmp_path)
    cut(tmp_path, built, purged)
    add_fault(tmp_path, "purge", purged, 1)
    start = change_a_key(tmp_path, built, wrong, 1800)
    assert start > SEGMENT
    finding = verify_run(tmp_path).finding(Promise.LOGS_EQUAL)
    assert (finding.verdict, finding.position) == (Verdict.INVALID, start), finding.detail


def test_a_difference_before_the_begin_is_found_between_the_others(tmp_path: Path) -> None:
    built = good_run(OPERATIONS)
    built.write(tmp_path)
    cut(tmp_path, built, 0)
    add_fault(tmp_path, "purge", 0, 1)
    start = change_a_key(tmp_path, built, 2, 50)
    assert start < SEGMENT
    finding = verify_run(tmp_path).finding(Promise.LOGS_EQUAL)
    expected = (Verdict.INVALID, start, (1, 2))
    assert (finding.verdict, finding.position, finding.members) == expected, finding.detail


@pytest.mark.parametrize(
    ("members", "has_record", "verdict"),
    [
        ((0,), True, Verdict.VALID),
        ((1, 2), True, Verdict.VALID),
        ((1, 2), False, Verdict.UNKNOWN),
        ((0, 1, 2), True, Verdict.UNKNOWN),
    ],
)
def test_a_restored_member_may_have_been_purged_unless_all_were(
    members: tuple[int, ...], has_record: bool, verdict: Verdict, tmp_path: Path
) -> None:
    built = good_run(OPERATIONS)
    run = built.write(tmp_path)
    position = built.operations[300].position
    assert position is not None
    digest = log_digest(RecordedLog(run.member(0)), 0, position)
    write_origin(tmp_path, Origin("/x/backup-0", "run-0", 0, position, digest, (), 300))
    cut(tmp_path, built, *members)
    for member_id in members if has_record else ():
        add_fault(tmp_path, "purge", member_id, 1)
    finding = verify_run(tmp_path).finding(Promise.BACKED_UP)
    assert finding.verdict is verdict, finding.detail
    assert (f"the log of member {members[0]} begins at position {SEGMENT}" in finding.detail) is (
        verdict is Verdict.UNKNOWN
    )
