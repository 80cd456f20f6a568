"""`test.json`: the command that makes a run again, whatever its files are called and the locale is."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.stranger import environment
from upheaval.records import MadeByTest, read_made_by_test, write_made_by_test

NAME = "b\u00fccher"
ROUND_TRIP = """
import sys
from pathlib import Path
from upheaval.records import MadeByTest, read_made_by_test, write_made_by_test

folder, file = Path(sys.argv[1]), sys.argv[2]
write_made_by_test(folder, MadeByTest(file, ("pytest", file)))
made = read_made_by_test(folder)
assert made == MadeByTest(file, ("pytest", file)), ascii(made)
assert Path(made.command[1]).exists()
"""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_name_that_the_locale_lacks_comes_back(tmp_path: Path, locale: str) -> None:
    file = tmp_path / NAME
    file.touch()
    variables = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", ROUND_TRIP, str(tmp_path), str(file)]
    done = subprocess.run(command, env=environment() | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert read_made_by_test(tmp_path) == MadeByTest(str(file), ("pytest", str(file)))


def test_the_command_is_one_for_a_shell(tmp_path: Path) -> None:
    write_made_by_test(tmp_path, MadeByTest("/a b", ("pytest", "test_it.py::test_it[x y]")))
    assert str(read_made_by_test(tmp_path)) == "cd '/a b' && pytest 'test_it.py::test_it[x y]'"


def test_a_run_without_it_was_made_by_no_test(tmp_path: Path) -> None:
    assert read_made_by_test(tmp_path) is None
