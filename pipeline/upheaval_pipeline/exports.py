"""Rows of answers as CSV, lines of JSON, or Parquet, for other programs. Nothing here reads a lake."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from upheaval.errors import EnvironmentFault, UsageError
from upheaval_pipeline.engine import Answer


def as_json(answer: Answer, **more: str) -> str:
    """An object a row, with these fields more before its own, each on a line.

    Raises `UsageError` for columns of one name.
    """
    return "".join(json.dumps(more | fields, default=_plain) + "\n" for fields in _objects(answer))


def as_csv(answer: Answer) -> str:
    """A line with the names of the columns, and one a row; lists and maps are JSON text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows(
        [[_as_text(value) if isinstance(value, list | dict) else value for value in row] for row in answer.rows]
    )
    return text.getvalue()


def write_parquet(answer: Answer, file: Path) -> None:
    """A file that is there whole or not at all; maps are JSON text.

    Raises `UsageError` for columns of one name and for values that Parquet does not have, `EnvironmentFault` when the
    file cannot be written.
    """
    rows = [
        {name: _as_text(value) if isinstance(value, dict) else _number(value) for name, value in fields.items()}
        for fields in _objects(answer)
    ]
    columns = {name: [row[name] for row in rows] for name in answer.columns}
    try:
        whole = pa.table(columns)
    except (pa.ArrowException, OverflowError) as error:
        raise UsageError(f"Parquet cannot hold these rows: {error}: cast the column, or add --format json") from None
    temporary = file.with_name(f"{file.name}.new")
    try:
        pq.write_table(whole, temporary)
        temporary.replace(file)
    except OSError as error:
        raise EnvironmentFault(f"cannot write {file}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _objects(answer: Answer) -> Iterator[dict[str, object]]:
    names = Counter(answer.columns)
    if twice := [name for name, count in names.items() if count > 1]:
        raise UsageError(f"several columns are named {twice[0]}: name them, as in SELECT a.{twice[0]} AS other")
    return (dict(zip(answer.columns, row, strict=True)) for row in answer.rows)


def _as_text(value: object) -> str:
    return json.dumps(value, default=_plain)


def _plain(value: object) -> object:
    return _number(value) if isinstance(value, Decimal) else str(value)


def _number(value: object) -> object:
    """Sums of integers are decimals in Spark, and wider than 64 bits in DuckDB."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
