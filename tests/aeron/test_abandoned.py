"""Members of Aeron whose harness was killed leave nothing in shared memory, and start again without its forwarders."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from upheaval.cli.main import main
from upheaval.records import RunFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval.system.aeron_files import PROPERTIES_FILE, driver_directories
from upheaval.system.process_table import processes_of
from upheaval_node.files import layout

HARNESS: Final = """
import sys
from upheaval.execution.links import watch_consensus
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

cluster = ProcessCluster.create(sys.argv[1], ClusterSpec(int(sys.argv[2]), system="aeron"))
watch_consensus(cluster, 1)
cluster.up()
print("up", flush=True)
sys.stdin.read()
"""


def killed(folder: Path, members: int) -> RunFolder:
    """The run of a harness that was killed once its cluster was up."""
    command = [sys.executable, "-c", HARNESS, str(folder), str(members)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "up\n"
        harness.kill()
    return RunFolder(folder)


@pytest.mark.heavy
def test_members_of_a_killed_harness_start_again_without_its_forwarders(tmp_path: Path) -> None:
    run = killed(tmp_path / "run", 3)
    properties = [run.member(number).path / PROPERTIES_FILE for number in range(3)]
    assert all("name.127.0.0.1" in path.read_text() for path in properties)
    try:
        assert main(["up", "--dir", str(run.path), "--timeout", "120"]) == 0
        assert not any("name.127.0.0.1" in path.read_text() for path in properties)
    finally:
        ProcessCluster.open(run.path).down()


def test_what_a_killed_harness_left_in_shared_memory_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://nowhere")
    run = killed(tmp_path / "run", 1)
    run_id = run.read_manifest().run_id
    # Another test's harness may have ended it already.
    assert main(["clean"]) == 0
    assert processes_of(run_id) == []
    assert driver_directories(run_id) == []
    assert (run.member(0).path / layout.CNC).is_file()
