"""What runs here: said by a command, and chosen by those that plant bugs before anything else is imported."""

import json
import os
import sys
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.cli import parsing
from upheaval.cli.main import main
from upheaval_node import __version__
from upheaval_node.compiled import VARIABLE, form


def test_the_form_of_the_core_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    version, python, core = capsys.readouterr().out.splitlines()
    assert version == f"upheaval {__version__}"
    assert python.endswith(sys.executable)
    assert core == f"node and simulation: {form()}"


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["compiled_modules"], said["why_pure"]) == (form().modules, form().why_pure)
    assert said["executable"] == sys.executable


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
