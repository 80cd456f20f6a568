"""recording-log, recovery-plan, sort, seed and invalidate on folders of nodes that are down."""

import os
from pathlib import Path

import pytest

from support.memory_storage import MemoryStorage
from support.tool_folders import log_content, make_node, put, reversed_records, tool
from upheaval_node.errors import NodeError
from upheaval_node.files import layout
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.files.recording_log_entry import read_entries
from upheaval_node.runtime.mark_lock import MarkLock
from upheaval_node.tool.__main__ import main
from upheaval_node.tool.answer import FAILURE

SORT = "sort-recording-log"
SEED = "seed-recording-log-from-snapshot"
INVALIDATE = "invalidate-latest-snapshot"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return put(tmp_path / "recording.log", log_content())


def test_sorting_an_empty_log_does_nothing(tmp_path: Path) -> None:
    log = put(tmp_path / "recording.log", b"")
    answer = tool(tmp_path, SORT)
    assert (answer.status, answer.values["sorted"], log.read_bytes()) == (FAILURE, False, b"")


def test_sorting_a_log_that_is_missing_makes_none(tmp_path: Path) -> None:
    assert tool(tmp_path, SORT).status == FAILURE
    assert list(tmp_path.iterdir()) == []


def test_sorting_a_sorted_log_leaves_it(log: Path) -> None:
    before = log.stat()
    assert tool(log.parent, SORT).status == FAILURE
    assert (log.stat().st_ino, log.read_bytes()) == (before.st_ino, log_content())


def test_sorting_puts_the_records_into_the_order_of_memory(log: Path) -> None:
    log.write_bytes(reversed_records(log_content()))
    assert tool(log.parent, SORT).status == 0
    assert log.read_bytes() == log_content()
    assert [path.name for path in log.parent.iterdir()] == ["recording.log"]


@pytest.mark.parametrize("word", [SORT, SEED])
def test_a_new_file_belongs_to_whom_the_old_one_did(log: Path, word: str) -> None:
    """The tool may run as root, and the node has to open its log again."""
    log.write_bytes(reversed_records(log_content()))
    log.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(log, 1234, 2345)
    before = log.stat()
    assert tool(log.parent, word).status == 0
    after = log.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_seeding_without_a_valid_snapshot_leaves_only_a_backup(log: Path) -> None:
    for _ in range(2):
        assert tool(log.parent, INVALIDATE).status == 0
    content = log.read_bytes()
    assert tool(log.parent, SEED).status == 0
    assert not log.exists()
    assert (log.parent / "recording.log.bak").read_bytes() == content


def test_seeding_leaves_the_newest_snapshot_at_position_zero(log: Path) -> None:
    assert tool(log.parent, SEED).status == 0
    entries, _, _ = read_entries(log.read_bytes())
    shown = [(e.recording_id, e.term_base_log_position, e.log_position, e.service_id) for e in entries]
    assert shown == [(3, 0, 0, 0), (4, 0, 0, -1)]
    assert (log.parent / "recording.log.bak").read_bytes() == log_content()


def test_seeding_by_the_command_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(log.parent), SEED]) == 0
    assert capsys.readouterr() == ("", "")
    entries, _, _ = read_entries(log.read_bytes())
    assert [entry.log_position for entry in entries] == [0, 0]
    assert (log.parent / "recording.log.bak").read_bytes() == log_content()


def test_invalidating_goes_from_the_newest_snapshot_to_the_oldest(log: Path) -> None:
    valid = []
    for _ in range(3):
        answer = tool(log.parent, INVALIDATE)
        valid.append((answer.status, [entry.is_valid for entry in read_entries(log.read_bytes())[0]]))
    assert valid == [
        (0, [True, True, True, False, False, True]),
        (0, [True, False, False, False, False, True]),
        (FAILURE, [True, False, False, False, False, True]),
    ]
    assert answer.lines == [" invalidate latest snapshot: false"]


