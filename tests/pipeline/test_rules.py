"""What the pipeline must not do, and what it says where Spark cannot run. Starts no Spark."""

import ast
from pathlib import Path

import pytest

import upheaval_pipeline
from support.built_runs import good_run
from upheaval.cli.main import main

GATHERING = {"collect", "toPandas", "toArrow", "toLocalIterator", "take", "first", "head", "tail", "foreach"}


def gathering(text: str) -> list[ast.Attribute]:
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call, ast.Attribute) and call.attr in GATHERING]


def gathering_calls(text: str) -> list[str]:
    return [call.attr for call in gathering(text)]


def text_of(module: str) -> str:
    return (Path(next(iter(upheaval_pipeline.__path__))) / module).read_text()


def test_a_verdict_gathers_the_ends_of_logs_and_at_its_end_evidence() -> None:
    """In the module that puts the jobs together: what bounds them, a row a member, and where they are complete."""
    text = text_of("verify.py")
    calls = sorted(gathering(text), key=lambda call: call.lineno)
    assert [call.attr for call in calls] == ["collect", "collect"]
    assert [ast.unparse(call.value) for call in calls] == ["judged_logs.member_ends(tables.recording)", "gathered"]
    assert text.index("gathered = evidence_of(tables, reach, witness)") < text.index("gathered.collect()")


# Modules in which words of Spark's mean something else: arrays of numpy, and figures and answers that are no verdict.
OTHERWISE = {
    "columnar.py": {"take"},
    "frames.py": {"first"},
    "ingest.py": {"collect"},  # how many rows a file has
    "lake_files.py": {"collect"},  # the same
    "recorded.py": {"take"},
    "measure.py": {"first", "collect"},
    "query.py": {"take"},
    "run_tables.py": {"first", "collect"},  # which runs a lake has
    "verify.py": {"collect"},
    "watch.py": {"collect"},  # what is to be told of a batch
    "whole.py": {"collect"},  # a row a run
}


def test_what_leads_to_a_verdict_gathers_nothing() -> None:
    modules = sorted(path.name for path in Path(next(iter(upheaval_pipeline.__path__))).glob("*.py"))
    assert {"judged_logs.py", "judged_history.py", "evidence.py", *OTHERWISE} <= set(modules)
    found = {module: set(gathering_calls(text_of(module))) - OTHERWISE.get(module, set()) for module in modules}
    assert {module: calls for module, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    "way", ["frame.toPandas()", "frame.where('x').collect()", "frame.first()[0]", "f(frame.take(3))"]
)
def test_the_rule_sees_what_it_forbids(way: str) -> None:
    assert len(gathering_calls(text_of("judged_logs.py") + f"\n\ndef more(frame):\n    return {way}\n")) == 1


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["verify"], "name a run folder, or a lake"),
        (["verify", "somewhere", "--lake", "there", "--engine", "spark"], "and not both"),
        (["verify", "--lake", "there"], "add --engine spark"),
        (["verify", "somewhere", "--spread-above", "0"], "--spread-above is for Spark: add --engine spark"),
        (
            ["verify", "--lake", "there", "--engine", "spark", "--spread-above", "1"],
            "a lake keeps what ingest has judged",
        ),
        (["measure", "somewhere", "--run", "7"], "add --lake"),
        (["verify", "nowhere", "--engine", "spark"], "has no manifest.json"),
    ],
)
def test_a_wrong_place_is_one_line(command: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
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
    "command", [["verify", "--engine", "spark"], ["measure", "--engine", "spark"], ["ingest", "--lake", "nowhere"]]
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
