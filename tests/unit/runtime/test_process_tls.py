"""A member's process with certificates that are no good ends at its start; faults of peers are reported once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.media_world import RecordedErrors
from support.tls_world import certificates
from upheaval_node.peer_faults import MAX_PAIRS, PeerFaults
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.types import Now

NOW = Now(0, 0)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("member-7", "member-7.pem cannot be used: the certificate has expired"),
        ("member-8", "member-8.pem cannot be used: the certificate is not valid yet"),
        ("member-1", "member-1.pem is the certificate of member-1, not of member-0"),
        ("nobody", "nobody.key: No such file or directory"),
    ],
)
def test_a_member_whose_certificate_nobody_would_accept_does_not_start(
    tmp_path: Path, name: str, complaint: str
) -> None:
    folder = certificates()
    files = {"authority": "authority.pem", "certificate": f"{name}.pem", "key": f"{name}.key"}
    configuration = {
        "member_id": 0,
        "members": "0,127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4,127.0.0.1:5",
        "folder": "member-0",
        "tls": {field: str(folder / file) for field, file in files.items()},
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration), encoding="utf-8")
    command = [sys.executable, "-m", "upheaval_node.runtime.main", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == ExitStatus.USAGE
    assert done.stderr.count("\n") == 1
    assert complaint in done.stderr


def test_the_first_fault_of_a_peer_and_kind_is_told_and_every_one_counted() -> None:
    errors = RecordedErrors()
    faults = PeerFaults(errors, "media-peer")
    for port in range(10_000):
        faults.note(NOW, f"10.0.0.1:{port}", f"frame of {port} bytes")
        faults.note(NOW, f"10.0.0.2:{port}", f"frame of -{port} bytes")
        faults.note(NOW, f"member-1@10.0.0.1:{port}", "no frame")
    assert faults.count == 30_000
    assert len(errors.texts) == 3
    assert "10.0.0.1: frame of 0 bytes (the first of its kind from there)" in errors.texts[0]


def test_more_peers_than_are_told_apart_are_told_together() -> None:
    errors = RecordedErrors()
    faults = PeerFaults(errors, "media-peer")
    for host in range(10_000):
        faults.note(NOW, f"host{host}:1", "no frame")
    assert faults.count == 10_000
    assert len(errors.texts) == MAX_PAIRS + 1
    assert "others: no frame" in errors.texts[-1]
