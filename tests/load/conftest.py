"""Runs `upheaval load` with the Python of these tests, which must have locust (requirements/load.txt)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from support.load_runs import LoadCommands
from upheaval.runtimes.process import ProcessCluster


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the test's cluster, if it makes one; the cluster is ended after the test."""
    yield tmp_path / "run"
    if (tmp_path / "run").exists():
        end_without_trace(ProcessCluster.open(tmp_path / "run"))


@pytest.fixture
def load(folder: Path) -> Iterator[LoadCommands]:
    """Starts `upheaval load` on the folder."""
    commands = LoadCommands(folder)
    yield commands
    commands.end()