def test_invalidating_under_a_component_that_runs_keeps_the_file_that_it_writes(tmp_path: Path) -> None:
    log = make_node(tmp_path) / layout.RECORDING_LOG
    before = log.stat()
    lock = MarkLock(str(tmp_path / layout.CLUSTER_MARK))
    try:
        assert tool(tmp_path, INVALIDATE).status == 0
        for command in (SORT, SEED):
            log.write_bytes(reversed_records(log_content()))
            with pytest.raises(NodeError, match=r"^recording.log is in use: "):
                tool(tmp_path, command)
            assert (log.read_bytes(), log.stat().st_ino) == (reversed_records(log_content()), before.st_ino)
    finally:
        lock.release()
    assert tool(tmp_path, SORT).status == 0
    assert not (tmp_path / "cluster" / "recording.log.bak").exists()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (b"\x01" * 64, "entry 6 has the unknown type"),
        (b"\x01" * 30, "30 bytes after its last record; not changed"),
    ],
)
def test_a_damaged_log_is_not_sorted(log: Path, damage: bytes, told: str) -> None:
    content = reversed_records(log_content()) + damage
    log.write_bytes(content)
    with pytest.raises(NodeError, match=told):
        tool(log.parent, SORT)
    assert log.read_bytes() == content
    assert [path.name for path in log.parent.iterdir()] == ["recording.log"]


def test_a_torn_end_stays_where_it_is_when_a_snapshot_is_invalidated(log: Path) -> None:
    log.write_bytes(log_content() + b"\x01" * 30)
    assert tool(log.parent, INVALIDATE).status == 0
    assert (len(log.read_bytes()), log.read_bytes()[-30:]) == (len(log_content()) + 30, b"\x01" * 30)


def test_entries_of_every_kind_are_shown(tmp_path: Path) -> None:
    storage = MemoryStorage()
    log = RecordingLog(storage)
    log.append_term(5, 0, 0, 1)
    log.append_standby_snapshot(6, 0, 0, 64, 2, -1, "away:1")
    put(tmp_path / "recording.log", storage.content(layout.RECORDING_LOG))
    answer = tool(tmp_path, "recording-log")
    term = "Entry{recordingId=5, leadershipTermId=0, termBaseLogPosition=0, logPosition=-1, timestamp=1, serviceId=-1, "
    assert answer.lines[0].startswith(f"RecordingLog{{entries=[{term}type=TERM, isValid=true, entryIndex=0}}, ")
    tail = "type=STANDBY_SNAPSHOT, isValid=true, entryIndex=1, archiveEndpoint=away:1}], cacheIndex={0=0}}"
    assert answer.lines[0].endswith(tail)
    assert answer.values["cacheIndex"] == {"0": 0}


def test_a_recovery_plan_says_where_the_log_of_a_killed_archive_ends(tmp_path: Path) -> None:
    values = tool(make_node(tmp_path), "recovery-plan", "1").values
    assert values["log"] == {
        "recordingId": 0,
        "leadershipTermId": 1,
        "termBaseLogPosition": 8192,
        "logPosition": -1,
        "startPosition": 640,
        "stopPosition": 20 * 64,
        "initialTermId": values["log"]["initialTermId"],  # type: ignore[index,call-overload]  # drawn
        "termBufferLength": 65536,
        "mtuLength": 1408,
        "sessionId": values["log"]["sessionId"],  # type: ignore[index,call-overload]  # drawn
    }
    assert values["appendedLogPosition"] == 20 * 64
    assert isinstance(values["snapshots"], list)
    assert [each["serviceId"] for each in values["snapshots"]] == [-1, 0]


@pytest.mark.parametrize(
    ("count", "told"),
    [
        ("x", "expected a service count from 0 to 127, got 'x'"),
        ("-1", "got '-1'"),
        ("9" * 30, "expected a service count"),
        ("4", "no recovery plan: 4 services, but only"),
    ],
)
def test_a_recovery_plan_needs_a_number_of_services(tmp_path: Path, count: str, told: str) -> None:
    with pytest.raises(NodeError, match=told):
        tool(make_node(tmp_path), "recovery-plan", count)


def test_a_recovery_plan_needs_the_archive(tmp_path: Path) -> None:
    put(tmp_path / "recording.log", log_content())
    with pytest.raises(NodeError, match="name it with --archive"):
        tool(tmp_path, "recovery-plan", "1")
    other = make_node(tmp_path / "other") / "archive"
    assert tool(tmp_path, "recovery-plan", "1", "--archive", str(other)).status == 0
    (other / "archive.catalog").write_bytes(b"\x07" * 5000)
    with pytest.raises(NodeError, match="the archive cannot be read: "):
        tool(tmp_path, "recovery-plan", "1", "--archive", str(other))
