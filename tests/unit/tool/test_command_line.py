"""The command line of the tool: words and options, help, JSON, one line for what goes wrong, Aeron's exit statuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.tool_folders import log_content, make_node, put
from upheaval.cli.main import main as upheaval
from upheaval_node.tool.__main__ import main
from upheaval_node.tool.commands import COMMANDS

USAGE = "Usage: <cluster-dir> <command> [options]"


@pytest.mark.parametrize("words", [[], ["somewhere"], ["--json", "somewhere"]])
def test_too_few_words_are_answered_by_the_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 255
    said = capsys.readouterr()
    assert USAGE in said.out
    assert said.err == ""


def test_an_unknown_command_and_a_missing_folder_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "fly"]) == 255
    assert capsys.readouterr().out.splitlines()[:2] == ["Unknown command: fly", USAGE]
    assert main([str(tmp_path / "no"), "pid"]) == 255
    assert capsys.readouterr().out.splitlines()[:2] == [f"ERR: cluster directory not found: {tmp_path}/no", USAGE]
    assert main([str(tmp_path), "recovery-plan"]) == 255
    assert capsys.readouterr().out.startswith(USAGE)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert [name for name in COMMANDS if f" {name}: " not in said] == []
    assert len(COMMANDS) == 18


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--timeout"], "--timeout needs a value"),
        (["--timeout", "soon"], "--timeout soon: give seconds"),
        (["--timeout", "-1"], "--timeout -1: give seconds"),
        (["--timeout", "nan"], "--timeout nan: give seconds"),
        (["--archive"], "--archive needs a value"),
        (["--force"], "unknown option --force"),
    ],
)
def test_a_bad_option_is_one_line(
    words: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "pid", *words]) == 1
    assert capsys.readouterr() == ("", f"upheaval-tool: {line}\n")


def test_json_has_the_status_the_text_and_the_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = make_node(tmp_path)
    assert main(["--json", str(node), "pid"]) == 0
    assert json.loads(capsys.readouterr().out) == {"command": "pid", "exit_status": 0, "text": ["4711"], "pid": 4711}
    (node / "cluster" / "recording.log").write_bytes(b"\x01" * 64)
    assert main([str(node), "recording-log", "--json"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"upheaval-tool: {node}/cluster/recording.log is damaged: ")
    assert json.loads(said.out)["error"] == said.err.strip().removeprefix("upheaval-tool: ")


def test_upheaval_tool_is_the_same_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = make_node(tmp_path)
    assert upheaval(["tool", str(node), "pid"]) == 0
    assert upheaval(["tool", "--json", str(node / "cluster"), "pid"]) == 0
    assert upheaval(["tool"]) == 255
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], json.loads(lines[1])["pid"], lines[2]) == ("4711", 4711, USAGE)
    assert upheaval(["tool", str(node), "pid", "--timeout", "soon"]) == 1
    assert capsys.readouterr().err == "upheaval tool: --timeout soon: give seconds\n"


def test_a_folder_of_a_cluster_and_that_of_its_member_are_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "member" / "cluster" / "recording.log", log_content())
    said = []
    for folder in ("member", "member/", "member/cluster", "member/cluster/"):
        assert main([f"{tmp_path}/{folder}", "recording-log"]) == 0
        said.append(capsys.readouterr().out)
    assert len(set(said)) == 1


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "upheaval_node.tool", str(node), "describe"],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=240,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
