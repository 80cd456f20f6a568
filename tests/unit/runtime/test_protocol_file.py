"""The file of a protocol trace: the newest part within its limit, one file a process, and losses that end nothing."""

import json
import os
from pathlib import Path

import pytest

from upheaval.records import MemberFolder
from upheaval_node.protocol_trace import Observation
from upheaval_node.runtime.protocol_file import ProtocolFile


def observation(number: int) -> Observation:
    return Observation(number, number, 0, 7, "consensus", "role", 0, "", None, 0, b"", {"new": "LEADER"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def numbers(folder: Path) -> list[int]:
    files = MemberFolder(folder, 0).protocol_files()
    return [json.loads(line)["n"] for path in files for line in path.read_text().splitlines()]


def test_the_newest_lines_are_kept(folder: Path) -> None:
    length = len(observation(100).to_json(0)) + 1
    file = ProtocolFile("all", member_id=0, limit=20 * length)
    for number in range(100, 200):
        file.keep(observation(number))
    file.close()
    kept = numbers(folder)
    assert kept == list(range(kept[0], 200))
    assert 10 <= len(kept) <= 20
    assert sum(path.stat().st_size for path in MemberFolder(folder, 0).protocol_files()) <= 20 * length
    assert sorted(path.name for path in folder.iterdir()) == ["protocol.1.jsonl", "protocol.jsonl"]


def test_a_restart_goes_on_after_what_is_there(folder: Path) -> None:
    for number in (1, 2):
        file = ProtocolFile("all", member_id=0, limit=1 << 20)
        file.keep(observation(number))
        file.close()
    assert numbers(folder) == [1, 2]


def test_each_process_has_a_file_of_its_own(folder: Path) -> None:
    for component in ("archive", "consensus", "service-0"):
        file = ProtocolFile(component, member_id=0, limit=1 << 20)
        file.keep(observation(1))
        file.close()
    names = [path.name for path in MemberFolder(folder, 0).protocol_files()]
    assert names == ["protocol-archive.jsonl", "protocol-consensus.jsonl", "protocol-service-0.jsonl"]


def test_what_cannot_be_written_is_counted(folder: Path) -> None:
    file = ProtocolFile("all", member_id=0, limit=1 << 20)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file._fd)
    os.close(full)
    file.keep(observation(1))
    file.keep(observation(2))
    assert file.lost == 2
    file.close()
    assert numbers(folder) == []
