"""`make setup` finds a Python that will do, and makes an environment that pip is missing from anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.stranger import ROOT

NEEDED = ("pyproject.toml", "requirements/build.txt", "requirements/runtime.txt")
MAKES = """#!/bin/sh
echo "$*" >>"$0.calls"
mkdir -p .venv/bin .venv/lib/python3/site-packages
touch .venv/lib/python3/site-packages/__editable__.upheaval-1.pth
printf '#!/bin/sh\\n' >.venv/bin/python
chmod +x .venv/bin/python
"""
"""In place of a Python whose environments have a pip that installs nothing."""
FAILS = "#!/bin/sh\nexit 1\n"
WITHOUT_PIP = "#!/bin/sh\ntest $1 = -c\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The Makefile, and what `make setup` looks at."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in NEEDED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def make(folder: Path, *words: str, path: str = "/usr/bin:/bin") -> "subprocess.CompletedProcess[str]":
    command = [shutil.which("make") or "make", "-C", str(folder), *words]
    return subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["python3.11", "python3.13", "python3"])
def test_any_python_that_is_new_enough_will_do(clone: Path, name: str) -> None:
    old = program(clone / "bin" / "python3.12", FAILS)
    program(old.with_name(name), f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    done = make(clone, "-n", "setup", path=str(old.parent))
    assert f"|| {name} -m venv " in done.stdout


@pytest.mark.parametrize("verb", ["setup", "docs"])
def test_without_one_the_line_says_what_is_needed(clone: Path, verb: str) -> None:
    (clone / "requirements" / "docs.txt").touch()
    python = program(clone / "bin" / "python3", FAILS)
    for name in ("false", "touch"):
        python.with_name(name).symlink_to(f"/usr/bin/{name}")
    done = make(clone, verb, path=str(python.parent))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "Python 3.11 or newer with venv is needed: make setup PYTHON=/path/to/python3"
    )


def test_an_environment_of_the_user_is_not_emptied(clone: Path) -> None:
    """As `uv venv` makes it, without pip; one that make made is made anew."""
    program(clone / ".venv" / "bin" / "python", WITHOUT_PIP)
    own, python = clone / ".venv" / "own", program(clone / "bin" / "python3", MAKES)
    own.touch()
    done = make(clone, "setup", f"PYTHON={python}")
    assert done.returncode == 2
    assert done.stderr.startswith(".venv has no pip: remove it, or run .venv/bin/python -m ")
    assert own.exists()
    (clone / ".venv" / ".runtime").touch()
    os.utime(clone / ".venv" / ".runtime", (0, 0))
    assert make(clone, "setup", f"PYTHON={python}").returncode == 0
    assert Path(f"{python}.calls").read_text(encoding="utf-8") == "-m venv --clear .venv\n"


def test_an_environment_without_pip_is_made_anew(clone: Path) -> None:
    program(clone / ".venv" / "bin" / "python", FAILS)
    python = program(clone / "bin" / "python3", MAKES)
    for _ in range(2):
        done = make(clone, "setup", f"PYTHON={python}")
        assert done.returncode == 0, done.stderr
        (clone / NEEDED[0]).touch()
    # The second time there is a pip.
    assert Path(f"{python}.calls").read_text(encoding="utf-8") == "-m venv --clear .venv\n"
