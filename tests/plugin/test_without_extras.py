"""What needs an extra says so in one line, in an environment that has none."""

import re
from pathlib import Path

import pytest

from support.built_runs import good_run
from support.stranger import upheaval_in

COMMANDS = (
    ("ingest", "run", "--lake", "lake"),
    ("ingest", "run", "--lake", "lake", "--engine", "spark"),
    ("ask", "--lake", "lake"),
    ("ask", "failures", "--lake", "lake", "--engine", "duckdb"),
    ("query", "SELECT 1", "--lake", "lake"),
    ("verify", "--lake", "lake"),
    ("verify", "--lake", "lake", "--new"),
    ("verify", "run", "--engine", "spark"),
    ("measure", "run", "--engine", "spark"),
    ("lake", "info", "--lake", "lake"),
    ("lake", "optimize", "--lake", "lake"),
    ("track-record", "--lake", "lake"),
    ("campaign", "--seeds", "1..1", "--engine", "spark"),
    ("ui", "--lake", "lake"),
    ("load", "--dir", "run"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_names_the_extra_that_it_lacks(tmp_path: Path, python: Path, words: tuple[str, ...]) -> None:
    good_run(0).write(tmp_path / "run")
    done = upheaval_in(tmp_path, python, *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert re.fullmatch(r"upheaval: \w[^\n]* pip install '[^\n]*\n", done.stderr), done.stderr


def test_doctor_asks_no_engine_without_the_package_that_could(tmp_path: Path, python: Path) -> None:
    done = upheaval_in(tmp_path, python, "doctor", "docker")
    lines = done.stdout.splitlines()
    assert any(re.match(r"docker +engine +no .*not asked: see packages", line) for line in lines), done.stdout
    assert not any("start Docker" in line for line in lines)
    assert any(line.startswith("docker, packages: pip install ") for line in lines)
