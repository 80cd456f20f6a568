"""The program of a backup: how it starts, what it shows, how it ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.prometheus_text import Exposition
from unit.runtime.member_processes import Members, ended, free_ports, wait_until
from upheaval_node import __version__
from upheaval_node.files import layout
from upheaval_node.runtime.backup_health import read_backup_health
from upheaval_node.runtime.exit_status import ExitStatus


class BackupProcess:
    """One backup on this machine."""

    def __init__(self, folder: Path, members: list[str]) -> None:
        self.folder = folder
        ports = free_ports(3)
        self.ports = ports
        self.fields: dict[str, object] = {
            "name": "backup-0",
            "folder": "backup-0",
            "profile": "test",
            "consensus_endpoints": members,
            "endpoints": {
                "consensus": f"127.0.0.1:{ports[0]}",
                "catchup": f"127.0.0.1:{ports[1]}",
                "archive": f"127.0.0.1:{ports[2]}",
            },
        }
        self._all: list[subprocess.Popen[bytes]] = []

    @property
    def data(self) -> Path:
        return self.folder / "backup-0"

    def start(self, **changes: object) -> "subprocess.Popen[bytes]":
        file = self.folder / "backup.json"
        file.write_text(json.dumps({**self.fields, **changes}))
        return self.run("--config", str(file))

    def run(self, *arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "upheaval_node.runtime.backup", *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=self.folder, env={**os.environ, **environment})
        self._all.append(process)
        return process

    def state(self) -> object:
        return read_backup_health(str(self.data)).get("state")

    def wait_until_started(self) -> None:
        wait_until(lambda: self.state() is not None, describe=lambda: [process.poll() for process in self._all])

    def end(self) -> None:
        for process in self._all:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


@pytest.fixture
def backup(tmp_path: Path) -> Iterator[BackupProcess]:
    made = BackupProcess(tmp_path, ["127.0.0.1:1"])
    yield made
    made.end()


def test_it_ends_in_order_when_it_is_told_to(backup: BackupProcess) -> None:
    process = backup.start()
    backup.wait_until_started()
    process.send_signal(signal.SIGTERM)
    status, _ = ended(process)
    assert status == ExitStatus.OK
    lines = [json.loads(line) for line in (backup.data / "trace.jsonl").read_text().splitlines()]
    assert (lines[0]["event"], lines[-1]["event"], lines[-1]["status"]) == ("process-start", "process-end", 0)
    assert {line["component"] for line in lines} == {"backup-0"}


def test_it_shows_its_counters_and_its_health(backup: BackupProcess) -> None:
    port = free_ports(1)[0]
    backup.start(metrics_port=port)
    backup.wait_until_started()

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())

    health = json.loads(get("/health"))
    metrics = Exposition(get("/metrics"))
    assert health["alive"]
    assert metrics.value("upheaval_info", member_id="backup-0", version=__version__) == 1
    assert metrics.value("upheaval_backup_position_bytes") == -1
    assert metrics.value("upheaval_errors_total", component="backup") is not None


@pytest.mark.parity("BC-01")
def test_a_second_one_in_its_folder_is_refused(backup: BackupProcess) -> None:
    backup.start()
    backup.wait_until_started()
    status, errors = ended(backup.start())
    assert status == ExitStatus.ALREADY_RUNNING
    assert errors.count("\n") == 1
    assert backup.state() is not None


@pytest.mark.parity("BC-02", "BC-03")
def test_everything_lies_in_the_folder_that_it_is_given(backup: BackupProcess) -> None:
    given = backup.folder / "elsewhere"
    process = backup.start(folder=str(given))
    wait_until(lambda: read_backup_health(str(given)).get("state") is not None)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == ExitStatus.OK
    for path in (layout.CLUSTER_MARK, layout.ARCHIVE_MARK, layout.RECORDING_LOG, layout.CNC, "trace.jsonl"):
        assert (given / path).is_file()
    assert not backup.data.exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--config", "missing.json"], "cannot read missing.json"),
        ([], "no --config FILE, and no UPHEAVAL_BACKUP_CONFIG"),
        (["--config", "bad.json"], "bad.json is not valid JSON"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_one_line(
    backup: BackupProcess, arguments: list[str], text: str
) -> None:
    (backup.folder / "bad.json").write_text("{")
    status, errors = ended(backup.run(*arguments))
    assert (status, errors.count("\n")) == (ExitStatus.USAGE, 1)
    assert text in errors
    assert list(backup.folder.iterdir()) == [backup.folder / "bad.json"]


def test_an_address_that_is_in_use_is_one_line(backup: BackupProcess) -> None:
    with socket.create_server(("127.0.0.1", backup.ports[2])):
        status, errors = ended(backup.start())
    assert (status, errors.count("\n")) == (ExitStatus.ADDRESS_UNAVAILABLE, 1)
    assert str(backup.ports[2]) in errors


def test_a_damaged_recording_log_is_one_line(backup: BackupProcess) -> None:
    (backup.data / "cluster").mkdir(parents=True)
    (backup.data / layout.RECORDING_LOG).write_bytes(b"\x01" * 64)
    status, errors = ended(backup.start())
    assert (status, errors.count("\n")) == (ExitStatus.PEER_FAULT, 1)
    assert "recording.log is damaged" in errors


def test_it_follows_a_member_goes_on_after_sigkill_and_is_no_member(tmp_path: Path) -> None:
    members = Members(tmp_path, 1)
    backup = BackupProcess(tmp_path, [members.endpoints[0][1]])
    try:
        members.start_all()
        members.wait_until_leader()
        process = backup.start()
        wait_until(lambda: read_backup_health(str(backup.data)).get("live_log_position", -1) > 0)  # type: ignore[operator]
        process.kill()
        process.wait()
        backup.start()
        wait_until(lambda: backup.state() == "BACKING_UP")
        assert sorted(path.name for path in (backup.data / "archive").glob("*.rec")) == ["0-0.rec"]
        # The other way round: what a member has used is no place for a backup.
        shutil.copytree(members.path(0), tmp_path / "used", ignore=shutil.ignore_patterns("*.sock", "bell-*", "*.new"))
        other = {**backup.fields, "endpoints": {"consensus": "127.0.0.1:0", "catchup": "127.0.0.1:0"}}
        other["endpoints"] = {**dict(other["endpoints"]), "archive": f"127.0.0.1:{free_ports(1)[0]}"}  # type: ignore[call-overload]
        status, errors = ended(backup.start(**{**other, "folder": str(tmp_path / "used")}))
        assert (status, "belongs to component type" in errors) == (ExitStatus.USAGE, True)
    finally:
        backup.end()
        members.end()
