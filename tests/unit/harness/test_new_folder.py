"""The folder of a run that nobody named one for."""

from pathlib import Path

import pytest

from upheaval.cli.new_folder import RUNS, run_folder


def test_each_is_new_and_there_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with run_folder(None, "load") as one, run_folder(None, "load") as other:
        assert one != other
        assert one.is_dir()
        assert one.parent == RUNS
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
