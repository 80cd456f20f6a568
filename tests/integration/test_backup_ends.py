"""However a command with a backup ends, nothing of it is left; and other processes find it by the run folder."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.records import BACKUP_NAME, FORCED_END, RunFolder
from upheaval.runtimes.abandoned import end_abandoned
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval.system.process_table import processes_of
from upheaval.waits import wait_until

pytestmark = pytest.mark.heavy

TIMEOUT_S = 240.0
ENDLESS = """title a backup until somebody ends it
backup start
wait backup caught-up
wait operations 100000000
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_backup(tmp_path: Path, number: signal.Signals) -> None:
    """After SIGKILL it is the next start on this machine that ends what is left."""
    (tmp_path / "endless.scenario").write_text(ENDLESS)
    folder = tmp_path / "run"
    command = ["run", str(tmp_path / "endless.scenario"), "--runtime", "process", "--dir", str(folder)]
    with subprocess.Popen(
        [sys.executable, "-m", "upheaval.cli.main", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            while "has the log up to" not in (line := process.stderr.readline()):
                assert line, process.communicate()
            with ProcessCluster.open(folder) as cluster:
                run_id = cluster.config.run_id
                backup = cluster.companion(BACKUP_NAME)
                assert backup.status().follows
                assert [found.component for found in processes_of(run_id)].count(BACKUP_NAME) == 1
            process.send_signal(number)
            process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    if number is signal.SIGKILL:
        # Whatever else starts a cluster on this machine may have done so already.
        end_abandoned()
        assert [each.what for each in RunFolder(folder).read_controls()][-1] == FORCED_END
    assert processes_of(run_id) == []


def test_what_makes_no_sense_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a cluster that is there and does not run."""
    folder = tmp_path / "c"
    ProcessCluster.create(folder, ClusterSpec(members=1))

    def refused(*arguments: str) -> str:
        assert main([*arguments, "--dir", str(folder)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err

    assert "has no backup-0: start it first" in refused("backup")
    assert "has no backup-0: start it first" in refused("backup", "kill")
    assert "is not running: start it with `upheaval up`" in refused("backup", "start")
    assert "--source is an option of `upheaval backup start` only" in refused("backup", "stop", "--source", "LEADER")
    with pytest.raises(SystemExit) as ended:
        refused("backup", "start", "--source", "NOBODY")
    assert ended.value.code == 2
    assert "invalid choice: 'NOBODY'" in capsys.readouterr().err
    assert main(["status", "--dir", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["companions"] == []


def test_a_backup_that_cannot_start_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    with ProcessCluster.create(folder, ClusterSpec(members=1), detached=True) as cluster:
        try:
            cluster.up()
            (folder / "backup-0" / "cluster").mkdir(parents=True)
            (folder / "backup-0" / "cluster" / "recording.log").write_bytes(bytes(range(64)))
            status = main(["backup", "start", "--dir", str(folder), "--timeout", "20"])
            err = capsys.readouterr().err
            assert (status, err.count("\n")) == (3, 1)
            assert "backup start, not proved: backup-0 ended with status" in err
            assert "recording log entry 0 has the unknown type" in err
            assert not cluster.companion(BACKUP_NAME).is_running()
            assert main(["backup", "kill", "--dir", str(folder)]) == 2
            assert "backup-0 is not running: cannot kill it" in capsys.readouterr().err
        finally:
            cluster.down()
    wait_until(
        lambda: processes_of(cluster.config.run_id) == [],
        timeout_s=240,
        describe=lambda: f"left: {processes_of(cluster.config.run_id)}",
    )
    assert processes_of(cluster.config.run_id) == []
