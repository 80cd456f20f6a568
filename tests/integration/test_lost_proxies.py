"""A cluster whose harness was killed while a link was cut: the proxies are gone, and it starts again without them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.cli.main import main
from upheaval.records import FORCED_END, RunFolder
from upheaval.runtimes.process import ProcessCluster

pytestmark = pytest.mark.heavy

TIMEOUT_S = "120"
CUT = """title a link that nothing heals
inject cut blackhole leader <-> followers
wait operations 100000000
"""


def test_a_cluster_finds_a_leader_after_its_harness_was_killed_between_a_cut_and_its_heal(tmp_path: Path) -> None:
    (tmp_path / "cut.scenario").write_text(CUT)
    folder = tmp_path / "run"
    command = ["run", str(tmp_path / "cut.scenario"), "--runtime", "process", "--dir", str(folder)]
    with subprocess.Popen(
        [sys.executable, "-m", "upheaval.cli.main", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as harness:
        try:
            assert harness.stderr is not None
            lines = [harness.stderr.readline()]
            while "'cut'" not in lines[-1]:
                assert lines[-1], lines
                lines.append(harness.stderr.readline())
            harness.send_signal(signal.SIGKILL)
            harness.communicate()
        finally:
            harness.kill()
    cluster = ProcessCluster.open(folder)
    try:
        # Its members may run or not: whatever else makes a cluster on this machine ends them.
        assert main(["up", "--dir", str(folder), "--timeout", TIMEOUT_S]) == 0
        assert FORCED_END in [control.what for control in RunFolder(folder).read_controls()]
    finally:
        end_without_trace(cluster)
