"""What the pipeline must not do, and what it says where Spark cannot run. Starts no Spark."""

import ast
from pathlib import Path

import pytest

import upheaval_pipeline
from support.built_runs import good_run
from upheaval.cli.main import main

GATHERING = {"collect", "toPandas", "toLocalIterator", "take", "first", "head"}


def gathering_calls(module: str) -> list[str]:
    path = Path(next(iter(upheaval_pipeline.__path__))) / module
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [call.attr for call in calls if isinstance(call, ast.Attribute) and call.attr in GATHERING]


def test_a_verdict_gathers_rows_once_at_its_end() -> None:
    assert gathering_calls("verify.py") == ["collect"]


def test_ingesting_gathers_nothing() -> None:
    assert gathering_calls("ingest.py") == []


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
