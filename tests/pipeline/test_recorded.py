"""Recordings in pieces: the same frames however they are cut, also where payloads look like headers. No Spark."""

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from support.built_runs import (
    INITIAL_TERM_ID,
    SEGMENT_LENGTH,
    TERM_LENGTH,
    LogBuilder,
    good_run,
    session_message,
    write_log,
)
from upheaval.checkers.evidence.recordings import RecordedLog, messages
from upheaval.records import Function, Json, MemberFolder, RunFolder, encode_operation
from upheaval_pipeline.pieces import pieces
from upheaval_pipeline.recorded import recording_batches
from upheaval_pipeline.run_parts import READERS
from upheaval_pipeline.tables import RECORDING, canonical

_TYPES = {"string": pa.string(), "long": pa.int64(), "int": pa.int32(), "binary": pa.binary()}
SCHEMA = pa.schema([(name, _TYPES[kind]) for name, kind in (column.split() for column in RECORDING.split(", "))])


def rows_of(folder: Path, piece: int | None) -> list[dict[str, Any]]:
    found = pieces(folder, "run", 0, piece)
    batches = [batch for one in found for batch in recording_batches(one, SCHEMA)]
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist()
    return rows


def linked(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int, str | None]:
    """The frames as far as extents follow each other, where that is, and why it is not further."""
    extents = sorted((r for r in rows if r["kind"] == "extent"), key=lambda r: (r["from_position"], r["to_position"]))
    end, fault = extents[0]["from_position"], None
    for extent in extents:
        if extent["from_position"] != end:
            break
        end, fault = extent["end_position"], extent["_reject"]
    return [r for r in rows if r["kind"] != "extent" and r["end_position"] <= end], end, fault


def written(folder: Path, payloads: list[bytes]) -> LogBuilder:
    log = LogBuilder()
    for payload in payloads:
        log.append(payload)
    member = folder / "member-0"
    member.mkdir(parents=True)
    write_log(member, 0, b"".join(log.blocks), session_id=7)
    return log


def read_in_process(folder: Path) -> tuple[list[tuple[int, bytes]], int, str | None]:
    log = RecordedLog(MemberFolder(folder / "member-0", 0))
    said = [(end, bytes(message)) for segment in log.segments() for end, message in messages(segment)]
    return said, log.end_position, log.fault


def header(position: int, length: int, kind: int, flags: int) -> bytes:
    """A header exactly as one of this log at a position would be."""
    term = INITIAL_TERM_ID + position // TERM_LENGTH
    term_id = (term + 0x80000000 & 0xFFFFFFFF) - 0x80000000
    return struct.pack("<iBBHiiiiq", length, 0, flags, kind, position % TERM_LENGTH, 7, 100, term_id, 0)


@st.composite
def deceiving_payloads(draw: st.DrawFn) -> list[bytes]:
    """Payloads full of headers that are right for the place at which they lie, with lengths that lead anywhere."""
    log, payloads = LogBuilder(), []
    for _ in range(draw(st.integers(1, 60))):
        count = draw(st.integers(0, 90))
        begin = log.position + 32
        body = b""
        if draw(st.booleans()):
            length = draw(st.sampled_from([32, 64, 96, 1024, 40, 5000]))
            kind, flags = draw(st.sampled_from([(1, 0xC0), (1, 0x80), (1, 0x40), (1, 0), (0, 0xC0)]))
            body = b"".join(header(begin + 32 * number, length, kind, flags) for number in range(count))
        else:
            body = draw(st.binary(max_size=count * 8))
        payloads.append(body or b"-")
        log.append(payloads[-1])
    return payloads


