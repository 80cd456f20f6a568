"""`upheaval load` where it cannot begin: one clear line, status 2, nothing made."""

import subprocess
import sys
from pathlib import Path

import pytest

# As on a machine without locust, whatever is installed here.
SCRIPT = """
import sys
sys.modules["locust"] = None
from upheaval.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def load(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", SCRIPT, "load", *options]
    return subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=240)


def test_without_locust_it_says_what_is_missing(tmp_path: Path) -> None:
    done = load("--new-dir", str(tmp_path / "run"))
    assert done.returncode == 2
    assert done.stderr == "upheaval: locust is not installed: pip install 'locust>=2.20'\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options", [("--users", "0"), ("--duration", "soon"), ("--rate", "-1"), ("--rate", "nan"), ("--duration", "0s")]
)
def test_options_that_make_no_sense_are_one_line(options: tuple[str, ...]) -> None:
    done = load(*options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert options[0] in done.stderr
