"""`upheaval standby` and `upheaval promote` with bad input: one line, status 2, and nothing is made."""

import shutil
from pathlib import Path

import pytest

from support.memory_storage import MemoryStorage
from upheaval.cli.main import main
from upheaval.runtimes.cluster_file import save
from upheaval.system import ClusterSpec
from upheaval_node.files import layout
from upheaval_node.marks import MarkMaker


def standby_folder(path: Path, *, is_ended: bool) -> Path:
    """The mark files of a standby that has ended, or did so without notice."""
    storage = MemoryStorage()
    make = MarkMaker(storage, str(path), cluster_id=0, pid=1, now_ms=1000)
    for mark in (make.backup(), make.service(0)):
        mark.signal_ready(1000)
        if is_ended:
            mark.signal_terminated()
    (path / layout.CLUSTER_DIRECTORY).mkdir(parents=True)
    for name in (layout.CLUSTER_MARK, layout.service_mark(0)):
        file = storage.open(name)
        (path / name).write_bytes(file.read(0, file.size()))
    return path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that the command says."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def promote(source: Path, target: Path, capsys: pytest.CaptureFixture[str]) -> str:
    text = refused(["promote", "--from", str(source), "--dir", str(target)], capsys)
    assert not target.exists()
    return text


def test_a_folder_that_is_none_of_a_standby_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not the folder of a standby" in promote(tmp_path, tmp_path / "new", capsys)
    assert "is not the folder of a standby" in promote(tmp_path / "nothing", tmp_path / "new", capsys)


def test_a_backup_s_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = standby_folder(tmp_path / "backup-0", is_ended=True)
    (folder / layout.service_mark(0)).unlink()
    assert "is not the folder of a standby" in promote(folder, tmp_path / "new", capsys)


def test_a_member_s_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = standby_folder(tmp_path / "member-0", is_ended=True)
    shutil.copy(folder / layout.service_mark(0), folder / layout.CLUSTER_MARK)
    assert "is the folder of a member" in promote(folder, tmp_path / "new", capsys)


def test_one_that_did_not_end_in_order_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = standby_folder(tmp_path / "standby-0", is_ended=False)
    assert "was not stopped in good order" in promote(folder, tmp_path / "new", capsys)


def test_a_damaged_mark_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = standby_folder(tmp_path / "standby-0", is_ended=True)
    (folder / layout.CLUSTER_MARK).write_bytes(b"")
    assert "cluster-mark.dat cannot be read" in promote(folder, tmp_path / "new", capsys)


def test_one_without_a_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = standby_folder(tmp_path / "standby-0", is_ended=True)
    assert f"has no {layout.RECORDING_LOG}" in promote(folder, tmp_path / "new", capsys)


@pytest.mark.parametrize("action", ["status", "wait", "stop", "kill", "snapshot"])
def test_a_cluster_that_never_had_one_says_so(action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(ClusterSpec(run_id="run-1", base_port=20_000), "process", tmp_path)
    assert "standby-0" in refused(["standby", "--dir", str(tmp_path), action], capsys)


@pytest.mark.parametrize("action", ["status", "snapshot"])
@pytest.mark.parametrize("option", ["--source=LEADER", "--replay-start=BEGINNING", "--credentials=file"])
def test_what_is_for_the_start_only_is_refused(
    action: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = refused(["standby", "--dir", str(tmp_path), action, option], capsys)
    assert f"{option.partition('=')[0]} is an option of `upheaval standby start` only" in text


def test_without_a_cluster_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert str(tmp_path) in refused(["standby", "--dir", str(tmp_path)], capsys)
