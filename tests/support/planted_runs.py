"""Runs of the scenario that finds a planted bug, by the command line, and what they say."""

import json
from pathlib import Path
from typing import Final

import pytest

from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import RunFolder
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import SHOWN_BY_SCENARIOS

LIVE_BUGS: Final = tuple(
    pytest.param(bug, id=bug.name, marks=pytest.mark.nightly if number else ())
    for number, bug in enumerate(SHOWN_BY_SCENARIOS)
)
"""The catalogue as parameters of tests on real members: one bug every time, all of them once a night."""


def run(bug: PlantedBug, runtime: str, folder: Path, *, planted: bool) -> int:
    """The exit status of `upheaval run`."""
    assert bug.scenario is not None
    options = ["--runtime", runtime, "--dir", str(folder)]
    return main(["run", bug.scenario, *options, *(["--planted", bug.name] if planted else [])])


def broken(folder: Path) -> list[str]:
    """The promises that a run broke, by their names."""
    promises = json.loads((folder / "result.json").read_text())["promises"]
    return sorted(promise["promise"] for promise in promises if promise["verdict"] == Verdict.INVALID.text)


def named_bugs(folder: Path) -> set[str | None]:
    """The bug as the files of a run name it."""
    return {RunFolder(folder).read_manifest().planted, json.loads((folder / "result.json").read_text())["planted"]}


def says_so(folder: Path, bug: PlantedBug) -> bool:
    """Whether a member said that it has the bug."""
    return f"test build with a planted bug, {bug.name}" in (folder / "member-0" / "all.log").read_text()
