"""describe-latest-cm-snapshot: every message of a snapshot, and snapshots that are not there or not whole."""

from pathlib import Path

import pytest

from support.tool_folders import archive_files, make_node, put, tool
from upheaval_node.errors import NodeError
from upheaval_node.tool.answer import FAILURE
from upheaval_node.tool.snapshots import hex_dump

SHOW = "describe-latest-cm-snapshot"


def test_every_message_is_shown(tmp_path: Path) -> None:
    answer = tool(make_node(tmp_path), SHOW)
    heads = [line for line in answer.lines if line and not line[0].isdigit()]
    assert heads == [
        "Snapshot: appVersion=3 timeUnit=MILLISECONDS",
        "Consensus Module State: nextSessionId=9 nextServiceSessionId=8 logServiceSessionId=7 "
        "pendingMessageCapacity=4096",
        "Cluster Session: clusterSessionId=4 correlationId=40 openedLogPosition=320 timeOfLastActivity=-1 "
        "closeReason=TIMEOUT responseStreamId=102 responseChannel=aeron:tcp?endpoint=c:1",
        "Timer: correlationId=11 deadline=17",
        "Pending Message Tracker: nextServiceSessionId=8 logServiceSessionId=7 pendingMessageCapacity=4096 serviceId=0",
        "Pending Message: length=37 clusterSessionId=7",
        "End Snapshot, offset=576, length=48",
        "Consensus Module Snapshot End: memberId=2 recordingId=2 length=640",
    ]
    messages = answer.values["messages"]
    assert isinstance(messages, list)
    assert [each["message"] for each in messages][-2:] == ["SessionMessageHeader", "SnapshotMarker"]


def test_a_dump_has_sixteen_bytes_a_row_and_dots_for_what_is_no_text() -> None:
    assert hex_dump(b"Hello, world!\n\x00\xff!") == [
        "000000:  48 65 6c 6c 6f 2c 20 77 6f 72 6c 64 21 0a 00 ff   |   Hello, world!...",
        "000016:  21                                                |   !",
    ]


@pytest.mark.parametrize("has_log", [True, False])
def test_no_snapshot_is_said_so(tmp_path: Path, has_log: bool) -> None:
    if has_log:
        node = make_node(tmp_path)
        assert tool(node, "invalidate-latest-snapshot").status == 0
    else:
        node = put(tmp_path / "recording.log", b"").parent
    answer = tool(node, SHOW)
    assert (answer.lines, answer.status) == (["Snapshot not found"], FAILURE)


def test_a_snapshot_without_its_end_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="snapshot ended unexpectedly: recording 2 ends at "):
        tool(make_node(tmp_path, is_whole=False), SHOW)


def test_a_recording_that_is_gone_or_damaged_is_one_line(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    segment = node / "archive" / "2-0.rec"
    segment.write_bytes(b"\x07" * len(archive_files()["2-0.rec"]))
    with pytest.raises(NodeError, match=r"snapshot ended unexpectedly|recording 2 cannot be read"):
        tool(node, SHOW)
    (node / "archive" / "archive.catalog").unlink()
    with pytest.raises(NodeError, match="the archive's folder cannot be found"):
        tool(node, SHOW)
