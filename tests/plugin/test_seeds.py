"""Seeds of tests on the simulated runtime: each test once for each, and those that failed are tried first."""

import json
import shlex
from pathlib import Path

import pytest

from support.stranger import pytest_in
from upheaval.cli.main import main

CACHE = ("-p", "cacheprovider")

LATE = """
def test_it(cluster):
    assert cluster.seed != 3, "this is the wrong one"

def test_without_a_cluster():
    pass
"""

LEFT = """
from pytest import fixture, skip, xfail

@fixture
def later(cluster):
    if {where!r} == "fixture":
        skip("the fixture")
    return cluster

def test_it(later, subtests):
    with subtests.test("passes"):
        pass
    if {where!r} == "body":
        skip("the body")
    if {where!r} == "xfail":
        xfail("ticket 12")
    if {where!r} == "interrupt":
        raise KeyboardInterrupt
    if {where!r} == "interrupted part":
        with subtests.test("does not end"):
            raise KeyboardInterrupt
"""

GOT_LATE = """
def test_it(request):
    request.getfixturevalue("cluster")
"""


def outcomes(stdout: str) -> list[str]:
    """Of the tests, in their order."""
    lines = [line.split()[:2] for line in stdout.splitlines() if line.startswith("test_it.py::")]
    return [f"{name.partition('::')[2]} {outcome}" for name, outcome in lines if outcome in ("PASSED", "FAILED")]


def test_each_seed_is_a_test_and_the_one_that_failed_is_tried_first(
    tmp_path: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_it.py").write_text(LATE)
    first = pytest_in(tmp_path, python, *CACHE, "-v", "--seeds", "2..4", "--members", "1")
    alone = "test_without_a_cluster PASSED"
    said = ["test_it[seed-2] PASSED", "test_it[seed-3] FAILED", "test_it[seed-4] PASSED", alone]
    assert (first.returncode, outcomes(first.stdout)) == (1, said), first.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["seed"] == 3
    (failure,) = manifest["failures"]
    assert failure["promise"] == "test-passed"
    assert "test_it.py::test_it[seed-3]: AssertionError: this is the wrong one" in failure["detail"]
    (line,) = [line for line in first.stdout.splitlines() if ": pytest " in line]
    command = line.partition(": ")[2]
    assert main(["replay", str(folder)]) == 2
    assert capsys.readouterr().err == (
        f"upheaval: a pytest test made {folder}: replay it by `cd {tmp_path} && {command}`\n"
    )
    again = pytest_in(tmp_path, python, *CACHE, "-v", *shlex.split(command)[1:])
    assert outcomes(again.stdout) == ["test_it[seed-3] FAILED"]
    # Also without --seeds; and what passes is forgotten.
    usual = pytest_in(tmp_path, python, *CACHE, "-v", "--runtime", "simulated", "--members", "1")
    assert outcomes(usual.stdout) == ["test_it[seed-3] FAILED", "test_it PASSED", alone]
    (tmp_path / "test_it.py").write_text(LATE.replace("!= 3", "!= 5"))
    for said in (["test_it[seed-3] PASSED", "test_it PASSED", alone], ["test_it PASSED", alone]):
        mended = pytest_in(tmp_path, python, *CACHE, "-v", "--runtime", "simulated", "--members", "1")
        assert (mended.returncode, outcomes(mended.stdout)) == (0, said), mended.stdout


@pytest.mark.parametrize("where", ["fixture", "body", "xfail", "interrupt", "interrupted part"])
def test_a_seed_that_was_not_tried_to_the_end_is_not_forgotten(tmp_path: Path, python: Path, where: str) -> None:
    cache = tmp_path / ".pytest_cache" / "v" / "upheaval" / "failed-seeds"
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({"test_it.py::test_it": [3]}))
    (tmp_path / "test_it.py").write_text(LEFT.format(where=where))
    done = pytest_in(tmp_path, python, *CACHE, "--seeds", "3..3", "--members", "1")
    assert done.returncode == (2 if where.startswith("interrupt") else 0), done.stdout
    assert json.loads(cache.read_text()) == {"test_it.py::test_it": [3]}
    assert not (tmp_path / "runs").exists()


def test_last_failed_finds_what_failed_without_chosen_seeds(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(cluster):\n    assert False\n\ndef test_other(cluster): pass\n")
    usual = (*CACHE, "-v", "--runtime", "simulated", "--members", "1")
    first = pytest_in(tmp_path, python, *usual)
    assert outcomes(first.stdout) == ["test_it FAILED", "test_other PASSED"], first.stdout
    again = pytest_in(tmp_path, python, *usual, "--lf")
    assert outcomes(again.stdout) == ["test_it FAILED"], again.stdout
    (tmp_path / "test_it.py").write_text("def test_it(cluster): pass\n\ndef test_other(cluster): pass\n")
    mended = pytest_in(tmp_path, python, *usual, "--lf")
    assert outcomes(mended.stdout) == ["test_it PASSED"], mended.stdout


def test_a_cluster_that_comes_too_late_for_its_seeds_is_red(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text(GOT_LATE)
    done = pytest_in(tmp_path, python, "--seeds", "1..3")
    assert done.returncode == 1, done.stdout
    late = "test_it gets its cluster too late to run once per seed: name the fixture upheaval_seed"
    assert f"UsageError: --upheaval-seeds: {late}" in done.stdout
    assert not (tmp_path / "runs").exists()
    assert pytest_in(tmp_path, python, "--runtime", "simulated").returncode == 0


def test_seeds_that_make_no_sense_are_one_line(tmp_path: Path, python: Path) -> None:
    (tmp_path / "test_it.py").write_text(LATE)
    for options, text in (
        (["--seeds", "5..3"], "no seeds in 5..3"),
        (["--seeds", "1..2", "--seed", "1"], "give one of them"),
        (["--seeds", "1..2", "--runtime", "process"], "--upheaval-seeds is for the simulated runtime"),
    ):
        done = pytest_in(tmp_path, python, *options)
        assert done.returncode == 4
        assert text in done.stdout + done.stderr
