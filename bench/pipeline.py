"""How fast results are judged and a recording decoded, per core: `python bench/pipeline.py`.

Prints JSON. Both run in this process, in one thread, and are measured by its processor time. Whole verdicts, of each
engine, are measured by `engines.py`.
"""

import argparse
import json
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq
from upheaval_pipeline.columnar import ANSWERED, CODES, ECHO, LIST, REGISTER
from upheaval_pipeline.keys import judge_groups

from upheaval.checkers.history.model import Model
from upheaval.records import Function, Json, encode_operation
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.protocol.fragments import append_message, padding_header
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_pipeline import tables
from upheaval_pipeline.pieces import pieces
from upheaval_pipeline.recorded import recording_batches

RUN = "bench"
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


def arrow_schema(columns: str) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in columns.split(", "))])


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


def make_grouped(path: Path, count: int) -> None:
    """The operations of a good run, as Spark hands them to its tasks."""
    random = Random(1)
    keys = count // OPERATIONS_OF_A_KEY
    schema = arrow_schema(GROUPED)
    block = 2000
    with pq.ParquetWriter(path, schema) as writer:
        for begin in range(0, keys, block):
            rows = [row for key in range(begin, min(begin + block, keys)) for row in _key_rows(random, key, keys)]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def _key_rows(random: Random, key: int, keys: int) -> Iterator[Row]:
    """Keys take turns in the log: operation n of every key lies before operation n + 1 of any."""
    space = (REGISTER, REGISTER, LIST, ECHO)[key % 4]
    group = f"key-{key}"
    spelt = tables.canonical
    for turn, (number, f, value, result) in enumerate(key_operations(random, space, group, key * OPERATIONS_OF_A_KEY)):
        yield {
            "run": 0,
            "space": space,
            "group": group,
            "position": FRAME * (turn * keys + key + 1),
            "id": number,
            "op": CODES[f],
            "state": ANSWERED,
            "value": spelt(value),
            "result": spelt(result),
            "key": "" if space == ECHO else None,
        }


def columnar_pass(grouped: Path, count: int) -> Row:
    """Operations a second of one core, from a Parquet file of operations sorted by key and position."""
    begin = time.process_time()
    batches = pq.ParquetFile(grouped).iter_batches(batch_size=1 << 16, use_threads=False)
    judged = [row for batch in judge_groups(batches) for row in batch.to_pylist()]
    seconds = time.process_time() - begin
    assert sum(row["judged"] for row in judged) == count
    assert not any(row["violation"] for row in judged)
    return {"operations": count, "cpu_seconds": round(seconds, 2), "operations_a_second": round(count / seconds)}


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
    parser.add_argument("--log-bytes", type=int, default=128 << 20)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    count = options.operations // OPERATIONS_OF_A_KEY * OPERATIONS_OF_A_KEY
    found: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="upheaval-bench-") as name:
        folder = Path(name)
        make_recording(folder / "run", options.log_bytes)
        found["decoding"] = decoding(folder / "run")
        make_grouped(folder / "grouped.parquet", count)
        found["columnar_pass"] = columnar_pass(folder / "grouped.parquet", count)
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
