"""The service in Java on the page of the interface compiles, and runs as the page has it."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from aeron_jar import jar
from support.pages import follow
from support.stranger import pytest_in

PAGE: Final = "docs/service.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The files of the page, compiled."""
    follow(PAGE, tmp_path, frozenset({"no-run"}))
    sources = map(str, tmp_path.glob("*.java"))
    classes = tmp_path / "target" / "classes"
    subprocess.run(["javac", "-cp", str(jar()), "-d", str(classes), *sources], check=True)
    return tmp_path


def test_the_service_of_the_page_compiles(project: Path) -> None:
    assert (project / "target" / "classes" / "Reminders.class").is_file()


@pytest.mark.heavy
@pytest.mark.nightly
def test_the_test_of_the_page_passes(project: Path) -> None:
    done = pytest_in(project, Path(sys.executable), timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
