"""What the tests of loads take for the success of one, on machines that may starve its members."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.built_runs import good_run, lost_operation
from support.load_runs import Command, finish


def printing(run: Path, verdict: str, status: int) -> Command:
    """A program that ends as a load with this verdict does."""
    text = json.dumps({"run": str(run), "verdict": verdict})
    script = "import sys; print(sys.argv[1]); sys.exit(int(sys.argv[2]))"
    return subprocess.Popen(
        [sys.executable, "-c", script, text, str(status)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return good_run().write(tmp_path / "good").path


def test_a_load_succeeds_where_its_run_is_valid(good: Path) -> None:
    assert finish(printing(good, "valid", 0), 0)["verdict"] == "valid"


@pytest.mark.parametrize(("verdict", "status"), [("invalid", 1), ("unknown", 0), ("unknown", 3), ("valid", 2)])
def test_no_other_end_is_a_success(verdict: str, status: int, good: Path) -> None:
    with pytest.raises(AssertionError):
        finish(printing(good, verdict, status), 0)


def test_unknown_is_no_success_of_a_run_that_is_not_valid(tmp_path: Path) -> None:
    lost_operation(tmp_path)
    with pytest.raises(AssertionError):
        finish(printing(tmp_path, "unknown", 3), 0)


def test_a_wanted_status_is_that_one_alone(good: Path) -> None:
    assert finish(printing(good, "unknown", 3), 3)["verdict"] == "unknown"
    with pytest.raises(AssertionError):
        finish(printing(good, "valid", 0), 3)
