"""How fast a history is judged and a recording decoded, per core: `python bench/pipeline.py`.

Prints JSON. The columnar pass and decoding run in this process, in one thread, and are measured by its processor time;
the verdict of Spark on the same operations, read from a lake, by the clock and by the processor time of the JVM and its
Python workers, with the start of the JVM apart. Small runs are copies of a simulated one, judged in this process one
after the other and by Spark in one job.
"""

import argparse
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.remove(str(Path(__file__).resolve().parent))  # its `profile` is not the one that PySpark imports

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from upheaval.checkers.model import Model
from upheaval.checkers.run import verify_run
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import Converge, FinalPosition, Function, Json, Manifest, encode_operation
from upheaval.scenario import load_scenario
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.protocol.fragments import append_message, padding_header
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_pipeline import tables
from upheaval_pipeline.columnar import ANSWERED, CODES, ECHO, LIST, REGISTER
from upheaval_pipeline.keys import judge_groups
from upheaval_pipeline.pieces import pieces
from upheaval_pipeline.recorded import recording_batches
from upheaval_pipeline.run_tables import Aside, partition

RUN = "bench"
MEMBERS = 3
OPERATIONS_OF_A_KEY = 50
FRAME = 128
TERM_LENGTH = 16 << 20
Row = dict[str, Any]
_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "byte": pa.int8(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}
GROUPED = (
    "run int, space byte, group string, position long, id long, op byte, state byte, value string, result string, "
    "key string, sent string, sent_key string, sent_op byte"
)
RUNS = "folder string, traced string, manifest string, aside string"


def arrow_schema(columns: str) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in columns.split(", "))])


