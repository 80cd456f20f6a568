"""Rows of answers for other programs, and what commands refuse to export."""

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault, UsageError
from upheaval_pipeline.engine import Answer
from upheaval_pipeline.exports import as_csv, as_json, write_parquet

COLUMNS = ("name", "rate", "runs", "folders", "labels", "nothing")
ANSWER = Answer(
    COLUMNS, (("a, b", 0.5, Decimal(7), ["/1", "/2"], {"k": "v"}, None), ("c", 1.0, 2, [], {}, None)), False
)


def test_csv_has_lists_and_maps_as_json() -> None:
    assert list(csv.DictReader(io.StringIO(as_csv(ANSWER)))) == [
        dict(zip(COLUMNS, ("a, b", "0.5", "7", '["/1", "/2"]', '{"k": "v"}', ""), strict=True)),
        dict(zip(COLUMNS, ("c", "1.0", "2", "[]", "{}", ""), strict=True)),
    ]


def test_json_has_an_object_a_line() -> None:
    first, second = map(json.loads, as_json(ANSWER, question="flakes").splitlines())
    assert first == {
        "question": "flakes",
        **dict(zip(COLUMNS, ("a, b", 0.5, 7, ["/1", "/2"], {"k": "v"}, None), strict=True)),
    }
    assert second["folders"] == []


def test_columns_of_one_name_are_refused_where_one_would_be_lost(tmp_path: Path) -> None:
    twice = Answer(("run", "verdict", "run"), (("a", "valid", "b"),), False)
    why = "^several columns are named run: name them, as in SELECT a.run AS other$"
    with pytest.raises(UsageError, match=why):
        as_json(twice)
    with pytest.raises(UsageError, match=why):
        write_parquet(twice, tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []
    assert as_csv(twice) == "run,verdict,run\na,valid,b\n"


@pytest.mark.parametrize("answer", [ANSWER, Answer(COLUMNS, (), False)], ids=["rows", "no rows"])
def test_parquet_has_the_columns_with_their_types(answer: Answer, tmp_path: Path) -> None:
    write_parquet(answer, tmp_path / "rows.parquet")
    read = pq.read_table(tmp_path / "rows.parquet")
    assert read.column_names == list(COLUMNS)
    assert [row["runs"] for row in read.to_pylist()] == [row[2] for row in answer.rows]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"cannot write .*/rows\.parquet: "):
        write_parquet(ANSWER, tmp_path / "nowhere" / "rows.parquet")


def test_a_number_that_parquet_does_not_have_is_one_line_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Parquet cannot hold these rows: .*: cast the column"):
        write_parquet(Answer(("total",), ((1 << 70,),), False), tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("ask slo --format parquet", "Parquet is not text: add --out FILE"),
        ("query X --out rows.csv", "--out writes rows: add --format csv, json, parquet"),
        ("ask slo --json --format csv", "--json prints objects: leave it out, or --format and --out"),
        ("ask --format csv", "answers have different columns: name one question for --format csv"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(
    words: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--lake", "nowhere"]) == 2
    assert capsys.readouterr().err == f"upheaval: {reason}\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--slo 100", "expected a percentage between 0 and 100, such as 99.9, got '100'"),
        ("--slo high", "expected a percentage between 0 and 100, such as 99.9, got 'high'"),
        ("--between branch=main", "expected LABEL=A..B, such as branch=main..topic, got 'branch=main'"),
        ("--between branch=a..a", "expected LABEL=A..B, such as branch=main..topic, got 'branch=a..a'"),
    ],
)
def test_what_is_no_objective_and_no_pair_is_refused(
    words: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ask", "--lake", "nowhere", *words.split()])
    assert reason in capsys.readouterr().err
