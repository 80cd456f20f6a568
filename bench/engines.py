"""The same runs judged by each engine, side by side: `python bench/engines.py [--operations N]... [--runs N]...`.

All promises in process; by Spark as people ask it (`whole`: runs that fit into a task, each in one; `lake`: what ingest
has judged), and by columns alone, from the lake, whatever fits; with one core, with two, and on a standalone master
with two workers. The core check alone (results, positions and equal logs) by Spark and by DuckDB on the same Parquet.
Each in a process of its own, in turn, with its processor time, wall time and peak memory; starts of the driver's JVM
apart, those of the workers' executors not. Needs `pip install -r requirements/bench.txt`. Prints JSON.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from upheaval_pipeline.columnar import ECHO, LIST, REGISTER

from bench.pipeline import OPERATIONS_OF_A_KEY, key_operations
from support.built_runs import good_run, new_term, session_message
from support.spark_master import spark_master
from upheaval.checkers.judge import verify_run
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import Operation, Outcome, encode_operation
from upheaval.scenario import load_scenario
from upheaval_pipeline.whole import WHOLE_MIB

SLOTS = 8
WORKERS = "two workers"
INGEST = "ingest: local[2]"
ENGINES = (
    INGEST,
    "in process",
    *(f"whole: {master}" for master in ("local[1]", "local[2]", WORKERS)),
    "lake: local[2]",
    *(f"columns: {master}" for master in ("local[1]", "local[2]", WORKERS)),
    "core: local[1]",
    "core: duckdb",
)
Row = dict[str, Any]

CORE = """
WITH longest AS (SELECT run, arg_max(member, to_end) AS member FROM (
        SELECT run, member, max(end_position) AS to_end FROM recording GROUP BY ALL) GROUP BY run),
    witness AS (SELECT r.run, r.end_position AS position, r.operation_id AS id, r.f, r.key, r.value
        FROM recording AS r JOIN longest USING (run, member) WHERE r.operation_id IS NOT NULL),
    joined AS (SELECT w.run, w.position, w.f, w.key, w.value, h.result, h.id IS NOT NULL AS is_asked, h.outcome,
            h.position AS told, w.f = h.f AND w.key = h.key AND w.value = h.value AS is_equal
        FROM witness AS w LEFT JOIN history AS h ON h.run = w.run AND h.id = w.id),
    held AS (SELECT *,
            last_value(CASE WHEN f = 'write' THEN value WHEN f = 'cas' AND result = 'true' THEN value->>'$[1]' END
                IGNORE NULLS) OVER before AS last_written,
            count(*) FILTER (WHERE f = 'append') OVER before AS appended
        FROM joined WINDOW before AS (PARTITION BY run, key, f IN ('append', 'list') ORDER BY position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
SELECT count(*) FILTER (WHERE outcome = 'ok'),
    count(*) FILTER (WHERE outcome = 'ok' AND (NOT is_equal OR told <> position
        OR (f = 'echo' AND result <> value) OR (f = 'read' AND result <> coalesce(last_written, 'null'))
        OR (f = 'list' AND json_array_length(result) <> appended))),
    (SELECT count(*) FROM (SELECT 1 FROM recording WHERE kind <> 'extent' GROUP BY run, position
        HAVING count(DISTINCT digest) > 1)),
    (SELECT count(*) FROM history AS h WHERE outcome = 'ok' AND position IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM witness AS w WHERE w.run = h.run AND w.id = h.id))
FROM held
"""


def make_run(folder: Path, count: int) -> None:
    """A good run whose keys take turns, with fifty operations each."""
    keys, random = count // OPERATIONS_OF_A_KEY, Random(1)
    of_keys = []
    for key in range(keys):
        space = (REGISTER, REGISTER, LIST, ECHO)[key % 4]
        of_keys.append(list(key_operations(random, space, f"key-{key}", key * OPERATIONS_OF_A_KEY)))
    built = good_run(0)
    messages, position = [new_term(0, 0)], 0
    for turn in range(OPERATIONS_OF_A_KEY):
        for key, operations in enumerate(of_keys):
            number, f, value, result = operations[turn]
            name, begin = "" if f.value == "echo" else f"key-{key}", len(built.operations) * 1000
            messages.append(session_message(encode_operation(number, f, name, value)))
            told = (begin, begin + 500, Outcome.OK, result, None)
            built.operations.append(Operation(number, len(built.operations) % SLOTS, f, name, value, *told))
            position += 1
    built.payloads = [messages, messages, messages]
    built.traces = [[line for line in lines if '"leadership_term_id":1' not in line] for lines in built.traces]
    built.manifest = replace(built.manifest, run_id=f"run-of-{count}")
    built.write(folder)


def make_small_run(folder: Path) -> None:
    """A simulated run."""
    scenario = load_scenario("leader-killed")
    run_scenario(scenario, SimulatedStage(scenario, 1, folder), runtime="simulated", seed=1, say=lambda _: None)


def copies(folder: Path, make: Callable[[Path], None], count: int) -> list[Path]:
    """Of a run, under their own names."""
    first = folder / "0"
    make(first)
    told = json.loads((first / "manifest.json").read_text())
    for number in range(1, count):
        copy = folder / str(number)
        shutil.copytree(first, copy, copy_function=os.link)
        (copy / "manifest.json").unlink()
        (copy / "manifest.json").write_text(json.dumps({**told, "run_id": f"{told['run_id']}-{number}"}))
    return [folder / str(number) for number in range(count)]


def processes() -> list[psutil.Process]:
    """This one and all that it started and that still live."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def processor_seconds() -> float:
    """Of all of them, with those that they have waited for."""
    found = 0.0
    for each in processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            found += sum(each.cpu_times()[:4])
    return found


def own_seconds() -> dict[psutil.Process, float]:
    """Of each that this one has started, without those that it has waited for: executors leave theirs behind."""
    found = {}
    for each in processes()[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            found[each] = sum(each.cpu_times()[:2])
    return found


def peak_mb() -> int:
    """The sum of what each has ever had in memory."""
    found = 0
    for each in processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{each.pid}/status").read_text().splitlines()
            found += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return found // 1024


def measured(work: Callable[[], Any]) -> Row:
    """What some work costs, and what came of it."""
    before, begin = processor_seconds(), time.monotonic()
    found = work()
    wall = time.monotonic() - begin
    used = processor_seconds() - before
    return {"cpu_s": round(used, 2), "wall_s": round(wall, 2), "peak_mb": peak_mb(), "found": found}


def in_process(folders: Sequence[Path]) -> Row:
    return measured(lambda: verdicts(map(verify_run, folders)))


def verdicts(judged: Iterable[Any]) -> list[str]:
    """Those that there are."""
    return sorted({each.verdict.text for each in judged})


def by_spark(master: str, lake: str, what: str, whole_mib: int, folders: Sequence[Path]) -> Row:
    """All promises in one way, the core check, or ingest."""
    from upheaval_pipeline.judged_history import Witness
    from upheaval_pipeline.reach import Reach

    from upheaval_pipeline import judged_history, judged_logs
    from upheaval_pipeline.ingest import ingest
    from upheaval_pipeline.lake import Lake
    from upheaval_pipeline.run_tables import RunTables, each_of_lake, of_lake
    from upheaval_pipeline.session import session
    from upheaval_pipeline.verify import judge, verify, verify_lake

    def core(tables: RunTables) -> list[str]:
        reach = Reach(tables, judged_logs.member_ends(tables.recording).collect())
        witness = Witness(tables, reach)
        parts = (judged_history.by_operation(witness, reach), judged_history.results(witness))
        rows = parts[0].union(parts[1]).union(judged_logs.difference(tables, reach)).collect()
        witness.joined.unpersist()
        return sorted({row.kind for row in rows if row.text is not None})

    def work() -> Any:
        if what == "ingest":
            return len(ingest(spark, folders, lake, whole_mib=whole_mib))
        if what == "whole":
            return verdicts(verify(spark, folders, whole_mib))
        opened = Lake(lake)
        runs = opened.runs("runs")
        if what == "lake":
            return verdicts(verify_lake(spark, opened, runs))
        if what == "columns":
            return verdicts(each_of_lake(spark, opened, runs, judge))
        with of_lake(spark, opened, runs) as tables:
            return core(tables)

    begin, before = time.monotonic(), processor_seconds()
    with session(master) as spark:
        start = {"start_s": round(time.monotonic() - begin, 2), "start_cpu_s": round(processor_seconds() - before, 2)}
        return {**measured(work), **start}


def by_duckdb(lake: str) -> Row:
    import duckdb

    def work() -> Any:
        with duckdb.connect() as database:
            database.execute("SET threads = 1")
            for table in ("history", "recording"):
                files = f"{lake}/{table}/batch=*/*.parquet"
                database.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}') WHERE _reject IS NULL")
            judged, *bad = database.execute(CORE).fetchone() or ()
            assert judged
            return bad

    return measured(work)


def one(engine: str, master: str, lake: str, whole_mib: int, folders: Sequence[Path]) -> Row:
    """What one engine needs, in this process."""
    if engine == "in process":
        return in_process(folders)
    if engine == "core: duckdb":
        return by_duckdb(lake)
    return by_spark(master, lake, engine.partition(":")[0], whole_mib, folders)


def apart(engine: str, master: str, lake: Path, whole_mib: int, folders: Sequence[Path]) -> Row:
    """What one engine needs, in a process of its own."""
    words = [
        "--one",
        engine,
        "--master",
        master,
        "--lake",
        str(lake),
        "--spread-above",
        str(whole_mib),
        *map(str, folders),
    ]
    used = before = own_seconds()
    peak = 0
    with subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True) as process:
        while engine.endswith(WORKERS) and process.poll() is None:
            peak = max(peak, peak_mb())
            used = used | own_seconds()
            time.sleep(0.1)
        told, _ = process.communicate()
    if process.returncode:
        return {"failed": process.returncode}
    row: Row = json.loads(told)
    if engine.endswith(WORKERS):
        row |= {"cpu_s": round(sum(used.values()) - sum(before.values()) - row["start_cpu_s"], 2), "peak_mb": peak}
    return row