class Table:
    """A Parquet file that grows by rows; what a row does not name is null."""

    def __init__(self, path: Path, columns: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._schema = arrow_schema(columns)
        self._writer = pq.ParquetWriter(path, self._schema)

    def add(self, rows: list[Row]) -> None:
        self._writer.write_table(pa.Table.from_pylist(rows, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


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


def make_lake(lake: Path, count: int) -> Path:
    """A lake with one good run, as `ingest` writes it; returns its operations as Spark hands them to its tasks."""
    random = Random(1)
    keys = count // OPERATIONS_OF_A_KEY
    grouped = Table(lake / "grouped.parquet", GROUPED)
    made = {
        name: Table(Path(partition(str(lake), name, RUN)) / "part.parquet", columns)
        for name, columns in {**tables.LAKE_SCHEMAS, "runs": RUNS}.items()
    }
    block = 2000
    for begin in range(0, keys, block):
        rows = [row for key in range(begin, min(begin + block, keys)) for row in _key_rows(random, key, keys)]
        grouped.add([row for row, _, _ in rows])
        made["history"].add([row for _, row, _ in rows])
        for member in range(MEMBERS):
            made["recording"].add([{**row, "member": member} for _, _, row in rows])
    end = FRAME * keys * OPERATIONS_OF_A_KEY
    extent: Row = {"start_position": 0, "from_position": 0, "to_position": end, "position": 0, "end_position": end}
    extent |= {"kind": "extent", "fields": f'{{"segment_length":{1 << 30}}}'}
    made["recording"].add([{**extent, "member": member} for member in range(MEMBERS)])
    claim = {"member": 0, "line": 1, "ts": 1, "event": "role", "role": "LEADER", "leadership_term_id": 0}
    made["trace"].add([claim])
    finals = tuple(FinalPosition(member, end, end, 0) for member in range(MEMBERS))
    manifest = Manifest(RUN, "process", MEMBERS, "test", 0, converge=Converge(True, 1, finals))
    made["runs"].add(
        [{"folder": RUN, "traced": "[0, 1, 2]", "manifest": manifest.to_json(), "aside": Aside().to_json()}]
    )
    for table in (grouped, *made.values()):
        table.close()
    return grouped.path


def _key_rows(random: Random, key: int, keys: int) -> Iterator[tuple[Row, Row, Row]]:
    """Keys take turns in the log: operation n of every key lies before operation n + 1 of any."""
    space = (REGISTER, REGISTER, LIST, ECHO)[key % 4]
    group = f"key-{key}"
    spelt = tables.canonical
    for turn, (number, f, value, result) in enumerate(key_operations(random, space, group, key * OPERATIONS_OF_A_KEY)):
        end = FRAME * (turn * keys + key + 1)
        name = "" if space == ECHO else group
        said = {"f": f.value, "key": name, "value": spelt(value)}
        grouped = {
            "run": 0,
            "space": space,
            "group": group,
            "position": end,
            "id": number,
            "op": CODES[f],
            "state": ANSWERED,
        }
        grouped |= {"value": said["value"], "result": spelt(result), "key": name if space == ECHO else None}
        times = {"invoke_ns": end, "complete_ns": end + FRAME // 2, "process": key}
        history = {
            "id": number,
            "line": number,
            **said,
            **times,
            "outcome": "ok",
            "result": spelt(result),
            "position": end,
        }
        frame = {
            "position": end - FRAME,
            "end_position": end,
            "flags": 0xC0,
            "kind": "message",
            "type": "SessionMessage",
        }
        frame |= {"digest": number * 0x9E3779B97F4A7C15 % (1 << 62), "operation_id": number, **said}
        yield grouped, history, frame


def columnar_pass(grouped: Path, count: int) -> Row:
    """Operations a second of one core, from a Parquet file of operations sorted by key and position."""
    begin = time.process_time()
    batches = pq.ParquetFile(grouped).iter_batches(batch_size=1 << 16, use_threads=False)
    judged = [row for batch in judge_groups(batches) for row in batch.to_pylist()]
    seconds = time.process_time() - begin
    assert sum(row["judged"] for row in judged) == count
    assert not any(row["violation"] for row in judged)
    return {"operations": count, "cpu_seconds": round(seconds, 2), "operations_a_second": round(count / seconds)}


def cpu_seconds() -> float:
    """Processor time of everything that this process started and that still lives."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(t.user + t.system for t in times)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.monotonic()
    return work(), time.monotonic() - begin


def spark_verdict(lake: Path, count: int, cores: int) -> Row:
    """Every promise, from the lake: joins, sorts and groups by Spark."""
    from upheaval_pipeline.session import session
    from upheaval_pipeline.verify import verify_lake

    begin = time.monotonic()
    with session(f"local[{cores}]") as spark:
        start_seconds = time.monotonic() - begin
        before = cpu_seconds()
        (report,), seconds = timed(lambda: list(verify_lake(spark, str(lake), [RUN])))
        used = cpu_seconds() - before
    return {
        "verdict": report.verdict.text,
        "cores": cores,
        "start_seconds": round(start_seconds, 1),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used, 1),
        "operations_a_second_and_core": round(count / seconds / cores),
        "operations_a_cpu_second": round(count / used),
        "with_start": round(count / (seconds + start_seconds) / cores),
    }


def small_runs(folder: Path, count: int, cores: int) -> Row:
    """Many runs of one scenario: processor time in this process, and of one job of Spark with all that it starts."""
    from upheaval_pipeline.session import session
    from upheaval_pipeline.verify import verify

    scenario = load_scenario("leader-killed")
    run_scenario(scenario, SimulatedStage(scenario, 1, folder / "0"), runtime="simulated", seed=1, say=lambda _: None)
    folders = [folder / str(number) for number in range(count)]
    for copy in folders[1:]:
        shutil.copytree(folders[0], copy, copy_function=os.link)
    begin = time.process_time()
    here = [verify_run(each).findings for each in folders]
    in_process = time.process_time() - begin
    with session(f"local[{cores}]") as spark:
        before = cpu_seconds() + time.process_time()
        judged, seconds = timed(lambda: list(verify(spark, folders)))
        used = cpu_seconds() + time.process_time() - before
    assert [report.findings for report in judged] == here
    return {
        "runs": count,
        "in_process_cpu_seconds": round(in_process, 1),
        "spark_cpu_seconds": round(used, 1),
        "spark_seconds": round(seconds, 1),
        "in_process_cpu_seconds_a_run": round(in_process / count, 3),
        "spark_cpu_seconds_a_run": round(used / count, 3),
    }


def make_recording(folder: Path, length: int) -> None:
    """A member's log of about a length, of operations with values of 32 bytes, in terms and segments of 16 MiB."""
    member = folder / "member-0"
    (member / "archive").mkdir(parents=True)
    (member / "cluster").mkdir()
    fields = (0, 0, 0, 1, -1, 0, -1, 0, TERM_LENGTH, TERM_LENGTH, 1408, 1, 100)
    descriptor = (struct.pack("<qqqqqqqiiiiii", *fields) + bytes(12)).ljust(96, b"\0")
    header = struct.pack("<iiqi12x", 196864, 32, 100, 64)
    (member / "archive" / "archive.catalog").write_bytes(header + struct.pack("<ii24x", 96, 1) + descriptor)
    (member / "cluster" / "recording.log").write_bytes(struct.pack("<qqqqqii16x", 0, 0, 0, -1, 1, -1, 0))
    number = 0
    for term in range(-(-length // TERM_LENGTH)):
        block = bytearray()
        while len(block) + 1024 < TERM_LENGTH:
            value = f"value {number:026}" if number % 3 else None
            f = Function.WRITE if value else Function.READ
            payload = pack_session_header(0, 1, number) + encode_operation(number, f, f"key-{number % 1000}", value)
            where = {"term_offset": len(block), "session_id": 1, "stream_id": 100, "term_id": term}
            append_message(block, [payload], max_payload_length=1376, **where)
            number += 1
        rest = TERM_LENGTH - len(block)
        block += padding_header(
            length=rest, term_offset=len(block), session_id=1, stream_id=LOG_STREAM_ID, term_id=term
        )
        (member / "archive" / f"0-{term * TERM_LENGTH}.rec").write_bytes(bytes(block).ljust(TERM_LENGTH, b"\0"))


def decoding(folder: Path) -> Row:
    """Bytes of recordings a second of one core, to rows with all fields, payloads and fingerprints."""
    schema = arrow_schema(tables.RECORDING)
    begin = time.process_time()
    length = frames = 0
    for piece in pieces(folder, RUN, 0, None):
        for batch in recording_batches(piece, schema):
            frames += batch.num_rows
        length += piece.to_position - piece.from_position
    seconds = time.process_time() - begin
    return {
        "bytes": length,
        "frames": frames,
        "cpu_seconds": round(seconds, 2),
        "mb_a_second": round(length / seconds / 1e6, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=2_000_000)
    parser.add_argument("--cores", type=int, default=2, help="of Spark")
    parser.add_argument("--log-bytes", type=int, default=128 << 20)
    parser.add_argument("--runs", type=int, default=20, help="small ones")
    parser.add_argument("--without-spark", action="store_true")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    count = options.operations // OPERATIONS_OF_A_KEY * OPERATIONS_OF_A_KEY
    found: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="upheaval-bench-") as name:
        folder = Path(name)
        make_recording(folder / "run", options.log_bytes)
        found["decoding"] = decoding(folder / "run")
        grouped = make_lake(folder / "lake", count)
        found["columnar_pass"] = columnar_pass(grouped, count)
        if not options.without_spark:
            found["spark_verdict_from_lake"] = spark_verdict(folder / "lake", count, options.cores)
            found["small_runs"] = small_runs(folder / "small", options.runs, options.cores)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