@settings(max_examples=60, deadline=None)
@given(deceiving_payloads(), st.sampled_from([1000, 8192, 16384, 40_000, None]), st.integers(0, 3))
def test_pieces_hold_what_one_reader_sees(payloads: list[bytes], piece: int | None, cut: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        log = written(folder, payloads)
        segment = folder / "member-0" / "archive" / "0-0.rec"
        if cut:  # something that is no frame, or nothing at all, where a frame was
            position = 32 * (cut * log.position // 4 // 32)
            data = bytearray(segment.read_bytes())
            data[position : position + 8] = bytes(8) if cut == 1 else b"\x40\0\0\0\7\7\7\7"
            segment.write_bytes(data)
        said, end, fault = read_in_process(folder)
        frames, piece_end, piece_fault = linked(rows_of(folder, piece))
        assert (piece_end, piece_fault) == (end, fault)
        assert [(r["end_position"], r["payload"]) for r in frames if r["kind"] == "message"] == said


def test_a_term_is_several_pieces(tmp_path: Path) -> None:
    written(tmp_path, [b"x" * 100] * 300)
    found = pieces(tmp_path, "run", 0, 8192)
    assert len([piece for piece in found if piece.from_position < TERM_LENGTH]) == 8
    frames, end, fault = linked(rows_of(tmp_path, 8192))
    assert len(frames) == 300
    assert len({frame["from_position"] for frame in frames}) > 4
    assert (end, fault) == (300 * 160, None)


def test_what_was_overwritten_by_padding_is_no_frame(tmp_path: Path) -> None:
    """The frames of a log that was cut stay in the file under the padding that replaced them."""
    written(tmp_path, [b"x" * 100] * 300)
    segment = tmp_path / "member-0" / "archive" / "0-0.rec"
    data = bytearray(segment.read_bytes())
    data[3200:3232] = header(3200, TERM_LENGTH - 3200, 0, 0xC0)
    segment.write_bytes(data)
    frames, end, _ = linked(rows_of(tmp_path, 8192))
    assert [frame["position"] for frame in frames] == [*range(0, 3200, 160), 3200]
    assert end == TERM_LENGTH == read_in_process(tmp_path)[1]


@pytest.mark.parametrize("echo_length", [0, 4000])
def test_both_ways_to_read_say_the_same_of_each_message(tmp_path: Path, echo_length: int) -> None:
    """Columns for what is plain, one by one for the rest: the operations are those that were encoded."""
    count = 600
    built = good_run(count, echo_length=echo_length)
    run = built.write(tmp_path)
    by_id = {o.id: o for o in built.operations}
    frames, end, fault = linked(rows_of(run.path, 8192))
    assert fault is None
    assert end == built.end_positions[0]
    operations = [f for f in frames if f["operation_id"] is not None]
    assert len(operations) == sum(1 for o in built.operations if o.position or o.id % 40 == 19)
    for row in operations:
        sent = by_id[row["operation_id"]]
        assert (row["f"], row["key"], row["value"]) == (sent.f, sent.key, canonical(sent.value))
        term = int(sent.id >= count // 2)  # the leader changes in the middle
        assert row["fields"] == f'{{"leadership_term_id":{term},"cluster_session_id":1,"timestamp":1000}}'


VALUES: list[Json] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "plain",
    'qu"ote',
    "\u00fc",
    [1, [2]],
    {"b": 1, "a": None},
    1e300,
    "\\",
]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("function", [Function.WRITE, Function.CAS, Function.ECHO])
def test_values_of_every_kind_come_out_canonical(tmp_path: Path, value: Json, function: Function) -> None:
    sent: Json = [None, value] if function is Function.CAS else value
    key = "k\u00e4y" if value == "" else "key"
    written(tmp_path, [session_message(encode_operation(5, function, key, sent)), session_message(b"not ours")])
    frames, _, _ = linked(rows_of(tmp_path, None))
    assert [(f["operation_id"], f["f"], f["key"]) for f in frames] == [(5, function, key), (None, "call", None)]
    assert frames[0]["value"] == canonical(sent)


def test_fingerprints_tell_frames_apart_and_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    written(first, [b"a" * 64 + b"b" * 64, b"same", b"x" * 5000])
    written(second, [b"b" * 64 + b"a" * 64, b"same", b"x" * 4999 + b"y"])
    ours, others = (linked(rows_of(folder, None))[0] for folder in (first, second))
    equal = [a["digest"] == b["digest"] for a, b in zip(ours, others, strict=True)]
    assert equal == [False, True, True, True, True, False]
    data = bytearray((first / "member-0" / "archive" / "0-0.rec").read_bytes())
    data[12:16] = b"\1\2\3\4"  # a session id
    (first / "member-0" / "archive" / "0-0.rec").write_bytes(data)
    assert linked(rows_of(first, None))[0][0]["digest"] == ours[0]["digest"]


def test_a_file_that_cannot_be_read_is_an_extent_that_says_so(tmp_path: Path) -> None:
    written(tmp_path, [b"x" * 100] * (SEGMENT_LENGTH // 160 + 100))
    found = pieces(tmp_path, "run", 0, None)
    (tmp_path / "member-0" / "archive" / f"0-{SEGMENT_LENGTH}.rec").unlink()
    rows = [row for one in found for batch in recording_batches(one, SCHEMA) for row in batch.to_pylist()]
    assert any("cannot read the log of member 0" in str(row["_reject"]) for row in rows)


def rows_of_trace(folder: Path, lines: Iterable[str]) -> list[dict[str, Any]]:
    """Of member 0 of a run with these lines."""
    good_run(40).write(folder)
    text = "".join(f"{line}\n" for line in lines)
    RunFolder(folder).member(0).trace.write_text(text, encoding="utf-8")
    reader = READERS["trace"]()
    parts = [part for part in reader.parts(folder, "run") if part.member == 0]
    return [row for batch in reader.read(parts) for row in batch.to_pylist()]


def test_fields_that_do_not_fit_their_columns_are_null(tmp_path: Path) -> None:
    fields = {"pid": 1 << 63, "epoch_ms": -(1 << 63), "role": 5, "message": ["a"], "leader_member_id": True}
    lines = [{"ts": 1, "event": "fits", "pid": 7}, {"ts": 2, "event": "odd", **fields}, {"ts": 1 << 63, "event": "bad"}]
    first, odd, bad = rows_of_trace(tmp_path, map(json.dumps, lines))
    assert (first["pid"], odd["epoch_ms"]) == (7, -(1 << 63))
    assert [name for name in fields if odd[name] is not None] == ["epoch_ms"]
    assert json.loads(odd["fields"]) == lines[1]
    assert bad["ts"] is None
    assert bad["_reject"].endswith("trace.jsonl:3: the integer 9223372036854775808 does not fit into 64 bits")


def test_the_fields_of_a_trace_are_its_lines_with_each_name_once(tmp_path: Path) -> None:
    line = '{"ts":1, "event":"caf\u00e9","b":1.0e3,"a":[2]}'
    repeated = ('{"ts":2,"event":"e","state":"A","state":"B"}', '{"ts":3,"event":"e","n":{"a":1,"a":2}}')
    fields = [row["fields"] for row in rows_of_trace(tmp_path, [line, *repeated])]
    assert fields == [line, '{"event":"e","state":"B","ts":2}', '{"event":"e","n":{"a":2},"ts":3}']
