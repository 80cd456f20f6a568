"""Aeron's ClusterTool on mark files, recording logs and errors of our members; our members on what it wrote."""

import re
from pathlib import Path

import pytest

from support.aeron_tools import cluster_tool, fields_of
from support.live_clusters import end_without_trace
from support.memory_storage import MemoryStorage
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval_node.client.driver import BlockingClient
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ClusterMarkHeader, MarkFile, read_mark_file
from upheaval_node.files.recording_log import Entry, EntryType, RecordingLog

from .conftest import TIMEOUT_S, CopyOf, Members, take_snapshot

MEMBERS = ("killed", "stopped")


def _in_memory(member: Path, name: str) -> MemoryStorage:
    """The member's file, for the code of ours that reads such files."""
    storage = MemoryStorage()
    file = storage.open(name, create=True)
    file.write(0, ((member / name).read_bytes(),))
    file.close()
    return storage


def _log_of(member: Path) -> RecordingLog:
    return RecordingLog(_in_memory(member, layout.RECORDING_LOG), create=False)


def _mark_of(member: Path, name: str) -> ClusterMarkHeader:
    return read_mark_file(_in_memory(member, name), name, ClusterMarkHeader).header


def _as_read(entry: Entry) -> dict[str, str]:
    return {
        "recordingId": str(entry.recording_id),
        "leadershipTermId": str(entry.leadership_term_id),
        "termBaseLogPosition": str(entry.term_base_log_position),
        "logPosition": str(entry.log_position),
        "timestamp": str(entry.timestamp),
        "serviceId": str(entry.service_id),
        "type": entry.type.name,
        "isValid": str(entry.is_valid).lower(),
        "entryIndex": str(entry.entry_index),
    }


def _told(member: Path) -> list[dict[str, str]]:
    told = cluster_tool(member, "recording-log")
    assert told.status == 0, told.text
    return fields_of(told.text, "Entry")


