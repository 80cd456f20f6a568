"""`upheaval init` makes a repository whose tests pass at once, and fail after the edit that its README names."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from support.stranger import EXAMPLES, PATIENCE_S, environment, pytest_in

EDIT = re.compile(r"in `(\S+)` replace `([^`]+)` by\s`([^`]+)`")
TEST = "tests/test_locks.py::test_a_lock_has_one_holder_whoever_leads"


def init(python: Path, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [str(python.with_name("upheaval")), "init", str(folder), *options]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_repository_is_green_and_one_edit_makes_it_red(tmp_path: Path, python: Path) -> None:
    folder = tmp_path / "mine"
    made = init(python, folder)
    assert made.returncode == 0, made.stderr
    options = ("--runtime", "simulated", "--seed", "7", TEST)
    green = pytest_in(folder, python, *options, timeout_s=4 * PATIENCE_S)
    assert green.returncode == 0, green.stdout + green.stderr
    edit = EDIT.search((folder / "README.md").read_text())
    assert edit is not None
    service = folder / edit[1]
    text = service.read_text()
    assert text.count(edit[2]) == 1
    service.write_text(text.replace(edit[2], edit[3]))
    red = pytest_in(folder, python, *options, timeout_s=4 * PATIENCE_S)
    assert red.returncode == 1, red.stdout + red.stderr
    assert "invalid: linearizable: " in red.stdout


def test_its_files_are_those_of_the_example_and_are_listed(tmp_path: Path, python: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    listed = json.loads(init(python, folder, "--json").stdout)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert listed == {"folder": str(folder), "files": sorted(files)}
    assert {"pyproject.toml", ".gitignore", ".github/workflows/test.yml", "locks/checks.py"} <= {*files}
    assert files == {name: (EXAMPLES / "locks" / name).read_bytes() for name in files}


@pytest.mark.parametrize("name", ["full", "full/file"])
def test_what_is_there_is_left_alone(tmp_path: Path, python: Path, name: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    refused = init(python, tmp_path / name)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.fullmatch(rf"upheaval: {tmp_path / name} is (not empty|no folder): name a new folder\n", refused.stderr)
    assert [path.read_text() for path in (tmp_path / "full").iterdir()] == ["mine"]
