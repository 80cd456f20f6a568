"""Which engine `--engine auto` takes: by the size of what queries read, the memory, and what is installed."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import good_run
from support.lakes import asked
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault
from upheaval_pipeline import engines
from upheaval_pipeline.duck import memory_limit
from upheaval_pipeline.engines import (
    AUTO,
    BYTES_BEFORE_SPARK,
    DUCKDB,
    PYTHON,
    SPARK,
    Choice,
    chosen_for,
    chosen_to_ingest,
)
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.lake_file import File
from upheaval_pipeline.query import ask
from upheaval_pipeline.questions import QUESTIONS
from upheaval_pipeline.reading import ROW_BYTES, memory_of, tables_read, why_too_large
from upheaval_pipeline.spark_engine import SparkEngine
from upheaval_pipeline.tables import STORED

COUNT = "SELECT f, count(*) AS n FROM history GROUP BY f ORDER BY f"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("lake")
    good_run(40).write(folder / "run")
    ingest(None, [folder / "run"], str(folder / "lake"))
    return open_lake(str(folder / "lake"))


def test_memory_is_that_of_the_files_and_of_each_row() -> None:
    files = [File("history", str(n), 1000, 10, ("a", "b"), ("0", "1")) for n in range(3)]
    assert memory_of(files) == 3 * (1000 + 10 * ROW_BYTES)
    assert memory_of([]) == 0


def test_the_limit_is_at_most_the_memory_of_the_machine() -> None:
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    assert 0 < memory_limit() <= pages * page


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM History", {"history"}),
        ("SELECT * FROM recording_with_rejects", {"recording"}),
        ("SELECT 1", set()),
        ("SELECT * FROM availability", {"runs", "history", "faults"}),
        ("SELECT * FROM rejects", set()),
        ("WITH a AS (SELECT run FROM ran) SELECT * FROM a JOIN faults USING (run)", {"runs", "faults"}),
        ("SELECT * FROM no_such_table", set()),
        ("DROP TABLE runs", set(STORED)),
    ],
)
def test_tables_are_those_that_a_query_reads_by_itself_or_through_views(sql: str, tables: set[str]) -> None:
    assert tables_read([sql]) == tables


def test_questions_read_operations_and_no_frames() -> None:
    assert tables_read(question.sql for question in QUESTIONS) == STORED.keys() - {"recording"}


def test_what_queries_read_decides_up_to_the_limit(lake: Lake) -> None:
    needed = memory_of(lake.tables["history"])
    assert why_too_large(lake, [COUNT], needed) == ""
    why = why_too_large(lake, [COUNT], needed - 1)
    assert why.startswith("the lake's 0.0 MB with 40 rows exceed ")
    assert why_too_large(lake, ["SELECT * FROM faults"], needed - 1) == ""


def test_a_lake_above_the_limit_is_read_by_spark_with_the_same_rows(lake: Lake, spark: Any) -> None:
    choice = chosen_for(lake, [COUNT], AUTO, None, limit=1)
    assert choice.engine == SPARK
    assert "exceed 0.0 MB of memory" in choice.why
    assert ask(SparkEngine(spark), lake, COUNT, 9) == asked(lake.where, COUNT, 9)
    assert chosen_for(lake, [COUNT], AUTO, None) == Choice(DUCKDB, "the lake fits in memory")
    assert chosen_for(lake, [COUNT], AUTO, "local[2]", limit=1 << 50) == Choice(SPARK, "of --master")


def test_without_java_duckdb_answers_and_says_what_is_missing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    choice = chosen_for(lake, [COUNT], AUTO, None, limit=1)
    assert choice.engine == DUCKDB
    missing = f"Spark cannot run (no Java in JAVA_HOME ({tmp_path}): Spark needs Java 17 or newer), although the lake's"
    assert choice.why.startswith(missing)


def test_an_ingest_takes_spark_for_more_lines_than_this_process_reads_while_spark_starts() -> None:
    at_limit = chosen_to_ingest(BYTES_BEFORE_SPARK, "lake", AUTO, None)
    assert at_limit == Choice(PYTHON, "the runs have 134.2 MB of lines")
    above = chosen_to_ingest(BYTES_BEFORE_SPARK + 1, "lake", AUTO, None)
    assert above == Choice(SPARK, "the runs have 134.2 MB of lines")
    assert chosen_to_ingest(1, "lake", AUTO, "local[2]") == Choice(SPARK, "of --master")


def test_an_ingest_without_java_takes_this_process_for_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    choice = chosen_to_ingest(BYTES_BEFORE_SPARK + 1, "lake", AUTO, None)
    assert choice.engine == PYTHON
    assert choice.why.startswith(f"Spark cannot run (no Java in JAVA_HOME ({tmp_path})")
    with pytest.raises(EnvironmentFault, match="no Java in JAVA_HOME"):
        chosen_to_ingest(1, "lake", AUTO, "local[2]")


def test_what_an_ingest_lacks_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run(5).write(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert main(["ingest", str(tmp_path / "run"), "--lake", str(tmp_path / "lake")]) == 2
    assert capsys.readouterr().err.startswith("upheaval: numpy is not installed: pip install '")


def test_an_ingest_by_itself_starts_no_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run(5).write(tmp_path / "run")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["ingest", str(tmp_path / "run"), "--lake", str(tmp_path / "lake")]) == 0
    assert "upheaval: engine: python, because the runs have 0.0 MB of lines\n" in capsys.readouterr().err


def test_a_wanted_engine_needs_no_reason(lake: Lake) -> None:
    assert chosen_for(lake, [COUNT], DUCKDB, None, limit=1) == Choice(DUCKDB)
    assert chosen_to_ingest(1 << 50, "lake", PYTHON, None) == Choice(PYTHON)
    assert chosen_to_ingest(1, "lake", SPARK, None) == Choice(SPARK)
    assert engines.chosen(SPARK, None) == SPARK
