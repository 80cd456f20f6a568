"""What the pipeline must not do, and what it says where Spark cannot run. Starts no Spark."""

import ast
from pathlib import Path

import pytest

import upheaval_pipeline
from support.built_runs import good_run
from upheaval.cli.main import main

IN_TASKS = "run_in_tasks"
"""Of `tasks.py`: its results come into this process."""
GATHERING = {"collect", "toPandas", "toArrow", "toLocalIterator", "take", "first", "head", "tail", "foreach", IN_TASKS}


def gathering_calls(text: str) -> list[str]:
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    methods = (call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls)
    return [method for method in methods if method in GATHERING]


def text_of(module: str) -> str:
    return (Path(next(iter(upheaval_pipeline.__path__))) / module).read_text()


# What each module may bring into this process.
GATHERED = {
    "frames.py": {"first"},  # of numpy's
    "recorded.py": {"take"},  # the same
    "ingest.py": {IN_TASKS},  # how many rows a file has
    "measure.py": {"collect"},  # figures
    "run_tables.py": {"collect"},  # which runs a lake has
    "seed_tasks.py": {IN_TASKS},  # outcomes of seeds
    "spark_engine.py": {"take"},  # as many rows as were asked for
    "tasks.py": {"collect"},  # of those in this table
    "upkeep.py": {"take"},  # of Arrow's
    "whole.py": {IN_TASKS},  # verdicts
}


def test_nothing_that_grows_with_a_run_is_gathered() -> None:
    modules = sorted(path.name for path in Path(next(iter(upheaval_pipeline.__path__))).glob("*.py"))
    found = {module: set(gathering_calls(text_of(module))) for module in modules}
    assert {module: calls for module, calls in found.items() if calls} == GATHERED


@pytest.mark.parametrize(
    "way",
    [
        "frame.toPandas()",
        "frame.where('x').collect()",
        "frame.first()[0]",
        "f(frame.take(3))",
        "run_in_tasks(frame, f, g)",
    ],
)
def test_the_rule_sees_what_it_forbids(way: str) -> None:
    assert len(gathering_calls(text_of("views.py") + f"\n\ndef more(frame):\n    return {way}\n")) == 1


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["verify"], "the folder runs has no run: name a run folder"),
        (["verify", "somewhere", "--lake", "there", "--engine", "spark"], "and not both"),
        (["verify", "--lake", "there"], "there is not a lake"),
        (["measure", "--lake", "there"], "Spark computes the figures of a lake: add --engine spark"),
        (["ingest", "nowhere", "--lake", "there"], "nowhere is not a run folder"),
        (["measure", "somewhere", "--run", "7"], "add --lake"),
        (["verify", "nowhere", "--engine", "spark"], "nowhere is not a run folder: no such folder"),
    ],
)
def test_a_wrong_place_is_one_line(
    command: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert reason in captured.err


def test_a_java_that_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run(5).write(tmp_path / "run")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["verify", "--engine", "spark", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "is Java 8: Spark needs Java 17 or newer" in captured.err
    assert "work without it" in captured.err


@pytest.mark.parametrize(
    "command",
    [
        ["verify", "--engine", "spark"],
        ["measure", "--engine", "spark"],
        ["ingest", "--engine", "spark", "--lake", "nowhere"],
    ],
)
def test_without_java_one_line_says_what_is_missing(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run(5).write(tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    assert main([*command, str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "no Java in JAVA_HOME" in captured.err or "is not installed" in captured.err
    assert "work without it" in captured.err
