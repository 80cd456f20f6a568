"""All questions and views on DuckDB and on Spark, over one lake: `python bench/questions.py [--runs N]... [--workers]`.

The lakes have runs that are made apart from each other: every one has its own clients, times, faults and elections, and
one in ten of them breaks a promise; and two campaigns of as many seeds. Each engine is a process of its own. Prints
JSON: by engine the processor seconds of all questions and of all views, and the peak of memory (the JVM's with it); and
where the engines differ. The questions share views, as in `ask`; then each view is computed by itself. Of a question
all rows are compared, of a view the number of rows and what its columns add up to.
"""

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.engines import own_seconds, peak_mb, processor_seconds
from support.campaign_lines import some, written
from support.spark_master import spark_master
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.campaigns import ingest_campaigns
from upheaval_pipeline.engine import Engine
from upheaval_pipeline.engines import DUCKDB, SPARK, engine_of
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.lake_files import Written, files_of, write_file
from upheaval_pipeline.query import open_views, shared_views
from upheaval_pipeline.questions import QUESTIONS
from upheaval_pipeline.tables import FAULTS, HISTORY, STORED, TRACE, batches
from upheaval_pipeline.verdicts import verdict_rows
from upheaval_pipeline.version import reader_version
from upheaval_pipeline.views import VIEWS

MS = 1_000_000
OPERATIONS = 500
MASTER = "local[2]"
WORKERS = "two workers"
ROWS_MAX = 100_000
DIGITS = 10
"""In which the numbers of two engines must be equal: sums of floats depend on their order."""
NUMBERS = ("bigint", "hugeint", "int", "integer", "double", "boolean", "decimal")
TEXTS = ("string", "varchar")
POLL_S = 0.1


def history_of(run: str, random: Random) -> Iterator[tuple[object, ...]]:
    """Operations of eight clients, one every 20 ms, which take longer in a middle part."""
    for op in range(OPERATIONS):
        begin = op * 20 * MS
        slow = 80 if 200 <= op < 260 else 0
        end = begin + (1 + random.randrange(20) + slow) * MS
        yield run, op, op, op % 8, "write", f"k{op % 10}", str(op), begin, end, "ok", str(op), op * 128, op % 8, None


def faults_of(run: str, random: Random) -> Iterator[tuple[object, ...]]:
    """One, which was proved."""
    begin = 4_000 * MS + random.randrange(100) * MS
    proof = {"holds": True, "evidence": "it ended"}
    times = (begin, begin + MS, begin + 1_200 * MS, begin + 1_201 * MS)
    kind = random.choice(("kill", "pause", "isolate"))
    yield run, 1, kind, "member 0", *times, proof, proof, [0], None, kind, f"{kind} leader", 200, 260, False, None


