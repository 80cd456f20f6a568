"""A lake partitioned by date and system, and the same after `upheaval lake optimize`: `python bench/partitions.py`.

Each date and system has a file of its own in each table. Prints JSON by layout: files and bytes, and the processor
seconds of commands, of a reader of one date, and of the end of the oldest dates. That of partitions takes their files
out of the tables; the other one is `upheaval lake drop`.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.compute as pc

from bench.questions import run_row, write_runs
from upheaval_pipeline import upkeep
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.delta import erase, replace
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.lake_file import File
from upheaval_pipeline.lake_files import files_of

SYSTEMS = ("upheaval", "aeron")
COMMANDS = {
    "count": ["query", "SELECT count(*) FROM history"],
    "flakes": ["ask", "flakes"],
    "latency": ["ask", "latency"],
}
TABLES = ("runs", "history", "faults", "trace", "verdicts")


def make_lake(where: Path, count: int, days: int) -> dict[int, list[str]]:
    """A lake with a file in each table for each date and system; the runs by day."""
    random, lake = Random(count), Lake(str(where))
    batch, written = lake.new_batch(), []
    by_day: dict[int, list[str]] = {}
    first = datetime.now(UTC) - timedelta(days=days)
    for day in range(days):
        created = (first + timedelta(days=day)).isoformat()
        numbers = range(day * count // days, (day + 1) * count // days)
        for place, system in enumerate(SYSTEMS):
            names = {number: f"{random.getrandbits(64):016x}" for number in numbers[place :: len(SYSTEMS)]}
            rows = [run_row(run, number, count, created, system) for number, run in names.items()]
            written += write_runs(str(where), batch, rows, random)
            by_day.setdefault(day, []).extend(names.values())
    lake.commit(files_of(written))
    return by_day


def cpu_s(action: Callable[[], object]) -> float:
    """Of this process and those that it waited for."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    before = [resource.getrusage(kind) for kind in kinds]
    action()
    after = [resource.getrusage(kind) for kind in kinds]
    spent = (b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))
    return round(sum(spent), 2)


def upheaval(*words: str) -> Callable[[], object]:
    command = [sys.executable, "-m", "upheaval.cli.main", *words]
    return lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def read_day(lake: Lake, runs: Sequence[str], files: Sequence[File]) -> int:
    """How many operations runs have, as a reader of these files counts them."""
    columns = arrow_schema("run string, id long, outcome string")
    wanted = pc.field("run").isin(pa.array(runs, pa.string()))
    return int(lake.dataset([file.path for file in files], columns).to_table(filter=wanted).num_rows)


def costs(where: str) -> dict[str, Any]:
    lake = open_lake(where)
    files = [file for of_table in lake.tables.values() for file in of_table]
    sizes = {"files": len(files), "mb": round(sum(file.size for file in files) / 1e6, 1)}
    return sizes | {name: cpu_s(upheaval(*words, "--lake", where)) for name, words in COMMANDS.items()}


def of_runs(lake: Lake, table: str, runs: Sequence[str]) -> list[File]:
    """The files whose rows are of these runs, as the log of partitions would say it."""
    ends = {*runs}
    return [file for file in lake.tables[table] if file.runs[0] in ends]


def drop_partitions(where: str, runs: Sequence[str]) -> None:
    lake = open_lake(where)
    for table in TABLES:
        replace(lake.place, table, of_runs(lake, table, runs), [])
        erase(lake.place, table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=365, help="on which they were made")
    parser.add_argument("--dropped", type=int, default=90, help="days whose runs end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where, copy = Path(folder) / "lake", Path(folder) / "copy"
        by_day = make_lake(where, options.runs, options.days)
        day = by_day[options.days // 2]
        old = [run for number in range(options.dropped) for run in by_day[number]]
        shutil.copytree(where, copy)
        lake = open_lake(str(where))
        operations: list[int] = []
        parts = costs(str(where))
        parts["day"] = cpu_s(lambda: operations.append(read_day(lake, day, of_runs(lake, "history", day))))
        parts["drop"] = cpu_s(lambda: drop_partitions(str(copy), old))
        print(json.dumps({"layout": "a file a date and system", **parts}), flush=True)
        optimized = cpu_s(lambda: upkeep.optimize(lake))
        lake = open_lake(str(where))
        whole = costs(str(where))
        whole["day"] = cpu_s(lambda: operations.append(read_day(lake, day, lake.tables["history"])))
        age = f"{24 * (options.days - options.dropped) + 1}h"
        whole["drop"] = cpu_s(upheaval("lake", "drop", "--lake", str(where), "--older-than", age))
        print(json.dumps({"layout": "optimized", "optimize": optimized, **whole}), flush=True)
        left = len(open_lake(str(where)).runs("runs")), len(open_lake(str(copy)).runs("runs"))
    if operations[0] != operations[1] or left[0] != left[1]:
        raise SystemExit(f"the layouts differ: {operations} operations of a day, {left} runs left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
