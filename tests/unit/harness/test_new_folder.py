"""The folder of a run without a named one."""

import shutil
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.cli.new_folder import run_folder


def test_each_is_new_and_there_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with run_folder(None, "load") as one, run_folder(None, "load") as other:
        assert one != other
        assert one.is_dir()
        assert one.parent == Path("runs")
        (one / "history.jsonl").write_text("")
    assert (one.is_dir(), other.exists()) == (True, False)


def test_one_that_was_given_is_left_as_it_is(tmp_path: Path) -> None:
    with run_folder(tmp_path / "mine", "load") as mine:
        assert mine == tmp_path / "mine"
        assert not mine.exists()
    tmp_path.joinpath("empty").mkdir()
    with run_folder(tmp_path / "empty", "load"):
        pass
    assert (tmp_path / "empty").is_dir()


@pytest.mark.parametrize(
    "command", [["run", "leader-killed", "--dir"], ["campaign", "--seeds", "1", "--dir"], ["up", "--dir"]]
)
def test_a_disk_without_room_is_told_before_anything_runs(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3 << 20))
    assert main([*command, str(tmp_path / "run")]) == 2
    assert "has 3 MiB left: a run needs 64 MiB" in capsys.readouterr().err
    assert not list((tmp_path / "run").glob("*"))
