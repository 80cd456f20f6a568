"""A lake without Spark: written, judged and asked in this process, where a program named `java` only fails."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from support.built_runs import good_run
from support.lakes import asked, table_files
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval_pipeline import session
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.duck import duck_engine
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.sql_dialects import as_duckdb
from upheaval_pipeline.tables import PROTOCOL, STORED

ODD_NAMES = ["[1]", "{a,b}", "*?", "a\u2028b", "new\nline", 'it\'s "quoted" %41#:']
NO_LAKES = ODD_NAMES[-2:]
WITHOUT_SPARK = """
import json, sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
from upheaval.cli.main import main
print(json.dumps([main(words) for words in json.loads(sys.argv[1])]))
"""


@pytest.mark.parametrize("name", NO_LAKES)
def test_a_path_that_delta_cannot_take_is_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run(40).write(tmp_path / "run")
    assert main(["ingest", str(tmp_path / "run"), "--lake", str(tmp_path / name), "--engine", "python"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "cannot be a lake: Delta takes no control characters" in printed.err
    assert not (tmp_path / name).exists()


def test_an_ingest_without_pyspark_names_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good_run(40).write(tmp_path / "run")
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    words = ["ingest", str(tmp_path / "run"), "--lake", str(tmp_path / "lake")]
    assert main([*words, "--engine", "spark"]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert printed.startswith("upheaval: pyspark is not installed: pip install '")
    assert "`ingest --engine python`" in printed
    assert main(words) == 0


def test_what_the_extra_installs_ingests_judges_and_asks(tmp_path: Path) -> None:
    """Where neither PySpark nor pandas can be imported."""
    run, lake = str(tmp_path / "run"), str(tmp_path / "lake")
    good_run(40).write(tmp_path / "run")
    commands = [
        ["ingest", run, "--lake", lake],
        ["verify", "--lake", lake],
        ["ask", "failures", "--lake", lake],
        ["lake", "info", "--lake", lake],
    ]
    done = subprocess.run([sys.executable, "-c", WITHOUT_SPARK, json.dumps(commands)], capture_output=True, text=True)
    assert [*map(str.strip, done.stderr.splitlines())] == [
        "upheaval: engine: python, because the runs have 0.0 MB of lines",
        "upheaval: 1 of 1 runs ingested",
        "upheaval: engine: duckdb, because the lake fits in memory",
    ]
    statuses = [0, main(["verify", run]), 0, 0]
    assert (done.returncode, json.loads(done.stdout.splitlines()[-1])) == (0, statuses)


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_lake_and_a_run_of_any_name_are_read(name: str, tmp_path: Path) -> None:
    run, lake = tmp_path / "runs" / name, str(tmp_path / "lakes" / ("lake" if name in NO_LAKES else name))
    good_run(40).write(run)
    assert main(["ingest", str(run), "--lake", lake, "--engine", "python"]) == 0
    assert asked(lake, "SELECT folder, count(*) FROM runs JOIN history USING (run) GROUP BY ALL", 9).rows == (
        (str(run), 40),
    )
    assert main(["verify", "--lake", lake]) == main(["verify", str(run)])


@pytest.mark.usefixtures("no_java")
def test_what_the_lake_has_is_ingested_and_asked_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, lake = tmp_path / "run", str(tmp_path / "lake")
    good_run(40).write(run)
    ingest(None, [run], lake)
    assert main(["ingest", str(run), "--lake", lake]) == 0
    assert capsys.readouterr().err == "upheaval: all of it is in the lake already\n"
    assert main(["query", "SELECT count(*) AS operations FROM history", "--lake", lake, "--json"]) == 0
    assert capsys.readouterr() == (
        '{"operations": 40}\n',
        "upheaval: engine: duckdb, because the lake fits in memory\n",
    )
    assert main(["ask", "flakes", "--lake", lake, "--engine", "duckdb"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["query", "SELECT 1", "--lake", lake, "--engine", "spark"]) == 2
    assert "no Java in JAVA_HOME" in capsys.readouterr().err
    # Its client may be installed, but no server answers at that port.
    assert main(["query", "SELECT 1", "--lake", lake, "--engine", "spark", "--master", "sc://127.0.0.1:1"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert "pip install 'pyspark[connect]'" in printed.err or "no Spark Connect server answers" in printed.err
    (run / "more").write_text("other contents")
    assert main(["ingest", str(run), "--lake", lake, "--engine", "spark"]) == 2
    assert "no Java in JAVA_HOME" in capsys.readouterr().err


def test_rows_of_a_run_that_was_replaced_are_not_read(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for name in ("one", "two"):
        good_run(40).write(tmp_path / name)
        manifest = tmp_path / name / "manifest.json"
        manifest.write_text(manifest.read_text().replace("run-1", name))
    ingest(None, [tmp_path / "one", tmp_path / "two"], lake)
    before = asked(lake, "SELECT run, count(*) FROM trace GROUP BY run ORDER BY run", 9).rows
    (tmp_path / "one" / "more").write_text("other contents")
    ingest(None, [tmp_path / "one"], lake)
    assert len(table_files(Path(lake), "runs")) == 2
    assert asked(lake, "SELECT run, count(*) FROM trace GROUP BY run ORDER BY run", 9).rows == before


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of one run."""
    folder = tmp_path_factory.mktemp("lake")
    good_run(40).write(folder / "run")
    ingest(None, [folder / "run"], str(folder / "lake"))
    return str(folder / "lake")


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM sys", "SELECT 1; SELECT 2", "COPY runs TO 'x'"]
)
def test_a_query_sees_the_lake_alone(sql: str, lake: str) -> None:
    assert sys is not None
    with pytest.raises(UsageError, match="the query cannot be run: "):
        asked(lake, sql, 9)


