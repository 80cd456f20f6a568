"""Whatever ends a pytest that has a cluster, nothing stays running: at once, or with the next start."""

import os
import signal
from pathlib import Path

import pytest

from support.stranger import pytest_in, wait_until_ended, waiting_pytest
from upheaval.checkers.promises import Promise
from upheaval.records import Failure, RunFolder
from upheaval.runtimes.abandoned import end_abandoned
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.system.process_table import processes_of
from upheaval.waits import wait_until

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_nothing_runs_after_an_interrupt(tmp_path: Path, python: Path, options: tuple[str, ...]) -> None:
    with waiting_pytest(tmp_path, python, *options) as (started, run_id):
        assert len(processes_of(run_id)) == 3
        # As a terminal does: to the whole group.
        os.killpg(started.pid, signal.SIGINT)
        wait_until_ended(started, run_id)
        assert processes_of(run_id) == []


def test_a_test_that_is_interrupted_in_the_debugger_fails_and_leaves_its_run(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_hangs(cluster):\n    raise KeyboardInterrupt\n")
    done = pytest_in(tmp_path, python, "--runtime", "simulated", "--pdb", typed="c\n", timeout_s=600)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "test_it.py::test_hangs left runs/test_hangs-" in done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    (failure,) = RunFolder(folder).read_manifest().failures
    assert failure == Failure(Promise.TEST_PASSED, "test_it.py::test_hangs: KeyboardInterrupt:")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)])
def test_nothing_runs_after_a_signal_to_end(tmp_path: Path, python: Path, number: signal.Signals) -> None:
    with waiting_pytest(tmp_path, python) as (started, run_id):
        started.send_signal(number)
        assert wait_until_ended(started, run_id) == pytest.ExitCode.INTERRUPTED
        assert processes_of(run_id) == []
        assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL])
def test_workers_take_their_clusters_along(tmp_path: Path, python: Path, number: signal.Signals) -> None:
    with waiting_pytest(tmp_path, python, "-n", "1") as (started, run_id):
        started.send_signal(number)
        wait_until_ended(started, run_id)
        wait_until(
            lambda: not processes_of(run_id),
            timeout_s=240,
            describe=lambda: f"the worker goes on: {processes_of(run_id)}",
        )


def test_the_next_start_ends_what_a_killed_pytest_left_and_nothing_else(tmp_path: Path, python: Path) -> None:
    kept = ProcessCluster.create(tmp_path / "kept", ClusterSpec(members=1), detached=True)
    try:
        kept.up()
        with (
            waiting_pytest(tmp_path / "other", python) as (_, other),
            waiting_pytest(tmp_path / "killed", python) as (started, killed),
        ):
            assert killed not in end_abandoned()
            assert len(processes_of(killed)) == 3
            started.kill()
            wait_until_ended(started, killed)
            # Another test that starts a cluster may end them before this one does.
            ProcessCluster.create(tmp_path / "next", ClusterSpec(members=1))
            assert processes_of(killed) == []
            assert len(processes_of(other)) == 3
            assert kept.member(0).is_running()
    finally:
        kept.down()
    ProcessCluster.create(tmp_path / "last", ClusterSpec(members=1))
    assert processes_of(other) == []
