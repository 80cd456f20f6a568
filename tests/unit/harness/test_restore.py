"""Restore: what it refuses with one line and leaves alone, and what it makes of what it takes."""

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import BuiltRun, LogBuilder, built_calls, good_run, write_log
from upheaval.checkers.evidence.recordings import RecordedLog, snapshot_entries
from upheaval.checkers.judge import verify_run
from upheaval.checkers.own.java_members import copy_files
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.errors import HarnessError, UsageError
from upheaval.operations.restore import (
    Source,
    carried_operations,
    examine,
    fill,
    next_id,
    restore,
    spec_of,
    with_protocol_of,
    with_service,
)
from upheaval.records import (
    Manifest,
    MemberFolder,
    Outcome,
    Payloads,
    RunFolder,
    copy_sparse,
    read_origin,
    read_schema,
)
from upheaval.system import ClusterSpec
from upheaval_node.runtime.mark_lock import MarkLock

ORDERS = Path(__file__).parents[3] / "examples" / "orders"
ORDERS_SERVICE = "orderbook.service:OrderBook"
RECORDING_ID = 5
HELD = 300
LATER_NS = 10**18


def backed_up(path: Path, run: BuiltRun | None = None, held: int = HELD) -> Path:
    """The folder of a backup with so many messages of a good run."""
    run = run or good_run()
    run.write(path)
    log = LogBuilder()
    for payload in run.payloads[0][:held]:
        log.append(payload)
    write_log(path / "backup-0", RECORDING_ID, b"".join(log.blocks), session_id=77)
    recording_log = path / "backup-0" / "cluster" / "recording.log"
    recording_log.write_bytes(recording_log.read_bytes()[64:])
    return path / "backup-0"


def add_snapshot(backup: Path, recording_id: int, position: int) -> None:
    with (backup / "cluster" / "recording.log").open("ab") as stream:
        stream.write(struct.pack("<qqqqqii16x", recording_id, 0, 0, position, 1, -1, 1))


# --- what is refused ---


def without_recording_log(backup: Path) -> None:
    (backup / "cluster" / "recording.log").unlink()


def without_terms(backup: Path) -> None:
    (backup / "cluster" / "recording.log").write_bytes(b"")


def with_a_recording_log_that_is_none(backup: Path) -> None:
    (backup / "cluster" / "recording.log").write_bytes(bytes(range(64)))


def without_the_log(backup: Path) -> None:
    (backup / "archive" / f"{RECORDING_ID}-0.rec").unlink()


def without_a_catalog(backup: Path) -> None:
    (backup / "archive" / "archive.catalog").unlink()


def without_a_snapshot(backup: Path) -> None:
    add_snapshot(backup, 8, 4096)


def with_an_empty_log(backup: Path) -> None:
    path = backup / "archive" / f"{RECORDING_ID}-0.rec"
    path.write_bytes(bytes(path.stat().st_size))


