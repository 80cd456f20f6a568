"""How fast a recording is decoded to rows, per core: `python bench/pipeline.py`.

Prints JSON. It runs in this process, in one thread, and is measured by its processor time. Verdicts and ingest are
measured by `engines.py`.
"""

import argparse
import json
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from upheaval.records import Function, encode_operation
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.protocol.fragments import append_message, padding_header
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_pipeline import tables
from upheaval_pipeline.pieces import pieces
from upheaval_pipeline.recorded import recording_batches

RUN = "bench"
TERM_LENGTH = 16 << 20
Row = dict[str, Any]
_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "int": pa.int32(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}


def arrow_schema(columns: str) -> pa.Schema:
    return pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in columns.split(", "))])


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
    parser.add_argument("--log-bytes", type=int, default=128 << 20)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="upheaval-bench-") as name:
        make_recording(Path(name) / "run", options.log_bytes)
        found = {"decoding": decoding(Path(name) / "run")}
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
