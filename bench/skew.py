"""One long run beside many short ones, by two workers of which one is killed: `python bench/skew.py [--operations N]`.

A standalone master has two workers with a core each. `upheaval ingest` writes and judges all runs there; in the middle
the executor of one worker is killed, and another takes its place. The verdicts of the lake are compared with those of
`verify_run` in this process. Prints JSON; the status is 1 where they differ, or where rows are missing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from bench.engines import make_run, own_seconds
from support.built_runs import good_run, lost_operation
from support.lakes import asked
from support.spark_master import executors, spark_master
from upheaval.checkers.judge import verify_run
from upheaval.records import RunFolder
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.verdicts import last_judged

SHORT = range(200, 800)
"""How many operations a short run has."""
LOST_EVERY = 10
"""One in so many short runs has lost an acknowledged operation."""
POLL_S = 0.1


def make_runs(folder: Path, operations: int, count: int) -> list[Path]:
    """The long run, and the short ones."""
    random = Random(operations)
    make_run(folder / "long", operations)
    for number in range(count):
        name = f"short-{number}"
        if number % LOST_EVERY == 0:
            lost_operation(folder / name)
            run = RunFolder(folder / name)
            run.write_manifest(replace(run.read_manifest(), run_id=name))
        else:
            built = good_run(random.choice(SHORT))
            built.manifest = replace(built.manifest, run_id=name)
            built.write(folder / name)
    return [folder / "long", *(folder / f"short-{number}" for number in range(count))]


def ingested(runs: Sequence[Path], lake: str, folder: Path) -> dict[str, Any]:
    """Ingest by two workers; the first executor that works is killed once a task of it runs."""
    work = folder / "work"  # where no daemon is: `executors` goes by folders
    settings = {**os.environ, "SPARK_WORKER_DIR": str(work), "PYSPARK_PYTHON": sys.executable}
    with spark_master(folder, settings, 2, cores=1, memory="4g") as master:
        words = [sys.executable, "-m", "upheaval.cli.main", "ingest", *map(str, runs), "--lake", lake]
        before = used = own_seconds()
        begin = time.monotonic()
        killed: list[psutil.Process] = []
        with subprocess.Popen([*words, "--master", master], stdout=subprocess.DEVNULL) as process:
            while process.poll() is None:
                used = used | own_seconds()
                if not killed and (at_work := executors(work)):
                    killed = at_work[:1]
                    killed[0].kill()
                time.sleep(POLL_S)
        wall_s = time.monotonic() - begin
    if process.returncode or not killed:
        raise SystemExit(f"ingest ended with {process.returncode}, {len(killed)} executors killed")
    return {"cpu_s": round(sum(used.values()) - sum(before.values()), 1), "wall_s": round(wall_s, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000, help="of the long run")
    parser.add_argument("--runs", type=int, default=200, help="short ones")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="upheaval-skew-") as name:
        folder = Path(name)
        (folder / "spark").mkdir()
        runs, lake = make_runs(folder / "runs", options.operations, options.runs), str(folder / "lake")
        cost = ingested(runs, lake, folder / "spark")
        before, begin = time.process_time(), time.monotonic()
        expected = {run.name if run.name != "long" else f"run-of-{options.operations}": verify_run(run) for run in runs}
        alone = {
            "cpu_s": round(time.process_time() - before, 1),
            "wall_s": round(time.monotonic() - begin, 1),
        }
        opened = open_lake(lake)
        judged = last_judged(opened, opened.runs("runs"))
        different = [run for run, report in expected.items() if judged.get(run) != report]
        rows = dict(asked(lake, "SELECT run, count(*) FROM history GROUP BY run", len(runs) + 1).rows)
    lost = [run for run in expected if run not in rows] + ([] if max(rows.values()) == options.operations else ["rows"])
    print(json.dumps({"runs": len(runs), "ingest": cost, "in_process": alone, "different": different, "lost": lost}))
    return 1 if different or lost else 0


if __name__ == "__main__":
    sys.exit(main())