def side_by_side(options: argparse.Namespace, folders: Sequence[Path], lake: Path) -> Row:
    """Ingest, where there is need of a lake, and then each engine in turn, as often as wanted."""
    engines = options.engine or ENGINES
    first = [INGEST] if any(not engine.startswith(("in process", "whole")) for engine in engines) else []
    found: dict[str, list[Row]] = {}
    for engine in (*first, *(engine for _ in range(options.rounds) for engine in engines if engine != INGEST)):
        with ExitStack() as stack:
            master = engine.rpartition(" ")[2]
            if engine.endswith(WORKERS):
                scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-"))
                settings = {**os.environ, "SPARK_WORKER_DIR": scratch, "PYSPARK_PYTHON": sys.executable}
                workers = spark_master(Path(scratch), settings, 2, cores=1, memory="4g")
                master = stack.enter_context(workers)
            told = apart(engine, master, lake, options.spread_above, folders)
        print(f"{engine}: {told}", file=sys.stderr, flush=True)
        found.setdefault(engine, []).append(told)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, action="append", default=[], help="of one run; may be repeated")
    parser.add_argument("--runs", type=int, action="append", default=[], help="small ones; may be repeated")
    parser.add_argument("--copies", type=int, default=1, help="of each run of --operations, judged together")
    parser.add_argument("--spread-above", type=int, default=WHOLE_MIB, help="MiB, as of `upheaval verify`")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="may be repeated (default: all)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    parser.add_argument("--lake", help=argparse.SUPPRESS)
    parser.add_argument("folders", nargs="*", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.master, options.lake, options.spread_above, options.folders)))
        return 0
    found: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="upheaval-engines-") as name:
        for count in options.operations:
            folder = Path(name) / f"{count}"
            runs = copies(folder, partial(make_run, count=count), options.copies)
            found[f"{options.copies} of {count} operations"] = side_by_side(options, runs, folder / "lake")
            shutil.rmtree(folder)
        for count in options.runs:
            folder = Path(name) / f"small-{count}"
            runs = copies(folder, make_small_run, count)
            found[f"{count} runs"] = side_by_side(options, runs, folder / "lake")
            shutil.rmtree(folder)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
