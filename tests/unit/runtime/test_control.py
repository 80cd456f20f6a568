"""The command that gives an order to one member: folders without a member, and folders that cannot be read."""

import json
from pathlib import Path

import pytest

from upheaval_node.files import layout
from upheaval_node.runtime.control import main


@pytest.mark.parametrize(("order", "status", "refused"), [("status", 0, ""), ("abort", 1, "the member is not running")])
def test_a_folder_without_a_member(
    order: str, status: int, refused: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([order, str(tmp_path)]) == status
    assert json.loads(capsys.readouterr().out) == {
        "refused": refused,
        "module_state": None,
        "snapshot_count": -1,
        "snapshot_position": -1,
        "standby_position": -1,
    }


@pytest.mark.parametrize("order", ["status", "snapshot"])
def test_a_folder_that_is_a_file_is_one_line(order: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main([order, str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
    assert "Not a directory" in captured.err


def test_a_recording_log_that_cannot_be_read_is_not_taken_for_one_without_snapshots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / layout.RECORDING_LOG).mkdir(parents=True)
    assert main(["status", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
