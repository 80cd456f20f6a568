"""Members of Aeron whose harness was killed leave nothing in shared memory."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from upheaval.cli.main import main
from upheaval.records import RunFolder
from upheaval.system.aeron_files import driver_directories
from upheaval.system.process_table import processes_of
from upheaval_node.files import layout

HARNESS: Final = """
import sys
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

cluster = ProcessCluster.create(sys.argv[1], ClusterSpec(1, system="aeron"))
cluster.up()
print("up", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_harness_left_in_shared_memory_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://nowhere")
    command = [sys.executable, "-c", HARNESS, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "up\n"
        harness.kill()
    run = RunFolder(tmp_path / "run")
    run_id = run.read_manifest().run_id
    # Another test's harness may have ended it already.
    assert main(["clean"]) == 0
    assert processes_of(run_id) == []
    assert driver_directories(run_id) == []
    assert (run.member(0).path / layout.CNC).is_file()