def test_a_slow_query_prints_no_progress_among_its_rows() -> None:
    """DuckDB would, where the main module has no file: as in `python -c` and notebooks."""
    program = """
from upheaval_pipeline.duck import duck_engine
with duck_engine() as engine:
    print(engine.answer("SELECT current_setting('enable_progress_bar') AS shown", 1).rows)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "((False,),)\n"


@pytest.mark.parametrize("columns", [*STORED.values(), PROTOCOL])
def test_columns_are_those_that_spark_reads(columns: str, spark: Any) -> None:
    assert spark is not None  # Spark parses them
    assert arrow_schema(columns) == to_arrow_schema(StructType.fromDDL(columns))


@pytest.mark.parametrize("columns", ["a thing", "a array<thing>"])
def test_an_unknown_type_is_refused(columns: str) -> None:
    with pytest.raises(ValueError, match="unknown type"):
        arrow_schema(columns)


def test_lists_of_nothing_are_empty_and_percentiles_lie_between_values() -> None:
    import duckdb

    sql = as_duckdb(
        "SELECT array_sort(collect_set(x) FILTER (WHERE x > 9)) AS a, collect_list(x) AS b, percentile(x, 0.5) AS c"
        " FROM (SELECT explode(array(2, 1, 4, NULL)) AS x)"
    )
    assert duckdb.sql(sql).fetchall() == [([], [2, 1, 4], 2.0)]
    assert duckdb.sql(as_duckdb("SELECT percentile(x, 0.5) FROM (SELECT explode(array(1, 2)) AS x)")).fetchall() == [
        (1.5,)
    ]


def test_a_count_over_a_window_without_rows_is_0_as_on_spark() -> None:
    before = "OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    with duck_engine() as engine:
        engine.add_rows("numbers", "n int", [(1,), (2,), (-3,)])
        answer = engine.answer(f"SELECT n, count_if(n > 0) {before} AS earlier FROM numbers ORDER BY n", 9)
        assert answer.rows == ((-3, 0), (1, 0), (2, 1))
        assert engine.answer("SELECT count_if(n > 5) AS none, count_if(n > 1) AS one FROM numbers", 9).rows == ((0, 1),)
