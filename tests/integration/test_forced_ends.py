"""Members that the harness itself kills: the run says so, and no finding takes them for crashed."""

import sys
from pathlib import Path

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.records import FORCED_END, RunFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec

pytestmark = pytest.mark.heavy


def forced(folder: Path) -> list[list[str]]:
    return [[*control.members] for control in RunFolder(folder).read_controls() if control.what == FORCED_END]


def ends(folder: Path) -> Verdict:
    return verify_run(folder).finding(Promise.NO_UNEXPLAINED_END).verdict


BLOCKS_SIGTERM = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.execvp(sys.argv[1], sys.argv[1:])
"""


def up_and_interrupted(cluster: ProcessCluster) -> None:
    with cluster.all_or_nothing():
        cluster.up()
        raise KeyboardInterrupt


def test_a_member_that_does_not_end_in_time_is_killed_and_the_run_says_so(tmp_path: Path) -> None:
    with ProcessCluster.create(tmp_path, ClusterSpec(members=1)) as cluster:
        # However long this process is held up, the member does not end in order meanwhile.
        cluster.member(0).wrapper = [sys.executable, "-c", BLOCKS_SIGTERM]
        cluster.up()
        cluster.down(timeout_s=0.0)
    assert forced(tmp_path) == [["0"]]
    assert ends(tmp_path) is Verdict.VALID
    with ProcessCluster.open(tmp_path) as cluster:
        cluster.up()
        cluster.down()
    assert forced(tmp_path) == [["0"]]
    assert ends(tmp_path) is Verdict.VALID
    RunFolder(tmp_path).controls_file.unlink()
    assert ends(tmp_path) is not Verdict.VALID


def test_a_start_that_fails_says_what_it_killed(tmp_path: Path) -> None:
    with ProcessCluster.create(tmp_path, ClusterSpec(members=1)) as cluster:
        with pytest.raises(KeyboardInterrupt):
            up_and_interrupted(cluster)
        assert not cluster.is_running()
        assert forced(tmp_path) == [["0"]]
        cluster.up()
        cluster.down()
    assert ends(tmp_path) is Verdict.VALID
