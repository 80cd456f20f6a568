"""Our tool beside Aeron's ClusterTool, on the same folders: the same text and exit status, but as docs/tool.md says.

The folders are those of our members, killed and stopped, and of a node of Aeron's own, running and stopped.
"""

import re
import shutil
from pathlib import Path

import pytest

from support.aeron_cluster import AeronNode
from support.aeron_tools import Answer, cluster_tool
from support.memory_storage import MemoryStorage
from upheaval_node.errors import NodeError
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ClusterMarkHeader, MarkFile, read_mark_file
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.tool.__main__ import execute, parse
from upheaval_node.tool.commands import COMMANDS

from .conftest import CopyOf

RECORD = 64
KNOWN = 48
LIVE = (
    ("describe",),
    ("pid",),
    ("recording-log",),
    ("recovery-plan", "1"),
    ("errors",),
    ("is-leader",),
    ("backup-query",),
    ("describe-latest-cm-snapshot",),
    ("sort-recording-log",),
    ("no-such-command",),
)
ON_FILES = (("describe",), ("pid",), ("recording-log",), ("recovery-plan",))


def ours(folder: Path, *command: str) -> Answer:
    answer = execute(parse([str(folder / "cluster"), *command]))
    return Answer(answer.status & 0xFF, "".join(f"{line}\n" for line in answer.lines))


def comparable(answer: Answer) -> tuple[int, str]:
    """Without the time of day, what a component that runs changes each second, the text column of a dump, and the order
    in which a hash table has the terms."""
    text = re.sub(r"(?m)^(Type: \w+) [\d:]+ ", r"\1 ", answer.text)
    text = re.sub(r"activity: [-\d]+ [\d:]+|activityTimestamp=\d+", "activity", text)
    text = re.sub(r"(?<=cacheIndex=\{)[^}]*", lambda found: ", ".join(sorted(found[0].split(", "))), text)
    # Bytes that are line ends or nothing at all on a terminal stand in the text column of Aeron's.
    return answer.status, re.sub(r"(?m)^(\d{6}: .{48}   \|  ).*$", r"\1", text)


class ToolOutputs:
    """The output of both tools about a running node of Aeron's."""

    def __init__(self, node: AeronNode) -> None:
        self.folder = node.folder
        assert node.tool("snapshot").status == 0
        self.theirs = {command: node.tool(*command) for command in LIVE}
        self.ours = {command: ours(node.folder, *command) for command in LIVE}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> ToolOutputs:
    with AeronNode(tmp_path_factory.mktemp("aeron-node")) as node:
        return ToolOutputs(node)


@pytest.mark.parametrize("command", LIVE, ids=" ".join)
def test_a_running_node_of_aerons_is_described_as_by_aerons(outputs: ToolOutputs, command: tuple[str, ...]) -> None:
    assert comparable(outputs.ours[command]) == comparable(outputs.theirs[command])


@pytest.mark.parametrize("command", ON_FILES, ids=" ".join)
def test_a_stopped_node_of_aerons_is_described_as_by_aerons(outputs: ToolOutputs, command: tuple[str, ...]) -> None:
    assert comparable(ours(outputs.folder, *command)) == comparable(cluster_tool(outputs.folder, *command))


def test_a_stopped_node_of_aerons_shows_more_than_aerons_tool_does_without_a_driver(outputs: ToolOutputs) -> None:
    shown = ours(outputs.folder, "describe-latest-cm-snapshot")
    assert comparable(shown) == comparable(outputs.theirs[("describe-latest-cm-snapshot",)])
    plan = execute(parse([str(outputs.folder), "recovery-plan", "1"]))
    assert cluster_tool(outputs.folder, "recovery-plan", "1").status == 1
    assert plan.values["appendedLogPosition"] == plan.values["committedLogPosition"]


@pytest.mark.parametrize("which", ["killed", "stopped"])
def test_our_members_are_described_as_by_aerons(copy_of: CopyOf, which: str) -> None:
    member = copy_of(which)
    for command in ("describe", "pid", "recording-log"):
        assert comparable(ours(member, command)) == comparable(cluster_tool(member, command))


