"""What runs here: said by a command, and chosen by those that plant bugs before anything else is imported."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.built_runs import good_run
from support.live_clusters import ROOT
from upheaval import aeron_programs
from upheaval.aeron_jars import USUAL_VERSION
from upheaval.cli import parsing
from upheaval.cli.main import main
from upheaval.repository import Repository
from upheaval_node import __version__
from upheaval_node.compiled import VARIABLE, form


def test_the_form_of_the_core_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "host"]) == 0
    version, python, core, *_ = capsys.readouterr().out.splitlines()
    assert version == f"upheaval {__version__}"
    assert python.endswith(sys.executable)
    assert core == f"node and simulation: {form()}"


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "host", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["compiled_modules"], said["why_pure"]) == (form().modules, form().why_pure)
    assert said["executable"] == sys.executable


def test_what_is_missing_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "aeron"]) == 0
    assert "aeron, java: apt-get install default-jdk-headless" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("has_classes", [False, True])
def test_java_alone_compiles_no_members(
    has_classes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # A clone, which has no compiled classes.
    (tmp_path / "images").symlink_to(ROOT / "images")
    monkeypatch.setattr(aeron_programs, "REPOSITORY", Repository(tmp_path / "harness" / "upheaval"))
    if has_classes:
        (tmp_path / "upheaval" / aeron_programs.classes_name(USUAL_VERSION)).mkdir(parents=True)
    assert main(["doctor", "aeron"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ("aeron, javac: apt-get install default-jdk-headless" in lines) is not has_classes
    assert not any(line.startswith("aeron, java:") for line in lines)


def test_another_system_than_linux_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert main(["doctor", "host"]) == 0
    out = capsys.readouterr().out
    assert "host, system: use Linux, or a virtual machine with it" in out.splitlines()
    assert re.search(r"^host +processors +yes ", out, re.MULTILINE)
    assert main(["up", "--dir", str(tmp_path / "c")]) == 2
    assert capsys.readouterr().err == "upheaval: live clusters need Linux, and this is Darwin\n"
    assert not (tmp_path / "c").exists()


HOMELESS = """
import pwd, sys

def unknown(uid):
    raise KeyError(uid)

pwd.getpwuid = unknown
from upheaval.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "shows"), [("doctor host", "shared memory"), ("doctor aeron", "set HOME"), ("scenarios", "leader-killed")]
)
def test_a_user_without_a_home_is_no_defect(words: str, shows: str, tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    command = [sys.executable, "-c", HOMELESS, *words.split()]
    done = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert shows in done.stdout


def test_a_java_that_is_too_old_is_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "aeron", "--json"]) == 0
    java = json.loads(capsys.readouterr().out)["needs"][0]
    assert (java["name"], java["is_there"], java["detail"]) == ("java", False, "8")


def test_what_is_there_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "upheaval").mkdir()
    (tmp_path / "upheaval" / "aeron-all-1.46.7.jar").touch()
    assert main(["doctor", "aeron"]) == 0
    (jar,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("aeron  jar ")]
    assert jar.endswith("--system aeron  jars 1.46.7")


def test_what_a_lake_lacks_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert main(["doctor", "lake", "--json"]) == 0
    (packages,) = json.loads(capsys.readouterr().out)["needs"]
    assert not packages["is_there"]
    assert "numpy" in packages["detail"].removeprefix("missing ").split(", ")
    assert packages["remedy"].startswith("pip install ")


def test_an_unknown_area_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "dokcer"]) == 2
    assert "unknown area 'dokcer': use one of docker, aeron, " in capsys.readouterr().err


def test_whoever_names_a_bug_has_the_sources_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0")
    assert parsing.bug("vote-not-persisted") == "vote-not-persisted"
    # Where the modules run compiled already, as this process may, nothing changes any more.
    assert os.environ[VARIABLE] == ("0" if form().modules else "1")


@pytest.mark.parametrize(("planted", "asks"), [("vote-not-persisted", True), (None, False)])
def test_a_run_with_a_bug_is_made_again_from_the_sources(
    planted: str | None, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_run().write(tmp_path)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "planted": planted}))
    monkeypatch.setenv(VARIABLE, "0")
    assert parsing.recorded_run(str(tmp_path)) == tmp_path
    assert os.environ[VARIABLE] == ("1" if asks and not form().modules else "0")


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_what_is_no_manifest_is_left_to_the_replay(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "manifest.json").write_text(text)
    monkeypatch.setenv(VARIABLE, "0")
    assert parsing.recorded_run(str(tmp_path)) == tmp_path
    assert os.environ[VARIABLE] == "0"
