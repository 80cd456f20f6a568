"""Each question of `upheaval ask` on DuckDB and on Spark, over one lake: `python bench/questions.py [--runs N]...`.

The lakes have runs that are made apart from each other: every one has its own clients, times, faults and elections, and
one in ten of them breaks a promise. Each engine is a process of its own. Prints JSON: by engine and question the
processor seconds, the peak of memory after it (the JVM's with it), and whether both engines gave equal rows.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.engines import peak_mb, processor_seconds
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.engines import DUCKDB, SPARK, engine_of
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.lake_files import files_of, write_file
from upheaval_pipeline.query import open_views
from upheaval_pipeline.questions import QUESTIONS
from upheaval_pipeline.tables import FAULTS, HISTORY, STORED, TRACE, batches
from upheaval_pipeline.verdicts import verdict_rows
from upheaval_pipeline.version import reader_version

MS = 1_000_000
OPERATIONS = 500
MASTER = "local[2]"
ROWS_MAX = 1000
DIGITS = 6
"""After the point, in which the numbers of two engines must be equal."""


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


def make_lake(where: Path, count: int) -> str:
    """A lake of so many runs, in one batch."""
    random = Random(count)
    runs: list[tuple[object, ...]] = []
    rows: dict[str, list[tuple[object, ...]]] = {"history": [], "faults": [], "trace": []}
    judged = {}
    for number in range(count):
        run = f"{random.getrandbits(64):016x}"
        manifest = json.dumps({"system": "upheaval", "version": str(number % 3), "source_digest": f"c{number % 7}"})
        created = f"2026-{1 + number % 12:02}-{1 + number % 28:02}T10:00:00+00:00"
        made = (run, f"/runs/{run}", "simulated", 3, "test", 1, number, created, "", True, manifest, "[]")
        labels = [("commit", f"{number * 20 // count:04x}")]
        runs.append((*made, f"scenario {number % 5}", labels, created, "1", run, reader_version(), None, []))
        rows["history"] += history_of(run, random)
        rows["faults"] += faults_of(run, random)
        rows["trace"] += trace_of(run, random)
        verdict = Verdict.INVALID if number % 10 == 3 else Verdict.VALID
        judged[run] = Report(f"/runs/{run}", (Finding(Promise.LINEARIZABLE, verdict, f"{number} operations"),))
    lake = Lake(str(where))
    batch = lake.new_batch()
    written = write_file(str(where), "verdicts", batch, verdict_rows(judged, {run: run for run in judged}))
    for table, columns in (("history", HISTORY), ("faults", FAULTS), ("trace", TRACE)):
        written += write_file(str(where), table, batch, batches(rows[table], arrow_schema(columns)))
    columns = STORED["runs"].removesuffix(", batch string")
    written += write_file(str(where), "runs", batch, batches(runs, arrow_schema(columns)))
    lake.commit(files_of(written))
    return str(where)


def asked(engine: str, where: str) -> dict[str, Any]:
    """What each question costs on an engine in this process, and its rows."""
    before = processor_seconds()
    answers: dict[str, Any] = {}
    with engine_of(engine, MASTER) as started:
        open_views(started, open_lake(where))
        answers["start"] = {"cpu_s": round(processor_seconds() - before, 2), "peak_mb": peak_mb()}
        for question in QUESTIONS:
            before, begin = processor_seconds(), time.monotonic()
            answer = started.answer(question.sql, ROWS_MAX)
            cost = {"cpu_s": round(processor_seconds() - before, 2), "wall_s": round(time.monotonic() - begin, 2)}
            rows = sorted(json.dumps([plain(value) for value in row]) for row in answer.rows)
            answers[question.name] = {**cost, "peak_mb": peak_mb(), "rows": rows}
    return answers


def plain(value: object) -> object:
    """A value as JSON, with as many digits as both engines must agree in."""
    if isinstance(value, float):
        return round(value, DIGITS) + 0.0
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, int | str | None) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, action="append", help="how many runs a lake has (default 8, 100, 1000)")
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "LAKE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asked(*options.one)))
        return 0
    for count in options.runs or (8, 100, 1000):
        with tempfile.TemporaryDirectory() as folder:
            where = make_lake(Path(folder) / "lake", count)
            duck, spark = (apart(engine, where) for engine in (DUCKDB, SPARK))
        print(json.dumps({"runs": count, "questions": side_by_side(duck, spark)}), flush=True)
    return 0


def apart(engine: str, where: str) -> dict[str, Any]:
    """`asked` in a process of its own."""
    words = [sys.executable, __file__, "--one", engine, where]
    answers: dict[str, Any] = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
    return answers


def side_by_side(duck: dict[str, Any], spark: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """A row a question."""
    return [
        {
            "question": name,
            **{f"{DUCKDB}_{what}": value for what, value in duck[name].items() if what != "rows"},
            **{f"{SPARK}_{what}": value for what, value in spark[name].items() if what != "rows"},
            "rows": len(duck[name].get("rows", [])),
            "equal": duck[name].get("rows") == spark[name].get("rows"),
        }
        for name in duck
    ]


if __name__ == "__main__":
    sys.exit(main())
