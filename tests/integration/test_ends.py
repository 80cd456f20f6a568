"""However a command ends, by hand, by a signal or by what the machine does not allow, it leaves nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.cli.main import main
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.system.process_table import processes_of
from upheaval.waits import wait_until

pytestmark = pytest.mark.heavy

UPHEAVAL = [sys.executable, "-m", "upheaval.cli.main"]
TIMEOUT_S = 240.0

# Gives up the privilege of root to pass over file permissions, then becomes the command that follows.
WITHOUT_PRIVILEGE = """
import ctypes, os, sys
for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.executable, [sys.executable, "-m", "upheaval.cli.main", *sys.argv[1:]])
"""


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [*UPHEAVAL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run_id_of(folder: Path) -> str:
    def found() -> str | None:
        path = folder / "cluster.json"
        return str(json.loads(path.read_text())["run_id"]) if path.exists() else None

    return wait_until(
        found, timeout_s=TIMEOUT_S, describe=lambda: f"no cluster in {folder}: {sorted(folder.parent.rglob('*.json'))}"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_interrupted_under_load_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    with running("demo", "--dir", str(folder), "--operations", "100000000") as process:
        assert process.stderr is not None
        while "load begins" not in (line := process.stderr.readline()):
            assert line, process.communicate()
        run_id = run_id_of(folder)
        assert len(processes_of(run_id)) == 3
        process.send_signal(number)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1] == "upheaval: interrupted: nothing was left running by this command"
    assert processes_of(run_id) == []


def test_an_up_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with running("up", "--dir", str(folder), "--components", "split") as process:
        run_id = run_id_of(folder)
        wait_until(
            lambda: processes_of(run_id) or None,
            timeout_s=TIMEOUT_S,
            describe=lambda: f"nothing starts: the command {process.poll()}",
        )
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    # It may have been done before the signal came: then the cluster stays, as it should.
    assert process.returncode in (130, 0)
    if process.returncode == 130:
        assert processes_of(run_id) == []
    end_without_trace(ProcessCluster.open(folder))


def test_a_folder_without_permission_is_one_line(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    for folder in (locked, locked / "below"):
        command = [sys.executable, "-c", WITHOUT_PRIVILEGE, "up", "--dir", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("upheaval: ")
        assert "ermission" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_member_whose_files_may_not_be_read_is_one_line_and_nothing_is_left_running(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=1))
    cluster.up()
    cluster.down()
    archive = cluster.folder / "member-0" / "archive"
    before = sorted(path.name for path in archive.iterdir())
    archive.chmod(0)
    command = [sys.executable, "-c", WITHOUT_PRIVILEGE, "up", "--dir", str(cluster.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    archive.chmod(0o755)
    assert done.returncode == 2
    assert "member 0 ended" in done.stderr
    assert done.stderr.count("\n") == 1
    assert processes_of(cluster.config.run_id) == []
    assert sorted(path.name for path in archive.iterdir()) == before
    assert cluster.up() == 0
    end_without_trace(cluster)


def test_a_mark_file_of_another_version_is_one_line_and_the_folder_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=1))
    cluster.up()
    cluster.down()
    mark = cluster.folder / "member-0" / "cluster" / "cluster-mark.dat"
    with mark.open("r+b") as stream:
        stream.seek(8)
        stream.write((7 << 16).to_bytes(4, "little"))
    content = mark.read_bytes()
    assert main(["up", "--dir", str(cluster.folder)]) == 2
    err = capsys.readouterr().err
    assert "has version" in err
    assert err.count("\n") == 1
    assert mark.read_bytes() == content
    assert processes_of(cluster.config.run_id) == []


def test_the_environment_of_every_process_carries_the_run_id(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=1, components="split"))
    cluster.up()
    try:
        found = processes_of(cluster.config.run_id)
        assert {process.component for process in found} == {"archive", "consensus", "service"}
        assert {process.member_id for process in found} == {0}
        assert os.getpid() not in {process.pid for process in found}
        assert set(cluster.member(0).status().pids.values()) == {process.pid for process in found}
    finally:
        end_without_trace(cluster)
