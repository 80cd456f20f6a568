"""The promise about backups and what is restored from them: kept by good runs, and each way to break it is found."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.built_runs import BuiltRun, LogBuilder, good_run, new_term, operation_index, payload_index, write_log
from upheaval.checkers.evidence.log_pieces import log_digest
from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.errors import UsageError
from upheaval.records import CompanionConfig, Function, Origin, RunFolder, note_companion, write_origin
from upheaval_node.protocol import cluster_messages as cm

RECORDING_ID = 5
HELD = 300


def built(tmp_path: Path) -> BuiltRun:
    run = good_run()
    run.write(tmp_path)
    return run


def write_backup(run: Path, payloads: Sequence[bytes], *, noted: int | None = None) -> int:
    """A backup with these messages of the log; returns where it ends."""
    log = LogBuilder()
    for payload in payloads:
        log.append(payload)
    begun = [event for event in map(cm.SCHEMA.decode, payloads) if isinstance(event, cm.NewLeadershipTermEvent)]
    terms = {event.leadership_term_id: event.term_base_log_position for event in begun}
    write_log(run / "backup-0", RECORDING_ID, b"".join(log.blocks), session_id=77, terms=terms)
    recording_log = run / "backup-0" / "cluster" / "recording.log"
    recording_log.write_bytes(recording_log.read_bytes()[64:])
    note_companion(run, CompanionConfig("backup-0", position=log.position if noted is None else noted))
    return log.position


def judged(run: Path) -> Finding:
    return verify_run(run).finding(Promise.BACKED_UP)


def segment(run: Path) -> Path:
    return run / "backup-0" / "archive" / f"{RECORDING_ID}-0.rec"


def test_a_run_without_backups_has_no_such_line(tmp_path: Path) -> None:
    built(tmp_path)
    assert Promise.BACKED_UP not in [finding.promise for finding in verify_run(tmp_path).findings]


@pytest.mark.parametrize("held", [1, HELD, None])
def test_a_backup_that_is_behind_is_good_as_far_as_it_goes(tmp_path: Path, held: int | None) -> None:
    run = built(tmp_path)
    end = write_backup(tmp_path, run.payloads[0][:held])
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.VALID, finding
    assert f"up to position {end}, byte for byte the log of member 0" in finding.detail
    assert verify_run(tmp_path).verdict is Verdict.VALID


def test_a_cut_frame_below_the_position_that_it_named_is_invalid(tmp_path: Path) -> None:
    run = built(tmp_path)
    end = write_backup(tmp_path, run.payloads[0][:HELD])
    last = LogBuilder()
    for payload in run.payloads[0][: HELD - 1]:
        last.append(payload)
    with segment(tmp_path).open("r+b") as stream:
        stream.truncate(last.position + 32)
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.INVALID
    assert f"ends at position {last.position}, it reported it up to {end}" in finding.detail


def test_a_hole_in_its_log_is_invalid(tmp_path: Path) -> None:
    run = built(tmp_path)
    write_backup(tmp_path, run.payloads[0][:HELD])
    data = bytearray(segment(tmp_path).read_bytes())
    start = run.operations[100].position
    assert start is not None
    data[start : start + 32] = bytes(32)
    segment(tmp_path).write_bytes(data)
    finding = judged(tmp_path)
    assert (finding.verdict, f"ends at position {start}" in finding.detail) == (Verdict.INVALID, True), finding


def test_an_operation_that_is_missing_is_named(tmp_path: Path) -> None:
    run = built(tmp_path)
    victim = run.operations[operation_index(run, lambda o: o.f is Function.WRITE, after=100)]
    payloads = list(run.payloads[0][:HELD])
    del payloads[payload_index(payloads, victim.id)]
    write_backup(tmp_path, payloads)
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.INVALID
    assert f"id={victim.id} " in finding.detail
    assert f"position {victim.position}" in finding.detail


def test_a_changed_byte_is_invalid_and_the_position_is_named(tmp_path: Path) -> None:
    run = built(tmp_path)
    write_backup(tmp_path, run.payloads[0][:HELD])
    data = bytearray(segment(tmp_path).read_bytes())
    at = run.operations[50].position
    assert at is not None
    # The leadership term in the header of the message after it: no field of an operation.
    data[at + 32 + 8] ^= 1
    segment(tmp_path).write_bytes(data)
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.INVALID
    assert f"is not that of member 0 at position {at}" in finding.detail


def test_log_that_was_never_committed_is_invalid(tmp_path: Path) -> None:
    """One member has it, too: a leader that was cut off had appended it."""
    run = built(tmp_path)
    end = run.end_positions[0]
    longer = [*run.payloads[0], new_term(2, 1)]
    log = LogBuilder()
    for payload in longer:
        log.append(payload)
    path = tmp_path / "member-2" / "archive" / "7-0.rec"
    path.write_bytes(b"".join(log.blocks).ljust(path.stat().st_size, b"\0"))
    write_backup(tmp_path, longer)
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.INVALID
    assert f"past the commit position {end}, where 1 of 3 members have the same" in finding.detail


def test_without_a_converge_phase_a_longer_backup_is_unknown(tmp_path: Path) -> None:
    run = good_run()
    run.converged = False
    run.write(tmp_path)
    write_backup(tmp_path, [*run.payloads[0], new_term(2, 1)])
    finding = judged(tmp_path)
    assert (finding.verdict, "more log than any member" in finding.detail) == (Verdict.UNKNOWN, True)


def test_a_backup_without_a_log_is_unknown_unless_it_said_that_it_has_one(tmp_path: Path) -> None:
    built(tmp_path)
    (tmp_path / "backup-0").mkdir()
    assert judged(tmp_path).verdict is Verdict.UNKNOWN
    note_companion(tmp_path, CompanionConfig("backup-0", position=4096))
    finding = judged(tmp_path)
    assert (finding.verdict, "up to position 4096, and has none" in finding.detail) == (Verdict.INVALID, True)


def test_an_empty_log_is_no_backup(tmp_path: Path) -> None:
    built(tmp_path)
    assert write_backup(tmp_path, []) == 0
    finding = judged(tmp_path)
    assert (finding.verdict, finding.detail) == (Verdict.UNKNOWN, "the log of backup-0 is empty")


def test_a_backup_whose_folder_is_gone_is_invalid(tmp_path: Path) -> None:
    built(tmp_path)
    note_companion(tmp_path, CompanionConfig("backup-0", position=4096))
    finding = judged(tmp_path)
    assert (finding.verdict, "up to position 4096, and has none" in finding.detail) == (Verdict.INVALID, True), finding


def test_a_backup_of_log_that_no_member_has_any_more_is_unknown(tmp_path: Path) -> None:
    run = built(tmp_path)
    end = write_backup(tmp_path, run.payloads[0][:HELD])
    for member_id in range(3):
        catalog = tmp_path / f"member-{member_id}" / "archive" / "archive.catalog"
        data = bytearray(catalog.read_bytes())
        struct.pack_into("<q", data, 32 + 128 + 32 + 40, end)
        catalog.write_bytes(data)
    finding = judged(tmp_path)
    assert (finding.verdict, "nothing of the log of backup-0" in finding.detail) == (Verdict.UNKNOWN, True), finding


# --- snapshots ---


def write_snapshot(folder: Path, recording_id: int, position: int, service_id: int, content: Sequence[bytes]) -> None:
    """A recording of a snapshot, in catalog and recording log."""
    log = LogBuilder()
    for message in content:
        log.append(message)
    (folder / "archive" / f"{recording_id}-0.rec").write_bytes(b"".join(log.blocks).ljust(64 * 1024, b"\0"))
    catalog = folder / "archive" / "archive.catalog"
    data = bytearray(catalog.read_bytes().rstrip(b"\0"))
    # The descriptor of the log, once more under another id.
    entry = bytearray(catalog.read_bytes()[32 + 128 : 32 + 256])
    struct.pack_into("<q", entry, 32 + 16, recording_id)
    struct.pack_into("<q", entry, 32 + 40, 0)  # the start position
    while len(data) % 128 != 32:
        data += b"\0"
    catalog.write_bytes(bytes(data + entry).ljust(4096, b"\0"))
    with (folder / "cluster" / "recording.log").open("ab") as stream:
        stream.write(struct.pack("<qqqqqii16x", recording_id, 0, 0, position, 1, service_id, 1))


def mark(type_id: int, kind: cm.SnapshotMark) -> bytes:
    return cm.SCHEMA.encode(
        cm.SnapshotMarker(
            type_id=type_id, log_position=0, leadership_term_id=0, index=0, mark=kind, time_unit=0, app_version=1
        )
    )


def state(text: bytes) -> list[bytes]:
    return [mark(2, cm.SnapshotMark.BEGIN), mark(2, cm.SnapshotMark.END), text]


def with_snapshots(tmp_path: Path, of_backup: Sequence[bytes]) -> Finding:
    run = built(tmp_path)
    write_backup(tmp_path, run.payloads[0][:HELD])
    position = run.operations[50].position
    assert position is not None
    write_snapshot(tmp_path / "member-1", 20, position, 0, state(b"good"))
    write_snapshot(tmp_path / "backup-0", 9, position, 0, of_backup)
    return judged(tmp_path)


def test_a_snapshot_that_a_member_recorded_is_good(tmp_path: Path) -> None:
    finding = with_snapshots(tmp_path, state(b"good"))
    assert (finding.verdict, "and snapshots at" in finding.detail) == (Verdict.VALID, True), finding


@pytest.mark.parametrize(
    ("of_backup", "said"),
    [(state(b"wrong"), "is that of no member"), (state(b"good")[:1], "has no end")],
    ids=["changed", "cut"],
)
def test_another_snapshot_is_invalid(tmp_path: Path, of_backup: Sequence[bytes], said: str) -> None:
    finding = with_snapshots(tmp_path, of_backup)
    assert (finding.verdict, said in finding.detail) == (Verdict.INVALID, True), finding


def test_a_snapshot_without_its_recording_is_invalid(tmp_path: Path) -> None:
    run = built(tmp_path)
    write_backup(tmp_path, run.payloads[0][:HELD])
    write_snapshot(tmp_path / "backup-0", 9, 4096, -1, state(b"x"))
    (tmp_path / "backup-0" / "archive" / "9-0.rec").unlink()
    finding = judged(tmp_path)
    assert (finding.verdict, "at position 4096 in backup-0 cannot be read" in finding.detail) == (Verdict.INVALID, True)


def test_a_log_that_begins_later_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    run = good_run(2000)
    run.write(tmp_path)
    write_backup(tmp_path, run.payloads[0])
    start = 128 * 1024
    catalog = tmp_path / "backup-0" / "archive" / "archive.catalog"
    data = bytearray(catalog.read_bytes())
    struct.pack_into("<q", data, data.rindex(struct.pack("<q", RECORDING_ID), 0, 32 + 256) + 24, start)
    catalog.write_bytes(data)
    segment(tmp_path).unlink()
    finding = judged(tmp_path)
    assert (finding.verdict, f"begins at position {start}" in finding.detail) == (Verdict.INVALID, True), finding
    for recording_id, service_id in ((9, 0), (10, -1)):
        write_snapshot(tmp_path / "backup-0", recording_id, start, service_id, state(b"x"))
    finding = judged(tmp_path)
    assert (finding.verdict, "where no member has one" in finding.detail) == (Verdict.INVALID, True), finding
    for recording_id, service_id in ((9, 0), (10, -1)):
        write_snapshot(tmp_path / "member-1", recording_id, start, service_id, state(b"x"))
    assert judged(tmp_path).verdict is Verdict.VALID


# --- restored runs ---


def restored(tmp_path: Path) -> tuple[BuiltRun, int]:
    run = built(tmp_path)
    position = run.operations[HELD].position
    assert position is not None
    digest = log_digest(RecordedLog(RunFolder(tmp_path).member(0)), 0, position)
    write_origin(tmp_path, Origin("/x/backup-0", "run-0", 0, position, digest, (), HELD))
    return run, position


def test_a_restored_run_has_what_it_was_given(tmp_path: Path) -> None:
    _, position = restored(tmp_path)
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.VALID
    assert f"all 3 members have its log up to position {position}" in finding.detail


def test_a_restored_member_that_lost_some_of_it_is_invalid(tmp_path: Path) -> None:
    run, position = restored(tmp_path)
    path = tmp_path / "member-1" / "archive" / "3-0.rec"
    data = bytearray(path.read_bytes())
    at = run.operations[30].position
    assert at is not None
    data[at + 32 + 8] ^= 1
    path.write_bytes(data)
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.INVALID
    assert f"member 1 does not have the log up to position {position}" in finding.detail


def test_a_restored_member_without_the_snapshot_that_its_log_goes_on_from_is_invalid(tmp_path: Path) -> None:
    run, position = restored(tmp_path)
    start = run.operations[100].position
    assert start is not None
    for member_id in range(3):
        folder = tmp_path / f"member-{member_id}"
        catalog = folder / "archive" / "archive.catalog"
        data = bytearray(catalog.read_bytes())
        struct.pack_into("<q", data, 32 + 128 + 32 + 40, start)
        catalog.write_bytes(data)
    digest = log_digest(RecordedLog(RunFolder(tmp_path).member(0)), start, position)
    write_origin(tmp_path, Origin("/x/backup-0", "run-0", start, position, digest, (start,), HELD))
    finding = judged(tmp_path)
    assert finding.verdict is Verdict.INVALID
    assert f"member 0 does not have the snapshot at position {start}" in finding.detail
    for member_id in range(3):
        write_snapshot(tmp_path / f"member-{member_id}", 30, start, -1, state(b"x"))
    assert judged(tmp_path).verdict is Verdict.VALID


def test_an_origin_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    restored(tmp_path)
    path = tmp_path / "origin.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "position": "far"}))
    with pytest.raises(UsageError, match=r"origin.json: field 'position' must be an integer"):
        verify_run(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [(("backup-0", "backup-x"), "'backup-x' is not a node name"), (("ANY", "SOME"), "source 'SOME': use one of ANY")],
    ids=["name", "source"],
)
def test_companions_that_cannot_be_read_are_one_line(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    run = built(tmp_path)
    write_backup(tmp_path, run.payloads[0])
    path = tmp_path / "companions.json"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(UsageError, match=f"companions.json: {said}"):
        verify_run(tmp_path)
