"""The example is a stranger's repository: its tests run against the installed wheel, on each runtime."""

import re
import shutil
from pathlib import Path

import pytest

from .stranger import ROOT, pytest_in

BANK = ROOT / "examples" / "bank"


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A copy outside of this tree."""
    return Path(shutil.copytree(BANK, tmp_path / "bank", ignore=shutil.ignore_patterns("runs", "__pycache__")))


@pytest.mark.heavy
@pytest.mark.parametrize("runtime", ["simulated", "process"])
def test_the_tests_of_the_example_pass(bank: Path, python: Path, runtime: str) -> None:
    done = pytest_in(bank, python, "--runtime", runtime)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert not (bank / "runs").exists()


def test_the_example_uses_the_public_interface_only() -> None:
    sources = [path.read_text() for path in BANK.rglob("*.py")]
    imported = {line for text in sources for line in re.findall(r"^ *(?:from|import) +upheaval\S*", text, re.M)}
    assert imported == {"from upheaval"}
