"""The tables of the pipeline: their columns, and the rows that one piece of a run's files turns into.

Plain Python without Spark; `run_parts` makes record batches of these rows. A line or file that is malformed becomes a
row whose `_reject` says file, line and reason, and whose other columns, apart from those of its place, are empty.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from upheaval.campaign.seed_lines import Fate
from upheaval.errors import HarnessError
from upheaval.records import (
    TRACE_START,
    FieldError,
    Json,
    Outcome,
    RunFolder,
    jsonfields,
    parse_fault,
    parse_operation,
)
from upheaval.records.labels import read_labels
from upheaval.records.utf8 import storable
from upheaval.runtime_names import SIMULATED
from upheaval_chaos.record import Proof

Row = tuple[Any, ...]

REJECT: Final = "_reject"
"""The column that says why something could not be read."""
HISTORY = (
    "run string, line long, id long, process long, f string, key string, value string, invoke_ns long, "
    "complete_ns long, outcome string, result string, position long, session long, _reject string"
)
_PROOF = "struct<holds:boolean,evidence:string>"
FAULTS = (
    "run string, line long, what string, where string, inject_begin_ns long, inject_end_ns long, "
    "heal_begin_ns long, heal_end_ns long, "
    f"inject_proof {_PROOF}, heal_proof {_PROOF}, members array<long>, component string, name string, "
    "statement string, inject_operations long, heal_operations long, is_drawn boolean, _reject string"
)
TRACE = (
    "run string, member int, line long, ts long, epoch_ms long, event string, component string, pid long, "
    "role string, message string, leadership_term_id long, leader_member_id long, fields string, _reject string"
)
PROTOCOL = (
    "run string, member int, file string, line long, n long, ts long, epoch_ms long, event string, component string, "
    "pid long, stream_id long, stream string, to long, peer string, position long, message string, fields string, "
    "_reject string"
)
RECORDING = (
    "run string, member int, recording_id long, start_position long, from_position long, to_position long, "
    "position long, end_position long, term_id int, session_id int, stream_id int, flags int, length int, "
    "reserved long, kind string, type string, fields string, payload binary, digest long, operation_id long, f string, "
    "key string, value string, _reject string"
)
RUNS = (
    "run string, folder string, runtime string, members int, profile string, sync_level int, seed long, "
    "created string, host string, converged boolean, manifest string, controls string, scenario string, "
    "labels map<string, string>, ingested string, ingested_by string"
)
REJECTS = "run string, source string, member int, line long, reason string"
_COUNTS: Final = f"map<string, struct<{', '.join(f'{fate.value}: bigint' for fate in Fate)}>>"
SEED_LINE: Final = (
    "seed bigint, runtime string, system string, version string, service string, members int, sync_level int, "
    "verdict string, promise string, detail string, findings array<string>, inconclusive boolean, "
    "processor_seconds double, operations bigint, elections bigint, snapshots bigint, endings bigint, "
    f"faults array<string>, fault_counts {_COUNTS}, moves map<string, bigint>, folder string, tape string, "
    "own_service string"
)
"""What a line of a campaign has, of simulated seeds or of live ones."""
CHOICES: Final = "array<struct<span:string,number:int,label:string,value:string>>"
SEEDS: Final = (
    f"run string, {SEED_LINE}, seconds double, schedule string, smallest string, choices {CHOICES}, ingested string, "
    "_reject string"
)
VERDICTS: Final = (
    "run string, run_verdict string, folder string, number int, promise string, verdict string, detail string, "
    "late_ms long, members array<int>, position long, operation long, explanation string, "
    "signature string, known_issue int, is_gap boolean, errors string, known_cause string, "
    "when_begin_ns long, when_end_ns long"
)
LAKE_SCHEMAS = {"runs": RUNS, "history": HISTORY, "faults": FAULTS, "trace": TRACE, "recording": RECORDING}
"""Of the tables of a lake that runs are written to. Extents of recordings keep what ended them in `_reject`."""
VERDICTS_NAME, SEEDS_NAME = "verdicts", "seeds"
_MADE: Final = "contents string, made_by string"
"""A digest of what the rows of a run were made of, and one of the code that made them."""
STORED: Final = {
    **{name: f"{columns}, batch string" for name, columns in LAKE_SCHEMAS.items()},
    "runs": f"{RUNS}, {_MADE}, unreadable string, counts map<string, bigint>, batch string",
    VERDICTS_NAME: f"{VERDICTS}, {_MADE}, batch string",
    SEEDS_NAME: f"{SEEDS}, {_MADE}, batch string",
}
"""Of the Delta tables of a lake: what queries see, and by which ingest or judgement a row was written (`lake`)."""

ROWS: Final = {
    "runs": "a run: its manifest, the commands of operators as JSON text, its labels; when and by which version it was "
    "ingested",
    "history": "an operation: what was asked, when, and what came of it",
    "faults": "a fault or what else was done to the cluster, with its evidence",
    "trace": "an event of a member; `fields` is its line, as JSON text",
    "recording": "a frame of a member's log; `fields` is JSON text",
    "rejects": "a line or file that could not be read",
    "verdicts": "a promise of a run and the finding on it, without a verdict where the promise was not checked; or why "
    "the run cannot be judged",
    "seeds": "a seed of a campaign: what was drawn, what came of it, and the schedules that are kept of it; `tape` is"
    " JSON text, the file `tape.json` of its run folder; `ingested` is the first ingest of the campaign, which has no"
    " other time",
}
"""What a row of each table is that queries see."""
BATCH: Final = 4096
_CANONICAL: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, check_circular=False)
_INT64 = 1 << 63
_Lines = Iterator[tuple[int, bytes]]


def _array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """A column. A name of a file need not be UTF-8, and is in paths, reasons and findings."""
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array(map(_with_storable_text, values), kind)


def fitting(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """A column of integers or texts, null where a value is none or does not fit into 64 bits."""
    wanted = str if kind == pa.string() else int
    if {*map(type, values)} <= {wanted, type(None)}:
        with suppress(OverflowError):
            return _array(values, kind)
    return _array([value if type(value) is wanted and _is_stored(value) else None for value in values], kind)


def _is_stored(value: int | str) -> bool:
    return isinstance(value, str) or -_INT64 <= value < _INT64


def batches(
    rows: Iterable[Row], schema: pa.Schema, array: Callable[[Row, pa.DataType], pa.Array] = _array
) -> Iterator[pa.RecordBatch]:
    """Rows in columns, so many at a time."""
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        columns = zip(*batch, strict=True)
        arrays = [array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_storable_text(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_with_storable_text, value))
    return {key: _with_storable_text(one) for key, one in value.items()} if isinstance(value, dict) else value


def canonical(value: Json) -> str:
    """A JSON value as text, equal exactly for equal values."""
    if value is None:
        return "null"
    return str(value) if type(value) is int else _CANONICAL.encode(value)


def run_id(run: RunFolder) -> str:
    """The run's id in a lake, or the folder's name when the manifest cannot be read."""
    try:
        return readable_run_id(run)
    except HarnessError:
        return storable(run.path.name)


def readable_run_id(run: RunFolder) -> str:
    """The run's id in a lake. Raises `UsageError` when the manifest cannot be read.

    The id of a simulated run is that of its seed and execution, so two commits may have the same one. Here its labels
    are part of it.
    """
    manifest = run.read_manifest()
    labels = _labels_if_readable(run) if manifest.runtime == SIMULATED else None
    return storable(f"{manifest.run_id}-{_digest_of(labels)}" if labels else manifest.run_id)


def _labels_if_readable(run: RunFolder) -> dict[str, str] | None:
    """An ingest refuses others, and a judge does not need them."""
    try:
        return read_labels(run.path)
    except HarnessError:
        return None


def _digest_of(labels: Mapping[str, str]) -> str:
    return hashlib.sha256(_CANONICAL.encode(labels).encode("utf-8", "surrogateescape")).hexdigest()[:8]


def read_lines(path: Path, begin: int = 0, end: int | None = None) -> _Lines:
    """The lines that begin at a byte offset from `begin` to before `end`, each with its own offset."""
    with path.open("rb") as stream:
        if begin:
            stream.seek(begin - 1)
            stream.readline()
        offset = stream.tell()
        while end is None or offset < end:
            line = stream.readline()
            if not line:
                return
            yield offset, line
            offset += len(line)


def line_number(path: Path, offset: int) -> int:
    """The number of the line that begins at a byte offset. Reads the file up to there."""
    number, left = 1, offset
    with path.open("rb") as stream:
        while left and (block := stream.read(min(left, 1 << 20))):
            number += block.count(b"\n")
            left -= len(block)
    return number


def history_rows(folder: Path, run: str, begin: int, end: int | None) -> Iterator[Row]:
    """The operations of a part of a history file. `line` is the byte offset of the line, for rejects its number."""
    path = RunFolder(folder).history_file
    for offset, line in read_lines(path, begin, end):
        try:
            o = parse_operation(_object(line))
            _require_int64(o.id, o.process, o.invoke_ns, o.complete_ns, o.position, o.session)
        except FieldError as error:
            yield _reject(HISTORY, (run,), path, line_number(path, offset), error)
            continue
        yield (
            run,
            offset,
            o.id,
            o.process,
            o.f.value,
            storable(o.key),
            canonical(o.value),
            o.invoke_ns,
            o.complete_ns,
            o.outcome.value,
            canonical(o.result) if o.outcome is Outcome.OK else None,
            o.position,
            o.session,
            None,
        )


def fault_rows(folder: Path, run: str) -> Iterator[Row]:
    """The rows of one run's `faults.jsonl`, numbered from 1."""
    path = RunFolder(folder).faults_file
    for number, (_, line) in enumerate(read_lines(path), start=1):
        try:
            f = parse_fault(_object(line))
            times = (f.inject_begin_ns, f.inject_end_ns, f.heal_begin_ns, f.heal_end_ns)
            _require_int64(*times, f.inject_operations, f.heal_operations, *f.members)
        except FieldError as error:
            yield _reject(FAULTS, (run,), path, number, error)
            continue
        seen = (
            _proof_fields(f.inject_proof),
            _proof_fields(f.heal_proof),
            f.members,
            f.component and storable(f.component),
        )
        described = (storable(f.name), storable(f.statement), f.inject_operations, f.heal_operations, f.is_drawn)
        yield (run, number, storable(f.what), storable(f.where), *times, *seen, *described, None)