def trace_of(run: str, random: Random) -> Iterator[tuple[object, ...]]:
    """An election of three members at the start, and one after the fault."""
    for member in range(3):
        line = 0
        for leader, begin_ms in ((0, 0), (1, 4_400)):
            states = ("INIT", "CANVASS", "LEADER_READY" if member == leader else "FOLLOWER_READY", "CLOSED")
            for step, state in enumerate(states):
                line += 1
                ts = begin_ms * MS + step * (20 * MS + random.randrange(60 * MS))
                fields = {"event": "election_state", "state": state, "ts": ts}
                where = (run, member, line, ts, ts // MS, "election_state", "consensus", 1, None, None)
                yield *where, leader + 1, leader, json.dumps(fields), None


def run_row(run: str, number: int, count: int, created: str, system: str = "upheaval") -> tuple[object, ...]:
    """Of one of so many runs in the table `runs`; of three versions, five scenarios and twenty commits."""
    manifest = json.dumps({"system": system, "version": str(number % 3), "source_digest": f"c{number % 7}"})
    made = (run, f"/runs/{run}", "simulated", 3, "test", 1, number, created, "", True, manifest, "[]")
    labels = [("commit", f"{number * 20 // count:04x}")]
    return (*made, f"scenario {number % 5}", labels, created, "1", run, reader_version(), None, [])


def write_runs(where: str, batch: str, runs: Sequence[tuple[object, ...]], random: Random) -> list[Written]:
    """Files of all tables with the rows of runs; one run in ten is not valid."""
    rows: dict[str, list[tuple[object, ...]]] = {"history": [], "faults": [], "trace": []}
    judged = {}
    for number, (name, *_) in enumerate(runs):
        run = str(name)
        rows["history"] += history_of(run, random)
        rows["faults"] += faults_of(run, random)
        rows["trace"] += trace_of(run, random)
        verdict = Verdict.INVALID if number % 10 == 3 else Verdict.VALID
        judged[run] = Report(f"/runs/{run}", (Finding(Promise.LINEARIZABLE, verdict, f"{number} operations"),))
    written = write_file(where, "verdicts", batch, verdict_rows(judged, {run: run for run in judged}, {}))
    for table, columns in (("history", HISTORY), ("faults", FAULTS), ("trace", TRACE)):
        written += write_file(where, table, batch, batches(rows[table], arrow_schema(columns)))
    columns = STORED["runs"].removesuffix(", batch string")
    return written + write_file(where, "runs", batch, batches(runs, arrow_schema(columns)))


def make_lake(where: Path, count: int) -> str:
    """A lake of so many runs, in one batch."""
    random = Random(count)
    runs = []
    for number in range(count):
        created = f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:00:00+00:00"
        runs.append(run_row(f"{random.getrandbits(64):016x}", number, count, created))
    lake = Lake(str(where))
    lake.commit(files_of(write_runs(str(where), lake.new_batch(), runs, random)))
    folders = {version: where.parent / f"campaign-{version}" for version in ("1", "2")}
    ingest_campaigns([written(folder, some(v, count, count // 10)) for v, folder in folders.items()], str(where))
    return str(where)


def asked(engine: str, where: str, master: str) -> dict[str, Any]:
    """What all questions and all views cost on an engine in this process, and what they give."""
    before = processor_seconds()
    with engine_of(engine, master) as started:
        open_views(started, open_lake(where))
        parts: dict[str, Any] = {"start": cost_since(before)}
        questions = {question.name: question.sql for question in QUESTIONS}
        for part, queries, shared in (
            ("questions", questions, shared_views(questions.values())),
            ("views", {view.name: totals_of(started, view.name) for view in VIEWS}, []),
        ):
            before, begin = processor_seconds(), time.monotonic()
            with started.sharing(shared):
                rows = {name: rows_of(started, sql) for name, sql in queries.items()}
            wall_s = round(time.monotonic() - begin, 1)
            parts[part] = {**cost_since(before), "wall_s": wall_s, "rows": rows}
    return parts


def cost_since(before: float) -> dict[str, float]:
    return {"cpu_s": round(processor_seconds() - before, 1), "peak_mb": peak_mb()}


def rows_of(engine: Engine, sql: str) -> list[str]:
    """All rows of a query as text, in order of this."""
    answer = engine.answer(sql, ROWS_MAX)
    assert not answer.is_cut, sql
    return sorted(json.dumps([plain(value) for value in row]) for row in answer.rows)


def totals_of(engine: Engine, view: str) -> str:
    """The query for how many rows a view has, and for each column how many values, and what their sizes add up to.

    With their signs, the differences of `pairs` in both directions would add up to the rest of a rounding.
    """
    columns = ["count(*) AS n"]
    for number, (name, kind) in enumerate(engine.columns(view)):
        columns.append(f"count(`{name}`) AS c{number}")
        if kind.partition("(")[0] in NUMBERS:
            columns.append(f"sum(abs(cast(`{name}` AS double))) AS s{number}")
        elif kind in TEXTS:
            columns.append(f"sum(length(`{name}`)) AS l{number}, count(DISTINCT `{name}`) AS d{number}")
            columns.append(f"min(`{name}`) AS a{number}, max(`{name}`) AS z{number}")
    return f"SELECT {', '.join(columns)} FROM {view}"


def plain(value: object) -> object:
    """A value as JSON, with as many digits as both engines must agree in."""
    if isinstance(value, int | float | Decimal):
        return f"{float(value):.{DIGITS}g}"
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return value if isinstance(value, str | None) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, action="append", help="how many runs a lake has (default 8, 100, 1000)")
    parser.add_argument("--workers", action="store_true", help="also Spark on a standalone master with two workers")
    parser.add_argument("--one", nargs=3, metavar=("ENGINE", "LAKE", "MASTER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asked(*options.one)))
        return 0
    are_equal = True
    for count in options.runs or (8, 100, 1000):
        with tempfile.TemporaryDirectory() as folder:
            where = make_lake(Path(folder) / "lake", count)
            answers = {DUCKDB: apart(DUCKDB, where, MASTER), f"{SPARK}, {MASTER}": apart(SPARK, where, MASTER)}
            if options.workers:
                answers[f"{SPARK}, {WORKERS}"] = on_workers(where, Path(folder))
        different = sorted({name for one in answers.values() for name in differences(answers[DUCKDB], one)})
        costs = {engine: costs_of(parts) for engine, parts in answers.items()}
        numbers = {part: len(answers[DUCKDB][part]["rows"]) for part in ("questions", "views")}
        print(json.dumps({"runs": count, **numbers, "different": different, "engines": costs}), flush=True)
        are_equal = are_equal and not different
    return 0 if are_equal else 1


def apart(engine: str, where: str, master: str) -> dict[str, Any]:
    """`asked` in a process of its own. What workers beside it need is added to the whole of it."""
    words = [sys.executable, __file__, "--one", engine, where, master]
    before = used = own_seconds()
    peak = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not selects(process):
            used = used | own_seconds()
            peak = max(peak, peak_mb() - resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{engine} failed")
    parts: dict[str, Any] = json.loads(output)
    return {**parts, "whole": {"cpu_s": round(sum(used.values()) - sum(before.values()), 1), "peak_mb": peak}}


def selects(process: "subprocess.Popen[str]") -> bool:
    """Whether the process has printed something, within a short while."""
    return bool(select.select([process.stdout], [], [], POLL_S)[0])


def on_workers(where: str, folder: Path) -> dict[str, Any]:
    """`asked` on a standalone master of its own."""
    scratch = folder / "spark"
    scratch.mkdir()
    settings = {**os.environ, "SPARK_WORKER_DIR": str(scratch), "PYSPARK_PYTHON": sys.executable}
    with spark_master(scratch, settings, 2, cores=1, memory="2g") as master:
        return apart(SPARK, where, master)


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The questions and views that two engines answer differently."""
    return [
        name
        for part in ("questions", "views")
        for name, rows in one[part]["rows"].items()
        if rows != other[part]["rows"][name]
    ]


def costs_of(parts: dict[str, Any]) -> dict[str, Any]:
    return {part: {what: cost for what, cost in costs.items() if what != "rows"} for part, costs in parts.items()}


if __name__ == "__main__":
    sys.exit(main())