def with_a_file_for_a_folder(backup: Path) -> None:
    backup.rename(backup.with_name("moved"))
    backup.write_text("x", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_recording_log, "has no cluster/recording.log: give the folder of a backup"),
        (without_terms, "names no log: the backup had received none yet"),
        (with_a_recording_log_that_is_none, "recording.log cannot be read: "),
        (without_the_log, "names recording 5: backup-0 has no recording 5: 5-0.rec is missing in its archive"),
        (without_a_catalog, "names recording 5: cannot read "),
        (without_a_snapshot, "has no recording 8"),
        (with_an_empty_log, "is empty: it cannot be restored"),
        (with_a_file_for_a_folder, "is not a folder: give the folder of a backup"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoil: Callable[[Path], None], said: str
) -> None:
    backup = backed_up(tmp_path / "run")
    spoil(backup)
    before = sorted(tmp_path.rglob("*"))
    assert main(["restore", "--from", str(backup), "--dir", str(tmp_path / "new")]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert (captured.err.count("\n"), captured.out) == (1, "")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("mark", ["cluster/cluster-mark.dat", "archive/archive-mark.dat"])
def test_a_folder_in_use_is_refused(tmp_path: Path, mark: str) -> None:
    backup = backed_up(tmp_path / "run")
    lock = MarkLock(str(backup / mark))
    with pytest.raises(UsageError, match="is in use by a live process: stop it first"):
        examine(backup)
    lock.release()
    assert examine(backup).position > 0


@pytest.mark.parametrize("arguments", [["--members", "0"], ["--service", "nothing-like-it"], ["--base-port", "80"]])
def test_what_could_never_start_is_refused_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    backup = backed_up(tmp_path / "run")
    assert main(["restore", "--from", str(backup), "--dir", str(tmp_path / "new"), *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_target_that_holds_something_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = backed_up(tmp_path / "run")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "precious").write_text("x")
    assert main(["restore", "--from", str(backup), "--dir", str(tmp_path / "new")]) == 2
    assert "is not empty (precious)" in capsys.readouterr().err
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["precious"]


def test_a_copy_that_fails_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    backup = backed_up(tmp_path / "run")
    source = examine(backup)
    (tmp_path / "new").mkdir()
    (backup / "cluster" / "recording.log").unlink()
    with pytest.raises(HarnessError, match=r"cannot read .*recording\.log: No such file"):
        restore(source, tmp_path / "new", runtime="process")
    assert list((tmp_path / "new").iterdir()) == []


# --- what is made ---


def test_each_member_begins_with_log_and_recording_log(tmp_path: Path) -> None:
    backup = backed_up(tmp_path / "run")
    (backup / "archive" / "archive-mark.dat").write_bytes(b"m")
    source = examine(backup)
    with restore(source, tmp_path / "new", ClusterSpec(members=5), runtime="process") as cluster:
        run = cluster.run
    assert run.read_manifest().members == 5
    for member_id in range(5):
        folder = run.member(member_id)
        log = RecordedLog(folder)
        assert sum(len(segment.offsets) for segment in log.segments()) >= HELD
        assert log.end_position == source.position
        assert not (folder.path / "archive" / "archive-mark.dat").exists()
    origin = read_origin(run.path)
    assert origin is not None
    assert (origin.name, origin.run_id, origin.position) == ("backup-0", "run-1", source.position)
    finding = verify_run(run.path).finding(Promise.BACKED_UP)
    assert finding.verdict is Verdict.VALID, finding


def orders_backed_up(path: Path) -> Source:
    """Of a run of the example, which has a schema."""
    run = good_run()
    run.manifest = replace(run.manifest, service=ORDERS_SERVICE, source=str(ORDERS), model="orderbook.model:Orders")
    backup = backed_up(path, run)
    shutil.copy(ORDERS / "protocol.xml", path / "schema.xml")
    return examine(backup)


def test_a_restored_cluster_has_code_model_and_schema_of_its_origin(tmp_path: Path) -> None:
    source = orders_backed_up(tmp_path / "run")
    spec = spec_of(source)
    assert (spec.service, spec.source, spec.model) == (ORDERS_SERVICE, str(ORDERS), "orderbook.model:Orders")
    with restore(source, tmp_path / "new", replace(spec, model=""), runtime="process") as cluster:
        restored = cluster.run
    schema = Payloads.of(restored).schema
    assert schema is not None
    assert schema.messages.keys() == read_schema(str(ORDERS / "protocol.xml")).messages.keys()
    assert restored.read_manifest().source == str(ORDERS)


def test_another_service_has_its_own_code_model_and_schema(tmp_path: Path) -> None:
    source = orders_backed_up(tmp_path / "run")
    other = with_service(spec_of(source), "ledger")
    assert (other.service, other.source, other.model, other.schema) == ("ledger", "", "", "")
    assert with_service(spec_of(source), ORDERS_SERVICE) == spec_of(source)


def test_a_cluster_of_a_test_gets_the_model_and_schema_that_it_does_not_name(tmp_path: Path) -> None:
    source = orders_backed_up(tmp_path / "run")
    spec = ClusterSpec(service=ORDERS_SERVICE, source=str(ORDERS))
    completed = with_protocol_of(source, spec)
    assert (completed.model, Path(completed.schema)) == ("orderbook.model:Orders", tmp_path / "run" / "schema.xml")
    named = replace(spec, model="mine:Model", schema="mine.xml")
    assert with_protocol_of(source, named) == named
    other = replace(spec, service="ledger", source="")
    assert with_protocol_of(source, other) == other


def test_a_snapshot_that_the_log_does_not_reach_is_left_out(tmp_path: Path) -> None:
    backup = backed_up(tmp_path / "run")
    end = examine(backup).position
    for position in (end, end + 32):
        add_snapshot(backup, RECORDING_ID, position)
    source = examine(backup)
    assert (source.snapshots, [entry.log_position for entry in source.unreached]) == ((end,), [end + 32])
    run = RunFolder(tmp_path / "new")
    run.create(Manifest("run-2", "process", 3, "test", 0))
    fill(source, run, 3, LATER_NS)
    assert [position for _, position, _ in snapshot_entries(run.member(2).recording_log)] == [end]
    assert len(snapshot_entries(backup / "cluster" / "recording.log")) == 2


def test_a_folder_without_a_run_is_restored_without_a_history(tmp_path: Path) -> None:
    backup = backed_up(tmp_path / "run").rename(tmp_path / "kept")
    source = examine(backup)
    assert source.manifest is None
    run = RunFolder(tmp_path / "new")
    run.create(Manifest("run-2", "process", 3, "test", 0))
    fill(source, run, 3, LATER_NS)
    origin = read_origin(run.path)
    assert origin is not None
    assert (origin.run_id, origin.operations, list(run.read_history())) == ("", 0, [])


def test_operations_after_the_backup_stay_out(tmp_path: Path) -> None:
    run = good_run()
    source = examine(backed_up(tmp_path / "run", run))
    carried = carried_operations(source, LATER_NS)
    answered = [each.id for each in run.operations if each.position is not None and each.position <= source.position]
    assert [each.id for each in carried if each.outcome is Outcome.OK] == answered
    assert {each.id for each in carried if each.outcome is Outcome.UNKNOWN} == {19 + 40 * n for n in range(8)}
    assert next_id(carried) == max(each.id for each in carried) + 1
    assert next_id([]) == 0


def test_calls_are_carried_by_their_payloads(tmp_path: Path) -> None:
    """The first two are the same payload, and both are in the log."""
    run = built_calls(200)
    source = examine(backed_up(tmp_path / "run", run, held=50))
    carried = carried_operations(source, LATER_NS)
    assert [each.id for each in carried if each.outcome is Outcome.OK][:3] == [0, 1, 2]
    # A term and a session begin the log.
    assert len(carried) == 50 - 2


def test_times_of_another_clock_are_moved_before_the_restore(tmp_path: Path) -> None:
    run = good_run()
    source = examine(backed_up(tmp_path / "run", run))
    now_ns = 5000
    carried = carried_operations(source, now_ns)
    assert max(max(each.invoke_ns, each.complete_ns or 0) for each in carried) < now_ns
    untouched = carried_operations(source, LATER_NS)
    back = {(a.invoke_ns - b.invoke_ns) for a, b in zip(untouched, carried, strict=True)}
    assert len(back) == 1
    assert [replace(each, invoke_ns=0, complete_ns=None) for each in carried] == [
        replace(each, invoke_ns=0, complete_ns=None) for each in untouched
    ]


def test_holes_stay_holes(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    with source.open("wb") as stream:
        stream.write(b"begin")
        stream.seek(50 << 20)
        stream.write(b"middle")
        stream.truncate(100 << 20)
    copy_sparse(source, target)
    assert target.stat().st_size == 100 << 20
    assert target.stat().st_blocks * 512 < 1 << 20
    with target.open("rb") as stream:
        assert stream.read(5) == b"begin"
        stream.seek(50 << 20)
        assert stream.read(7) == b"middle\0"


def test_holes_in_the_files_of_a_replayed_member_stay_holes(tmp_path: Path) -> None:
    member = MemberFolder(tmp_path / "member-0", 0)
    member.archive.mkdir(parents=True)
    with (member.archive / "0-0.rec").open("wb") as stream:
        stream.write(b"begin")
        stream.truncate(100 << 20)
    copy_files(member, tmp_path / "copy")
    copy = tmp_path / "copy" / "archive" / "0-0.rec"
    assert (copy.stat().st_size, copy.read_bytes()[:5]) == (100 << 20, b"begin")
    assert copy.stat().st_blocks * 512 < 1 << 20
