"""What runs here: said by a command, and chosen by those that plant bugs before anything else is imported."""

import json
import os
import sys
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval import aeron_jars
from upheaval.cli import parsing
from upheaval.cli.main import main
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
    assert "aeron, java: apt-get install openjdk-17-jre-headless" in capsys.readouterr().out.splitlines()


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
    monkeypatch.setattr(aeron_jars, "CACHE", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "aeron-all-1.46.7.jar").touch()
    assert main(["doctor", "aeron"]) == 0
    (jar,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("aeron  jar ")]
    assert jar.endswith("--system aeron  jars 1.46.7")


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
