"""What users install, made once for each worker: sdist, wheel, and an environment with the wheel."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.stranger import ROOT, make_environment

LEFT_OUT = shutil.ignore_patterns(
    ".*_cache",
    ".git",
    ".venv",
    ".hypothesis",
    "*.egg-info",
    "__pycache__",
    "_compiled",
    "build",
    "dist",
    "runs",
    "target",
)


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheel and the sdist, made from a copy of this tree."""
    work = tmp_path_factory.mktemp("distributions")
    shutil.copytree(ROOT, work / "source", ignore=LEFT_OUT)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(work / "dist"), str(work / "source")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted((work / "dist").iterdir())


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory, distributions: list[Path]) -> Path:
    """The Python of an environment that has the wheel installed, and nothing of this tree."""
    return make_environment(tmp_path_factory.mktemp("stranger"), wheel=distributions[0])