def _proof_fields(proof: Proof | None) -> dict[str, Any] | None:
    return None if proof is None else {"holds": proof.holds, "evidence": storable(proof.evidence)}


def trace_rows(folder: Path, run: str, member: int) -> Iterator[Row]:
    """The events of a member, with fields of lines as they are there: `fitting` makes columns of them."""
    path = RunFolder(folder).member(member).trace
    names = _named(TRACE)
    for number, text, entry in _entries(path, TRACE_START):
        if isinstance(entry, FieldError):
            yield _reject(TRACE, (run, member), path, number, entry)
            continue
        # Of a name that is there twice, readers of JSON take different ones; with one colon a name, there is none.
        fields = text if text.count(":") == len(entry) else canonical(entry)
        yield run, member, number, *map(entry.get, names), fields, None


def protocol_rows(folder: Path, run: str, member: int, name: str) -> Iterator[Row]:
    """What one file of a protocol trace holds, as `trace_rows` has its fields."""
    path = RunFolder(folder).member(member).path / name
    names = _named(PROTOCOL)
    for number, _, entry in _entries(path):
        if isinstance(entry, FieldError):
            yield _reject(PROTOCOL, (run, member, name), path, number, entry)
            continue
        yield run, member, name, number, *map(entry.get, names), canonical(entry.get("fields")), None


