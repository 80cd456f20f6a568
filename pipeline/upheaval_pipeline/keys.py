"""What Spark's tasks run on the operations of one key: the checker that `upheaval verify` runs on all of them."""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from upheaval.checkers import witness
from upheaval.checkers.verdict import Verdict
from upheaval.history import Function, Operation, Outcome

GROUP_RESULT = "judged long, violation string, position long"
_COLUMNS = ("judged", "violation", "position")


def judge_groups(batches: Iterator[Any]) -> Iterator[Any]:
    """One row for each key, from rows that are sorted by space, group and log position."""
    rows = (row for batch in batches for row in batch.to_pylist())
    results = [_judge(list(group)) for _, group in groupby(rows, itemgetter("space", "group"))]
    arrays = [
        pa.array([result[index] for result in results], pa.string() if name == "violation" else pa.int64())
        for index, name in enumerate(_COLUMNS)
    ]
    yield pa.RecordBatch.from_arrays(arrays, names=list(_COLUMNS))


def _judge(rows: list[dict[str, Any]]) -> tuple[int, str | None, int | None]:
    entries = [
        witness.LogEntry(row["position"], row["id"], Function(row["f"]), row["key"], json.loads(row["value"]))
        for row in rows
    ]
    operations = [_operation(row) for row in rows if row["outcome"] is not None]
    finding = witness.linearizable(operations, entries)
    if finding.verdict is Verdict.VALID:
        return sum(operation.outcome is Outcome.OK for operation in operations), None, None
    found = re.search(r" at position (\d+)", finding.detail)
    return 0, finding.detail, int(found[1]) if found else 0


def _operation(row: dict[str, Any]) -> Operation:
    return Operation(
        id=row["id"],
        process=row["process"],
        f=Function(row["f"]),
        key=row["key"],
        value=json.loads(row["sent"]),
        invoke_ns=row["invoke_ns"],
        complete_ns=row["complete_ns"],
        outcome=Outcome(row["outcome"]),
        result=json.loads(row["result"]) if row["result"] is not None else None,
        position=row["position"],
    )
