"""describe, pid and errors: mark files in their places, elsewhere, missing and damaged."""

import os
from pathlib import Path

import pytest

from support.tool_folders import MODULE, SERVICE, make_node, mark_content, put, tool
from upheaval_node.errors import NodeError
from upheaval_node.files.cnc import CncLayout, ready_version
from upheaval_node.files.error_log import ErrorLog
from upheaval_node.protocol.message import with_values
from upheaval_node.runtime.disk import DiskStorage
from upheaval_node.runtime.loop import Loop
from upheaval_node.tool.__main__ import main
from upheaval_node.tool.answer import FAILURE

NO_MARK = "cluster-mark.dat does not exist."


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("snapshot", FAILURE),
        ("suspend", FAILURE),
        ("validate-recording-log", FAILURE),
        ("is-leader", FAILURE),
        ("list-members", FAILURE),
        ("backup-query", FAILURE),
        ("describe", 0),
        ("errors", 0),
    ],
)
def test_without_a_mark_file_commands_say_so(tmp_path: Path, command: str, status: int) -> None:
    answer = tool(tmp_path, command)
    assert (answer.lines, answer.status) == ([NO_MARK], status)


def test_pid_without_a_mark_file_fails_silently(tmp_path: Path) -> None:
    answer = tool(tmp_path, "pid")
    assert (answer.lines, answer.status) == ([], FAILURE)


def test_what_a_mark_file_holds_is_shown_field_by_field(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    answer = tool(node, "describe")
    assert answer.lines[0].startswith("Type: CONSENSUS_MODULE ")
    expected = (
        "[MarkFileHeader](sbeTemplateId=200|sbeSchemaId=110|sbeSchemaVersion=2|sbeBlockLength=128):version=768"
        "|componentType=CONSENSUS_MODULE|activityTimestamp=-1|startTimestamp=1099511627776|pid=4711|candidateTermId=-1"
        "|archiveStreamId=10|serviceStreamId=104|consensusModuleStreamId=105|ingressStreamId=101|memberId=2"
        "|serviceId=-1|headerLength=8192|errorBufferLength=1048576|clusterId=0|aeronDirectory='/nowhere/aeron'"
        "|controlChannel='aeron:ipc?term-length=128k'|ingressChannel=''|serviceName=''|authenticator=''"
        "|servicesClusterDir=''"
    )
    assert answer.lines[1] == expected
    assert answer.lines[2] == f"INFO: mark file exists: {node}/cluster/cluster-mark-service-0.dat"
    assert tool(node, "pid").lines == ["4711"]
    marks = answer.values["marks"]
    assert isinstance(marks, list)
    assert [each["componentType"] for each in marks] == ["CONSENSUS_MODULE", "CONTAINER"]


def test_mark_files_elsewhere_are_found_through_link_files(tmp_path: Path) -> None:
    elsewhere, services, marks = tmp_path / "elsewhere", tmp_path / "services", tmp_path / "marks"
    cluster = tmp_path / "cluster"
    put(cluster / "cluster-mark.lnk", f"{elsewhere}\n".encode())
    put(elsewhere / "cluster-mark.dat", mark_content(with_values(MODULE, services_cluster_dir=str(services))))
    put(services / "cluster-mark-service-0.lnk", str(marks).encode())
    put(marks / "cluster-mark-service-0.dat", mark_content(SERVICE, (5000, "the service's error")))
    put(services / "cluster-mark-service-1.dat", mark_content(with_values(SERVICE, service_id=1), (6000, "another's")))
    answer = tool(cluster, "errors")
    assert answer.status == 0
    assert [line for line in answer.lines if line in ("the service's error", "another's")] == [
        "the service's error",
        "another's",
    ]
    assert tool(cluster, "pid").lines == ["4711"]
    logs = answer.values["logs"]
    assert isinstance(logs, list)
    assert [each.get("path") for each in logs] == [
        str(elsewhere / "cluster-mark.dat"),
        None,
        str(marks / "cluster-mark-service-0.dat"),
        str(services / "cluster-mark-service-1.dat"),
    ]


def test_errors_are_counted_and_dated(tmp_path: Path) -> None:
    put(tmp_path / "cluster-mark.dat", mark_content(MODULE, (1_000, "twice"), (3_007, "twice"), (4_000, "two\nlines")))
    lines = tool(tmp_path, "errors").lines
    begin = lines.index("Cluster component error log:")
    assert lines[begin + 3 : begin + 10] == [
        "twice",
        "",
        lines[begin + 5],
        "two",
        "lines",
        "",
        "2 distinct errors observed.",
    ]
    assert lines[begin + 2].startswith("2 observations from ")
    assert ":01.000" in lines[begin + 2]
    assert ":03.007" in lines[begin + 2]
    assert lines[-2:] == [
        "Aeron driver error log (directory: /nowhere/aeron):",
        "/nowhere/aeron/cnc.dat does not exist.",
    ]


def test_errors_of_the_media_driver_are_those_of_its_own_file(tmp_path: Path) -> None:
    aeron = tmp_path / "aeron"
    layout = CncLayout()
    cnc = put(aeron / "cnc.dat", layout.header(start_timestamp_ms=1, pid=1))
    loop = Loop()
    storage = DiskStorage(str(aeron), loop)
    file = storage.open("cnc.dat")
    file.truncate(layout.file_length)
    ErrorLog(file, layout.error_log_offset, layout.error_log_length).record(2000, "of the driver")
    file.write(0, [ready_version()])
    file.close()
    storage.close()
    loop.close()
    put(tmp_path / "cluster" / "cluster-mark.dat", mark_content(with_values(MODULE, aeron_directory=str(aeron))))
    assert "of the driver" in tool(tmp_path, "errors").lines
    cnc.write_bytes(b"\x01" * 4096)
    with pytest.raises(NodeError, match=r"cnc.dat is damaged: "):
        tool(tmp_path, "errors")


@pytest.mark.parametrize("content", [b"", b"short", b"\x01" * 9000])
def test_a_damaged_mark_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = put(tmp_path / "cluster-mark.dat", content)
    with pytest.raises(NodeError, match=r"cluster-mark.dat is damaged: "):
        tool(tmp_path, "describe")
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"\xff\x00\x01", b"x" * 5000])
def test_a_link_that_names_no_folder_is_one_line(tmp_path: Path, content: bytes) -> None:
    put(tmp_path / "cluster-mark.lnk", content)
    with pytest.raises(NodeError, match=r"cluster-mark.lnk names no folder"):
        tool(tmp_path, "pid")


@pytest.mark.parametrize("command", ["errors", "list-members", "is-leader", "snapshot"])
def test_a_mark_file_that_names_no_folder_of_a_driver_is_no_trap(tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "cnc.dat")
    for directory in ("\0", "x" * 5000, str(tmp_path)):
        put(tmp_path / "cluster-mark.dat", mark_content(with_values(MODULE, aeron_directory=directory)))
        assert main([str(tmp_path), command]) in (0, 1, 255)