def _named(columns: str) -> list[str]:
    """The columns between `line` and `fields`, which are fields of a trace's line by their names."""
    names = [name for name, _ in _names_and_kinds(columns)]
    return names[names.index("line") + 1 : names.index("fields")]


def _entries(path: Path, torn_start: bytes | None = None) -> Iterator[tuple[int, str, dict[str, Json] | FieldError]]:
    """The lines of a trace with their numbers: the text and the fields of each, or what is wrong with it.

    A last line that its writer did not finish is left out, as everywhere, and others that begin with `torn_start`.
    """
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                try:
                    text = jsonfields.text_of_line(line)
                    fields = jsonfields.parse_object(text)
                except FieldError:
                    if torn_start is not None and jsonfields.is_torn(line, torn_start):
                        continue
                    raise
                _require_int64(jsonfields.integer(fields, "ts"))
                jsonfields.text(fields, "event")
            except FieldError as error:
                yield number, "", error
            else:
                yield number, text[:-1], fields


def reject_row(columns: str, place: Row, line: int | None, reason: str) -> Row:
    """A row of a table that holds nothing but where something was bad, and why."""
    names = [name for name, _ in _names_and_kinds(columns)]
    values = dict(zip(names, place, strict=False))
    if "line" in names:
        values["line"] = line
    values["_reject"] = reason
    return tuple(values.get(name) for name in names)


@cache
def _names_and_kinds(columns: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, _, kind in (column.partition(" ") for column in columns.split(", "))]


def _object(line: bytes) -> dict[str, Json]:
    return jsonfields.parse_object(jsonfields.text_of_line(line))


def _reject(columns: str, place: Row, path: Path, line: int, error: Exception) -> Row:
    return reject_row(columns, place, line, f"{path}:{line}: {error}")


def _require_int64(*values: int | None) -> None:
    for value in values:
        if value is not None and not -_INT64 <= value < _INT64:
            raise FieldError(f"the integer {str(value)[:30]} does not fit into 64 bits")
