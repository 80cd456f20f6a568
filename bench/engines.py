"""The same runs judged by each engine, side by side: `python bench/engines.py [--operations N]... [--runs N]...`.

In process; by Spark, a run a task, with one core, with two, and on a standalone master with two workers; and what a
lake keeps. Each in a process of its own, in turn, with its processor time, wall time and peak memory; starts of the
driver's JVM apart, those of the workers' executors not. Prints JSON.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from support.built_runs import (
    SEGMENT_LENGTH,
    LogBuilder,
    good_run,
    new_term,
    session_message,
    session_open,
    write_catalog,
    write_segment,
)
from support.spark_master import spark_master
from upheaval.checkers.history.model import Model
from upheaval.checkers.judge import verify_run
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import Function, Json, Operation, Outcome, RunFolder, encode_operation
from upheaval.scenario import load_scenario

SLOTS = 8
OPERATIONS_OF_A_KEY = 50
KEYS_AT_A_TIME = 1000
BLOCKS_AT_A_TIME = 4096
ECHO, REGISTER, LIST = range(3)
"""What a key holds."""
WORKERS = "two workers"
INGEST = "ingest: local[2]"
ENGINES = (
    INGEST,
    "in process",
    *(f"whole: {master}" for master in ("local[1]", "local[2]", WORKERS)),
    "lake: local[2]",
)
Row = dict[str, Any]


def key_operations(random: Random, space: int, group: str, first_id: int) -> Iterator[tuple[int, Function, Json, Json]]:
    """The operations of one key in order, each with its result."""
    functions = {
        REGISTER: (Function.READ, Function.WRITE, Function.CAS),
        LIST: (Function.APPEND, Function.LIST),
        ECHO: (Function.ECHO,),
    }[space]
    model = Model()
    for number in range(OPERATIONS_OF_A_KEY):
        function = random.choice(functions)
        value: Json = None
        if function is Function.CAS:
            value = [random.choice([model.registers.get(group), number]), number]
        elif function not in (Function.READ, Function.LIST):
            value = f"value {first_id + number}" if space == ECHO else first_id + number
        result = model.apply(function, group, value)
        yield first_id + number, function, value, list(result) if isinstance(result, list) else result


def operations(count: int) -> Iterator[Operation]:
    """In the order of the log: keys take turns, some of them at a time, so that few are in memory."""
    random, begin = Random(1), 0
    for first in range(0, count // OPERATIONS_OF_A_KEY, KEYS_AT_A_TIME):
        keys = range(first, min(first + KEYS_AT_A_TIME, count // OPERATIONS_OF_A_KEY))
        spaces = [(REGISTER, REGISTER, LIST, ECHO)[key % 4] for key in keys]
        turns = [
            list(key_operations(random, space, f"key-{key}", key * OPERATIONS_OF_A_KEY))
            for key, space in zip(keys, spaces, strict=True)
        ]
        for turn in zip(*turns, strict=True):
            for key, (number, f, value, result) in zip(keys, turn, strict=True):
                name = "" if f is Function.ECHO else f"key-{key}"
                slot = begin // 1000 % SLOTS
                yield Operation(number, slot, f, name, value, begin, begin + 500, Outcome.OK, result, None)
                begin += 1000


class SharedLog:
    """One log that all members have: each segment is one file with a name in each of their folders."""

    def __init__(self, folders: Sequence[Path], recording_ids: Sequence[int]) -> None:
        self._first, *self._others = zip(folders, recording_ids, strict=True)
        self._log = LogBuilder()
        self._frames = bytearray()
        self._base = 0

    @property
    def position(self) -> int:
        return self._log.position

    def append(self, payload: bytes) -> None:
        self._log.append(payload)
        if len(self._log.blocks) >= BLOCKS_AT_A_TIME:
            self._write_whole()

    def close(self) -> None:
        """Write the last segment, which has no frame where the one before is full."""
        self._write_whole()
        self._write(bytes(self._frames))

    def _write_whole(self) -> None:
        self._frames += b"".join(self._log.blocks)
        self._log.blocks.clear()
        while len(self._frames) >= SEGMENT_LENGTH:
            self._write(bytes(self._frames[:SEGMENT_LENGTH]))
            del self._frames[:SEGMENT_LENGTH]

    def _write(self, frames: bytes) -> None:
        segment = write_segment(*self._first, self._base, frames)
        for folder, recording_id in self._others:
            (folder / "archive" / f"{recording_id}-{self._base}.rec").hardlink_to(segment)
        self._base += SEGMENT_LENGTH


def make_run(folder: Path, count: int) -> None:
    """A good run whose keys take turns, with fifty operations each. Written as it is made, whatever its length."""
    built = good_run(0)
    built.payloads = [[new_term(0, 0), session_open()]] * 3
    built.traces = [[line for line in lines if '"leadership_term_id":1' not in line] for lines in built.traces]
    built.manifest = replace(built.manifest, run_id=f"run-of-{count}")
    run = RunFolder(folder)
    run.create(built.manifest)
    members = [run.member(member_id).path for member_id in range(built.manifest.members)]
    for member, recording_id in zip(members, built.recording_ids, strict=True):
        write_catalog(member, recording_id, {0: 0})
    log = SharedLog(members, built.recording_ids)
    for payload in built.payloads[0]:
        log.append(payload)
    with run.history_writer() as history:
        for operation in operations(count):
            content = encode_operation(operation.id, operation.f, operation.key, operation.value)
            log.append(session_message(content))
            history.add(operation)
    log.close()
    built.end_positions = [log.position] * len(members)
    built.write_beside_logs(run)


def make_small_run(folder: Path) -> None:
    """A simulated run."""
    scenario = load_scenario("leader-killed")
    run_scenario(scenario, SimulatedStage(scenario, 1, folder), runtime="simulated", seed=1, say=lambda _: None)


def copies(folder: Path, make: Callable[[Path], None], count: int) -> list[Path]:
    """Of a run, under their own names."""
    first = folder / "0"
    make(first)
    manifest = json.loads((first / "manifest.json").read_text(encoding="utf-8"))
    for number in range(1, count):
        copy = folder / str(number)
        shutil.copytree(first, copy, copy_function=os.link)
        (copy / "manifest.json").unlink()
        (copy / "manifest.json").write_text(json.dumps({**manifest, "run_id": f"{manifest['run_id']}-{number}"}))
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
            lines = Path(f"/proc/{each.pid}/status").read_text(encoding="utf-8").splitlines()
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


def by_spark(master: str, lake: str, what: str, folders: Sequence[Path]) -> Row:
    """Judging folders, what a lake keeps, or ingest."""
    from upheaval_pipeline.ingest import ingest
    from upheaval_pipeline.lake import Lake
    from upheaval_pipeline.session import session
    from upheaval_pipeline.verify import verify_lake
    from upheaval_pipeline.whole import judge_each

    def work() -> Any:
        if what == "ingest":
            return len(ingest(spark, folders, lake))
        if what == "whole":
            return verdicts(judge_each(spark, folders))
        opened = Lake(lake)
        return verdicts(verify_lake(partial(judge_each, spark), opened, opened.runs("runs")))

    begin, before = time.monotonic(), processor_seconds()
    with session(master) as spark:
        start = {"start_s": round(time.monotonic() - begin, 2), "start_cpu_s": round(processor_seconds() - before, 2)}
        return {**measured(work), **start}


def one(engine: str, master: str, lake: str, folders: Sequence[Path]) -> Row:
    """What one engine needs, in this process."""
    if engine == "in process":
        return in_process(folders)
    return by_spark(master, lake, engine.partition(":")[0], folders)


def apart(engine: str, master: str, lake: Path, folders: Sequence[Path]) -> Row:
    """What one engine needs, in a process of its own."""
    words = ["--one", engine, "--master", master, "--lake", str(lake), *map(str, folders)]
    used = before = own_seconds()
    peak = 0
    with subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True) as process:
        while engine.endswith(WORKERS) and process.poll() is None:
            peak = max(peak, peak_mb())
            used = used | own_seconds()
            time.sleep(0.1)
        output, _ = process.communicate()
    if process.returncode:
        return {"failed": process.returncode}
    row: Row = json.loads(output)
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
            row = apart(engine, master, lake, folders)
        print(f"{engine}: {row}", file=sys.stderr, flush=True)
        found.setdefault(engine, []).append(row)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, action="append", default=[], help="of one run; may be repeated")
    parser.add_argument("--runs", type=int, action="append", default=[], help="small ones; may be repeated")
    parser.add_argument("--copies", type=int, default=1, help="of each run of --operations, judged together")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="may be repeated (default: all)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--master", help=argparse.SUPPRESS)
    parser.add_argument("--lake", help=argparse.SUPPRESS)
    parser.add_argument("folders", nargs="*", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.master, options.lake, options.folders)))
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
