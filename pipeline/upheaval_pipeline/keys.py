"""What Spark's tasks run on the operations of their keys, which come sorted by run, key and log position.

Most keys are cleared many at a time (`columnar`); one that is not is judged by the checker that `upheaval verify` runs,
which also words what is wrong.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from upheaval.checkers.history import witness
from upheaval.checkers.verdict import Verdict
from upheaval.records import SHIPPED, Operation, Outcome
from upheaval_pipeline.columnar import ANSWERED, GROUP, UNRECORDED, Checked, check, group_begins
from upheaval_pipeline.workers import settle

GROUP_RESULT = "run int, judged long, violation string, position long, operation long"
ROWS = 1 << 16
"""So many at a time; a key with more than that is taken as a whole."""
_TYPES = {
    "run": pa.int32(),
    "judged": pa.int64(),
    "violation": pa.string(),
    "position": pa.int64(),
    "operation": pa.int64(),
}
_Judged = tuple[int, str | None, int | None, int | None]


def judge_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row a run for the keys that keep the promise together, and one for each that does not."""
    settle()
    for rows in whole_groups(batches):
        results = list(_judge_rows(rows))
        arrays = [pa.array([result[index] for result in results], kind) for index, kind in enumerate(_TYPES.values())]
        yield pa.RecordBatch.from_arrays(arrays, names=list(_TYPES))


def whole_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables of about `ROWS`, cut where a group begins."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        begins = _begins_after(waiting[-1] if waiting else None, batch)
        waiting.append(batch)
        count += batch.num_rows
        if count >= ROWS and begins.any():
            cut = int(begins.nonzero()[0][-1])
            waiting[-1] = batch.slice(0, cut)
            yield pa.Table.from_batches(waiting)
            waiting, count = [batch.slice(cut)], batch.num_rows - cut
    if waiting:
        yield pa.Table.from_batches(waiting)


def _begins_after(before: pa.RecordBatch | None, batch: pa.RecordBatch) -> Any:
    """At which rows of a batch a group begins that is not the first of all."""
    begins = group_begins(batch)
    if before is None:
        begins[0] = False
        return begins
    last, first = before.slice(before.num_rows - 1), batch.slice(0, 1)
    begins[0] = any(last[name] != first[name] for name in GROUP)
    return begins


def _judge_rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    checked = check(rows)
    runs = rows["run"].to_numpy()[checked.group_begins]
    yield from _cleared(checked, runs)
    begins = [*checked.group_begins.tolist(), rows.num_rows]
    for number in checked.doubtful.nonzero()[0].tolist():
        group = rows.slice(begins[number], begins[number + 1] - begins[number])
        yield int(runs[number]), *_judge(group.to_pylist())


def _cleared(checked: Checked, runs: Any) -> Iterator[tuple[Any, ...]]:
    """How many answers of each run are right; `runs` are those of the groups."""
    found, place = np.unique(runs, return_inverse=True)
    judged: Any = np.zeros(len(found), np.int64)
    np.add.at(judged, place, np.where(checked.doubtful, 0, checked.answered))
    for run, count in zip(found.tolist(), judged.tolist(), strict=True):
        yield run, count, None, None, None


def _judge(rows: list[dict[str, Any]]) -> _Judged:
    entries = [
        witness.LogEntry(row["position"], row["id"], SHIPPED[row["op"]], _key(row), json.loads(row["value"]))
        for row in rows
    ]
    operations = {row["id"]: _operation(row) for row in rows if row["state"] != UNRECORDED}
    finding = witness.linearizable(operations.values(), entries)
    if finding.verdict is Verdict.VALID:
        return sum(row["state"] == ANSWERED for row in rows), None, None, None
    return 0, finding.detail, finding.position, finding.operation


def _key(row: dict[str, Any]) -> str:
    return str(row["group"] if row["key"] is None else row["key"])


def _operation(row: dict[str, Any]) -> Operation:
    """Without its times: real time is judged across keys."""
    answered = row["state"] == ANSWERED
    return Operation(
        id=row["id"],
        process=0,
        f=SHIPPED[row["sent_op"] if row["sent_op"] is not None else row["op"]],
        key=_key(row) if row["sent_key"] is None else row["sent_key"],
        value=json.loads(row["value"] if row["sent"] is None else row["sent"]),
        invoke_ns=0,
        complete_ns=0 if answered else None,
        outcome=Outcome.OK if answered else Outcome.UNKNOWN,
        result=json.loads(row["result"]) if answered else None,
        position=row["position"],
    )
