"""The check of many keys at once clears what the checker of one key clears, and never what it does not. No Spark."""

from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from upheaval.checkers.history.model import Model
from upheaval.records import Function, Json
from upheaval_pipeline import keys
from upheaval_pipeline.columnar import ANSWERED, CODES, ECHO, LIST, OPEN, REGISTER, UNRECORDED, check
from upheaval_pipeline.keys import judge_groups, whole_groups
from upheaval_pipeline.tables import canonical

SPACES = {
    Function.ECHO: ECHO,
    Function.APPEND: LIST,
    Function.LIST: LIST,
    Function.READ: REGISTER,
    Function.WRITE: REGISTER,
    Function.CAS: REGISTER,
}
PLAIN: list[Json] = [None, 1, 2, 3, "a", True, False]
SEVERAL_SPELLINGS: list[Json] = [0.0, -0.0, 1.0, [1], [1.0], float("nan"), {"a": 1}, {"a": 1.0}]
SCHEMA = pa.schema(
    [
        ("run", pa.int32()),
        ("space", pa.int8()),
        ("group", pa.string()),
        ("position", pa.int64()),
        ("id", pa.int64()),
        ("op", pa.int8()),
        ("state", pa.int8()),
        ("value", pa.string()),
        ("result", pa.string()),
        ("key", pa.string()),
        ("sent", pa.string()),
        ("sent_key", pa.string()),
        ("sent_op", pa.int8()),
    ]
)


def built(random: Random, count: int, values: list[Json], tampered: bool, run: int = 0) -> list[dict[str, Any]]:
    """Rows of a few keys in log order with the answers of the model, one of which may be another one."""
    model, rows = Model(), []
    for number in range(count):
        function = random.choice(list(SPACES))
        key = "" if function is Function.ECHO else f"k{random.randrange(3)}"
        value: Json = None
        if function is Function.CAS:
            value = [random.choice(values), random.choice(values)]
        elif function not in (Function.READ, Function.LIST):
            value = random.choice(values)
        result = model.apply(function, key, value)
        state = random.choice([ANSWERED] * 6 + [OPEN, UNRECORDED])
        rows.append(
            {
                "run": run,
                "space": SPACES[function],
                "group": str(number % 2) if function is Function.ECHO else key,
                "position": (number + 1) * 32,
                "id": number,
                "op": CODES[function],
                "state": state,
                "value": canonical(value),
                "result": canonical(result) if state == ANSWERED else None,
                "key": key if function is Function.ECHO else None,
            }
        )
    if tampered and rows:
        victim = random.choice(rows)
        if victim["state"] == ANSWERED:
            victim["result"] = random.choice(['"never"', "null", "true", "false", "[]", "1", "[1,2]", victim["result"]])
    return sorted(rows, key=lambda row: (row["space"], row["group"], row["position"]))


def groups(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    found: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["run"], row["space"], row["group"]), []).append({**dict.fromkeys(SCHEMA.names), **row})
    return list(found.values())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 80), st.booleans(), st.booleans())
def test_only_what_is_right_is_cleared(seed: int, count: int, tampered: bool, odd: bool) -> None:
    rows = built(Random(seed), count, PLAIN + SEVERAL_SPELLINGS if odd else PLAIN, tampered)
    checked = check(pa.Table.from_pylist(rows, schema=SCHEMA))
    for group, doubtful in zip(groups(rows), checked.doubtful.tolist(), strict=True):
        _, violation, *_ = keys._judge(group)
        if violation is not None:
            assert doubtful
        elif not odd:
            assert not doubtful


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 60), st.integers(1, 20))
def test_batches_may_be_cut_anywhere(seed: int, count: int, length: int) -> None:
    rows = [row for run in range(2) for row in built(Random(seed + run), count, PLAIN, tampered=True, run=run)]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    whole = sorted(pa.Table.from_batches(judge_groups(iter(table.to_batches()))).to_pylist(), key=str)
    limit, keys.ROWS = keys.ROWS, length
    try:
        cut = list(whole_groups(iter(table.to_batches(max_chunksize=3))))
    finally:
        keys.ROWS = limit
    assert pa.concat_tables(cut).to_pylist() == table.to_pylist()
    seen = [{(row["run"], row["space"], row["group"]) for row in part.to_pylist()} for part in cut]
    assert sum(map(len, seen)) == len(set().union(*seen))
    parts = pa.concat_tables([pa.Table.from_batches(judge_groups(iter(part.to_batches()))) for part in cut]).to_pylist()
    assert judged_by_run(parts) == judged_by_run(whole) == judged_apart(rows)
    assert [r for r in parts if r["violation"]] == [r for r in whole if r["violation"]]


def judged_by_run(results: list[dict[str, Any]]) -> list[int]:
    return [sum(row["judged"] for row in results if row["run"] == run) for run in range(2)]


def judged_apart(rows: list[dict[str, Any]]) -> list[int]:
    """Each run by itself."""
    tables = [pa.Table.from_pylist([row for row in rows if row["run"] == run], schema=SCHEMA) for run in range(2)]
    return [
        sum(row["judged"] for part in judge_groups(iter(t.to_batches())) for row in part.to_pylist()) for t in tables
    ]


def test_a_wrong_answer_is_worded_with_its_position() -> None:
    rows = built(Random(5), 60, PLAIN, tampered=False)
    victim = next(r for r in rows if r["op"] == CODES[Function.READ] and r["state"] == ANSWERED)
    victim["result"] = '" at position 77"'
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    found = [
        row for row in pa.Table.from_batches(judge_groups(iter(table.to_batches()))).to_pylist() if row["violation"]
    ]
    (row,) = found
    assert row["position"] == victim["position"]
    assert row["violation"].startswith(f"operation id={victim['id']} ")