def test_errors_of_our_members_are_described_as_by_aerons(copy_of: CopyOf) -> None:
    member = copy_of("killed")
    storage = MemoryStorage()
    file = storage.open(layout.CLUSTER_MARK, create=True)
    file.write(0, ((member / layout.CLUSTER_MARK).read_bytes(),))
    header = read_mark_file(storage, layout.CLUSTER_MARK, ClusterMarkHeader).header
    mark = MarkFile(storage, layout.CLUSTER_MARK, header, now_ms=1 << 41)
    for epoch_ms, text in ((1_700_000_000_000, "first"), (1_700_000_001_234, "first"), (1_700_000_002_007, "second")):
        mark.error_log.record(epoch_ms, text)
    mark.signal_ready(1 << 41)
    (member / layout.CLUSTER_MARK).write_bytes(storage.content(layout.CLUSTER_MARK))
    said = ours(member, "errors")
    assert "2 observations from " in said.text
    assert comparable(said) == comparable(cluster_tool(member, "errors"))


def _records(content: bytes) -> list[bytes]:
    """What comes after byte 48 of a record means nothing to Aeron; ours has the length of a snapshot there."""
    return [content[at : at + KNOWN] for at in range(0, len(content), RECORD)]


@pytest.mark.parametrize("command", ["sort-recording-log", "seed-recording-log-from-snapshot"])
@pytest.mark.parametrize("which", ["killed", "leader"])
def test_what_is_rewritten_is_what_aeron_writes(copy_of: CopyOf, which: str, command: str, tmp_path: Path) -> None:
    member = copy_of(which)
    log = member / layout.RECORDING_LOG
    content = log.read_bytes()
    log.write_bytes(b"".join(reversed([content[at : at + RECORD] for at in range(0, len(content), RECORD)])))
    theirs = Path(shutil.copytree(member, tmp_path / "theirs"))
    assert comparable(ours(member, command)) == comparable(cluster_tool(theirs, command))
    assert _records(log.read_bytes()) == _records((theirs / layout.RECORDING_LOG).read_bytes())
    names = [sorted(path.name for path in (each / "cluster").iterdir()) for each in (member, theirs)]
    assert names[0] == names[1]


def test_what_is_invalidated_is_what_aeron_invalidates(copy_of: CopyOf, tmp_path: Path) -> None:
    member = copy_of("leader")
    theirs = Path(shutil.copytree(member, tmp_path / "theirs"))
    for valid in (True, True, False):
        said = ours(member, "invalidate-latest-snapshot")
        assert comparable(said) == comparable(cluster_tool(theirs, "invalidate-latest-snapshot"))
        assert said.text == f" invalidate latest snapshot: {str(valid).lower()}\n"
        assert (member / layout.RECORDING_LOG).read_bytes() == (theirs / layout.RECORDING_LOG).read_bytes()


def test_sorting_keeps_an_invalid_snapshot_invalid_where_aeron_brings_it_back(tmp_path: Path) -> None:
    storage = MemoryStorage()
    log = RecordingLog(storage)
    log.append_term(0, 1, 1000, 1)
    log.append_term(0, 0, 0, 1)
    for service_id in (0, -1):
        log.invalidate_entry(log.append_snapshot(2 + service_id, 0, 0, 640, 1, service_id).entry_index)
    for name in ("ours", "theirs"):
        (tmp_path / name / "cluster").mkdir(parents=True)
        (tmp_path / name / layout.RECORDING_LOG).write_bytes(storage.content(layout.RECORDING_LOG))
    assert ours(tmp_path / "ours", "sort-recording-log").status == 0
    assert cluster_tool(tmp_path / "theirs", "sort-recording-log").status == 0
    assert ours(tmp_path / "ours", "recording-log").text.count("isValid=false") == 2
    assert ours(tmp_path / "theirs", "recording-log").text.count("isValid=false") == 0


def test_the_help_is_aerons(tmp_path: Path) -> None:
    theirs = cluster_tool(tmp_path / "nothing", "describe").text
    said = execute(parse([str(tmp_path / "nothing" / "cluster"), "describe"]))
    assert sorted(said.lines) == sorted(theirs.splitlines())
    assert {f"{name}: {command.help}" for name, command in COMMANDS.items()} <= {each.strip() for each in said.lines}


def test_what_aeron_ends_by_an_exception_is_one_line_and_the_same_status(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    for command in (("recording-log",), ("seed-recording-log-from-snapshot",), ("invalidate-latest-snapshot",)):
        assert cluster_tool(tmp_path, *command).status == 1
        with pytest.raises(NodeError, match=r"recording.log does not exist$"):
            ours(tmp_path, *command)
