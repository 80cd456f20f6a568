"""Runs `upheaval load` with the Python of these tests, which must have locust (requirements/load.txt)."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_table import processes_of

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the test's cluster lies, if it makes one; it is ended after the test."""
    yield tmp_path / "run"
    if (tmp_path / "run").exists():
        end_without_trace(ProcessCluster.open(tmp_path / "run"))


@pytest.fixture
def start_load(folder: Path) -> Iterator[Start]:
    """Starts `upheaval load --json` on the folder."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "upheaval.cli.main", "load", "--json", "--dir", str(folder), *options]
        environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder.parent
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def running(folder: Path) -> int:
    """How many processes the cluster in a folder has."""
    return len(processes_of(ProcessCluster.open(folder).config.run_id))