@pytest.mark.parametrize("which", MEMBERS)
def test_recording_log_tells_the_entries_that_our_reader_reads(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    entries = _log_of(member).entries
    assert _told(member) == [_as_read(entry) for entry in entries]
    snapshots = [entry.service_id for entry in entries if entry.type is EntryType.SNAPSHOT]
    assert snapshots == [0, -1, 0, -1], "two snapshots of service and module"
    assert len(entries) > len(snapshots), "terms"


@pytest.mark.parametrize("which", MEMBERS)
def test_describe_and_pid_tell_what_the_mark_files_of_module_and_service_hold(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    told = cluster_tool(member, "describe")
    assert told.status == 0, told.text
    module, service = fields_of(told.text, "MarkFileHeader")
    for table, header in (
        (module, _mark_of(member, layout.CLUSTER_MARK)),
        (service, _mark_of(member, layout.service_mark(0))),
    ):
        assert table["memberId"] == str(header.member_id)
        assert table["serviceId"] == str(header.service_id)
        assert table["pid"] == str(header.pid)
        assert table["activityTimestamp"] == str(header.activity_timestamp)
        assert table["aeronDirectory"] == header.aeron_directory
        assert table["controlChannel"] == header.control_channel
        assert table["serviceName"] == header.service_name
    # Only an orderly end says so.
    assert (module["activityTimestamp"] == "-1") == (which == "stopped")
    assert cluster_tool(member, "pid").text.strip() == module["pid"]


def test_errors_tells_what_a_member_wrote_into_its_mark_file(copy_of: CopyOf, members: Members) -> None:
    member = copy_of("killed")
    driver = members.folder(members.killed) / "aeron"
    assert f"Aeron driver error log (directory: {driver})" in cluster_tool(member, "errors").text
    storage = _in_memory(member, layout.CLUSTER_MARK)
    mark = MarkFile(storage, layout.CLUSTER_MARK, _mark_of(member, layout.CLUSTER_MARK), now_ms=1 << 41)
    mark.error_log.record(1_700_000_000_000, "something that an operator should know")
    mark.error_log.record(1_700_000_001_000, "something that an operator should know")
    mark.signal_ready(1 << 41)
    content = storage.open(layout.CLUSTER_MARK).read(0, 1 << 22)
    (member / layout.CLUSTER_MARK).write_bytes(content)
    told = cluster_tool(member, "errors").text
    assert "something that an operator should know" in told
    assert re.search(r"\b2 observations", told), told


def test_our_reader_reads_what_sorting_left(copy_of: CopyOf) -> None:
    member = copy_of("stopped")
    entries = list(_log_of(member).entries)
    path = member / layout.RECORDING_LOG
    content = path.read_bytes()
    records = [content[at : at + 64] for at in range(0, len(content), 64)]
    path.write_bytes(b"".join(reversed(records)))
    assert [each.entry_index for each in _log_of(member).entries] == list(reversed(range(len(records))))
    assert len(records) > 4, "a term, and two snapshots of service and module"
    assert cluster_tool(member, "sort-recording-log").status == 0
    assert path.read_bytes() != b"".join(reversed(records))
    assert [_as_read(each) for each in _log_of(member).entries] == [_as_read(each) for each in entries]


@pytest.mark.parametrize("which", ["killed", "leader"])
def test_our_reader_takes_the_snapshot_before_the_one_that_was_made_invalid(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    newest = _log_of(member).latest_snapshot_set()
    answer = cluster_tool(member, "invalidate-latest-snapshot")
    assert "invalidate latest snapshot: true" in answer.text
    log = _log_of(member)
    assert [each.is_valid for each in log.entries[-5:]] == [True, True, True, False, False]
    assert all(each.is_valid for each in log.entries[:-5])
    before = log.latest_snapshot_set()
    assert [each.service_id for each in before] == [each.service_id for each in newest]
    assert before[0].log_position < newest[0].log_position


@pytest.mark.parametrize("which", ["killed", "leader"])
def test_our_reader_reads_a_log_that_was_seeded_from_the_latest_snapshot(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    newest = _log_of(member).latest_snapshot_set()
    assert cluster_tool(member, "seed-recording-log-from-snapshot").status == 0
    log = _log_of(member)
    assert _told(member) == [_as_read(each) for each in log.entries]
    seeded = log.latest_snapshot_set()
    assert [each.recording_id for each in seeded] == [each.recording_id for each in newest]
    assert {(each.term_base_log_position, each.log_position) for each in seeded} == {(0, 0)}


def test_a_member_goes_on_from_what_the_tool_left_of_its_recording_log(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "cluster", ClusterSpec(members=1))
    try:
        cluster.up()
        with BlockingClient(cluster.ingress_endpoints(), TIMEOUT_S) as client:
            client.write("k", b"in the older snapshot")
            take_snapshot(cluster, 0)
            client.write("l", b"in the newer one")
            take_snapshot(cluster, 0)
            client.write("m", b"in the log only")
        cluster.down()
        member = cluster.member(0).folder
        assert cluster_tool(member, "invalidate-latest-snapshot").status == 0
        invalidated = _values_after_a_start(cluster)
        assert cluster_tool(member, "seed-recording-log-from-snapshot").status == 0
        seeded = _values_after_a_start(cluster)
    finally:
        end_without_trace(cluster)
    # What the older snapshot lacks comes from the log; a new log has the state of the snapshot alone.
    assert invalidated == [b"in the older snapshot", b"in the newer one", b"in the log only"]
    assert seeded == [b"in the older snapshot", b"in the newer one", None]


def _values_after_a_start(cluster: ProcessCluster) -> list[bytes | None]:
    cluster.up()
    with BlockingClient(cluster.ingress_endpoints(), TIMEOUT_S) as client:
        values = [client.read(key) for key in "klm"]
    cluster.down()
    return values
