"""`upheaval init` makes a repository whose tests pass at once, and fail after the edit that its README names."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from support.stranger import EXAMPLES, PATIENCE_S, edit_as_its_readme_says, environment, pytest_in

TEST = "tests/test_locks.py::test_a_lock_has_one_holder_whoever_leads"


def init(python: Path, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [str(python.with_name("upheaval")), "init", str(folder), *options]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_repository_is_green_and_one_edit_makes_it_red(tmp_path: Path, python: Path) -> None:
    folder = tmp_path / "mine"
    made = init(python, folder)
    assert made.returncode == 0, made.stderr
    options = ("--runtime", "simulated", "--seed", "7")
    every = ("-o", "upheaval_verify=valid")
    green = pytest_in(folder, python, *options, *every, timeout_s=8 * PATIENCE_S)
    assert green.returncode == 0, green.stdout + green.stderr
    edit_as_its_readme_says(folder)
    red = pytest_in(folder, python, *options, TEST, timeout_s=4 * PATIENCE_S)
    assert red.returncode == 1, red.stdout + red.stderr
    assert "invalid: linearizable: " in red.stdout


def test_the_next_command_fits_a_name_with_a_space(tmp_path: Path, python: Path) -> None:
    folder = tmp_path / "my locks"
    *_, command = init(python, folder).stdout.splitlines()
    words = shlex.split(command.removeprefix("test it: "))
    assert words[:3] == ["cd", str(folder), "&&"]


LOCKS = {"pyproject.toml", ".gitignore", ".github/workflows/test.yml", "locks/checks.py"}
STOCK = {"pom.xml", "pytest.ini", ".gitignore", ".github/workflows/test.yml", "src/main/java/stock/StockService.java"}


@pytest.mark.parametrize(
    ("options", "example", "expected"),
    [((), "locks", LOCKS), (("--java",), "java-stock", STOCK)],
    ids=["Python", "Java"],
)
def test_its_files_are_those_of_the_example_and_are_listed(
    options: tuple[str, ...], example: str, expected: set[str], tmp_path: Path, python: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    listed = json.loads(init(python, folder, *options, "--json").stdout)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert listed == {"folder": str(folder), "files": sorted(files)}
    assert expected <= {*files}
    assert files == {name: (EXAMPLES / example / name).read_bytes() for name in files}


@pytest.mark.parametrize("name", ["full", "full/file"])
def test_what_is_there_is_left_alone(tmp_path: Path, python: Path, name: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    refused = init(python, tmp_path / name)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.fullmatch(
        rf"upheaval: {tmp_path / name} is (not empty|not a folder): name a new folder\n", refused.stderr
    )
    assert [path.read_text() for path in (tmp_path / "full").iterdir()] == ["mine"]
