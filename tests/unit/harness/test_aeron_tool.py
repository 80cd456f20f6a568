"""What has to ask a member of Aeron's that runs: of which process, and what comes of what ClusterTool says."""

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from upheaval.system import aeron_inside, aeron_tool
from upheaval.system.aeron import AeronSystem
from upheaval.system.aeron_files import PROPERTIES_FILE, properties_text
from upheaval_node.files import cnc
from upheaval_node.tool.__main__ import parse
from upheaval_node.tool.answer import ToolFault

LINE = "currentTimeNs=12, leaderMemberId=-1, x=1.5, activeMembers=[ClusterMember{id=0, isLeader=true, logs='a:1'}]"


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What runs in place of Java."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    program.write_text(f'#!/bin/sh\necho "{LINE}"\n')
    program.chmod(stat.S_IRWXU)
    return program


def test_words_that_are_no_integers_stay_text(java: Path, tmp_path: Path) -> None:
    answer = aeron_tool.ask(parse([str(tmp_path), "list-members", "--json"]), java)
    assert answer.values == {
        "currentTimeNs": 12,
        "leaderMemberId": -1,
        "x": "1.5",
        "activeMembers": [{"id": 0, "isLeader": True, "logs": "a:1"}],
    }


def test_values_are_read_for_json_alone(java: Path, tmp_path: Path) -> None:
    answer = aeron_tool.ask(parse([str(tmp_path), "list-members"]), java)
    assert (answer.lines, answer.values) == ([LINE], {})


def test_bytes_that_are_no_text_are_escaped(java: Path, tmp_path: Path) -> None:
    java.write_text("#!/bin/sh\nprintf 'a\\377b\\n'\n", encoding="utf-8")
    assert aeron_tool.ask(parse([str(tmp_path), "list-members"]), java).lines == ["a\\xffb"]


def test_a_tool_that_does_not_end_is_a_fault(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aeron_tool, "_START_MS", -900)
    java.write_text("#!/bin/sh\nexec sleep 600\n", encoding="utf-8")
    with pytest.raises(ToolFault, match=r"^Aeron's ClusterTool does not end within 0\.1 s$"):
        aeron_tool.ask(parse([str(tmp_path), "list-members"]), java)


def test_the_reason_of_the_tool_comes_after_the_notes_of_java(java: Path, tmp_path: Path) -> None:
    notes = ("Picked up JAVA_TOOL_OPTIONS: -Ddesk.secret=pass", "OpenJDK 64-Bit Server VM warning: no perf data")
    lines = "".join(f"echo '{line}' >&2\n" for line in (*notes, "", "java.lang.X: no mark file", " at Y"))
    java.write_text(f"#!/bin/sh\n{lines}exit 1\n", encoding="utf-8")
    with pytest.raises(ToolFault, match=r"^Aeron's ClusterTool: java.lang.X: no mark file$"):
        aeron_tool.ask(parse([str(tmp_path), "list-members"]), java)


def test_in_a_container_the_tool_runs_without_the_options_of_the_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-agentlib:jdwp=transport=dt_socket,server=y,address=*:5005")
    aeron_inside.main(["tool", str(tmp_path), "list-members"])
    assert "JAVA_TOOL_OPTIONS" not in os.environ


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Member 1 of run 7f, as the process table has it."""
    environment = {**os.environ, "UPHEAVAL_RUN_ID": "7f", "UPHEAVAL_MEMBER": "1"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environment) as found:
        yield found


def is_driven_by(process: subprocess.Popen[bytes], folder: Path, properties: Mapping[str, str]) -> None:
    """The member of that folder has a media driver, which is that process."""
    driver = folder / "driver"
    driver.mkdir(exist_ok=True)
    header = cnc.CncLayout().header(start_timestamp_ms=0, pid=process.pid)
    (driver / "cnc.dat").write_bytes((cnc.ready_version() + header[4:]).ljust(cnc.CncLayout().file_length, b"\0"))
    (folder / PROPERTIES_FILE).write_text(properties_text({**properties, "aeron.dir": str(driver)}))


def test_a_member_whose_process_names_no_component_is_whole(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """So it is in containers."""
    is_driven_by(process, tmp_path, {"run.id": "7f", "member.id": "1"})
    status = AeronSystem().read_status(tmp_path, 1, "7f")
    assert (status.alive, status.pids) == (True, {"all": process.pid})


@pytest.mark.parametrize(("run_id", "member_id"), [("7f", 0), ("8a", 1)])
def test_a_process_of_somebody_else_with_the_id_of_the_driver_is_not_the_member(
    process: subprocess.Popen[bytes], tmp_path: Path, run_id: str, member_id: int
) -> None:
    system = AeronSystem()
    is_driven_by(process, tmp_path, {"run.id": run_id, "member.id": str(member_id)})
    assert system.give_command(tmp_path, "snapshot") == "the member is not running"
    is_driven_by(process, tmp_path, {"run.id": "7f", "member.id": "1"})
    assert system.give_command(tmp_path, "snapshot") != "the member is not running"
