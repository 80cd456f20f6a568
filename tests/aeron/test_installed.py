"""An installed wheel runs members of Aeron with Java alone: no clone, no Maven, no compiler."""

import shutil
import subprocess
from pathlib import Path

import pytest

from aeron_jar import VERSION, jar, member_classes
from member_classes import pack
from support.stranger import environment, make_environment
from upheaval.aeron_programs import READY_MADE, classes_name


@pytest.mark.heavy
def test_the_demo_runs_on_aeron_from_a_wheel_and_a_jar(tmp_path: Path) -> None:
    ready_made = tmp_path / "stranger" / "source" / READY_MADE
    ready_made.mkdir(parents=True)
    pack(member_classes(VERSION), ready_made / f"{classes_name(VERSION)}.zip")
    python = make_environment(tmp_path / "stranger")
    only_java = tmp_path / "bin"
    only_java.mkdir()
    java = shutil.which("java")
    assert java is not None
    (only_java / "java").symlink_to(Path(java).resolve())
    variables = {**environment(), "PATH": str(only_java), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [str(python.with_name("upheaval")), "demo", "--jar", str(jar()), "--operations", "100"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in (tmp_path / "upheaval").glob("aeron-member-*")] == [classes_name(VERSION)]
