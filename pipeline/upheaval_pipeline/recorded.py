"""The rows of a piece of a member's recorded log: every frame, and what the message that it ends says.

Columns are made for all frames of a piece at once, with numpy and Arrow; what is rare (messages of several frames, the
cluster's own messages, values that are not plain) goes through Python one by one. The last row of a piece has kind
`extent`: how far its frames reach, and why not further. Written from the file formats like
`upheaval.checkers.evidence.recordings`, whose reading of catalog and recording log is used; no Spark.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from upheaval.checkers.evidence.log_messages import OLDEST_VERSION, decode_message, is_session_message
from upheaval.checkers.evidence.logs import UNREADABLE, message_facts
from upheaval.checkers.evidence.recordings import FLAG_BEGIN, FLAG_END, FRAME_HEADER_LENGTH, TYPE_DATA
from upheaval.errors import HarnessError
from upheaval.records import Function, call_digest, decode_operation
from upheaval.records.utf8 import storable
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import session_header
from upheaval_node.service.services import encoding
from upheaval_pipeline.frames import Frames, fingerprints, whole_frames
from upheaval_pipeline.pieces import Piece, read_piece
from upheaval_pipeline.tables import RECORDING, Row, canonical, reject_row

_REQUEST: Final = FRAME_HEADER_LENGTH + session_header.LENGTH
_REQUEST_LENGTH: Final = 20
_WHOLE: Final = FLAG_BEGIN | FLAG_END
_PLAIN: Final = rb'^(null|true|false|0|-?[1-9][0-9]{0,15}|"[ !#-\[\]-~]*")\z'
"""JSON that is its own canonical form."""
_FUNCTIONS: Final[Mapping[int, Function]] = {
    encoding.Operation.READ: Function.READ,
    encoding.Operation.WRITE: Function.WRITE,
    encoding.Operation.COMPARE_AND_SET: Function.CAS,
    encoding.Operation.APPEND: Function.APPEND,
    encoding.Operation.READ_LIST: Function.LIST,
    encoding.Operation.ECHO: Function.ECHO,
}
_KINDS: Final = pa.array(["padding", "frame", "message"])
_PADDING, _FRAME, _MESSAGE = range(3)
_MESSAGE_COLUMNS: Final = ("type", "fields", "operation_id", "f", "key", "value")
_MessageRow = tuple[str | int | None, ...]
_NOTHING: Final[_MessageRow] = (None,) * len(_MESSAGE_COLUMNS)


def recording_batches(piece: Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The frames of a piece in order, then its extent."""
    try:
        content = read_piece(piece)
    except OSError as error:
        reason = f"cannot read the log of member {piece.member}: {error.strerror}"
        yield _extent(piece, piece.from_position, piece.from_position, reason, schema)
        return
    if content.begin is None:
        yield _extent(piece, piece.from_position, piece.from_position, None, schema)
        return
    frames, fault = whole_frames(content.data, content.begin, piece.terms)
    if len(frames.offsets):
        yield _batch(piece, frames, schema)
    yield _extent(piece, content.begin, content.begin + frames.next_offset, fault, schema)


def missing_log_row(run: str, member: int, error: HarnessError) -> Row:
    """The row of a member whose log cannot be found."""
    return reject_row(RECORDING, (run, member), None, str(error))


def _batch(piece: Piece, frames: Frames, schema: pa.Schema) -> pa.RecordBatch:
    count = len(frames.offsets)
    positions = frames.offsets + frames.begin
    payloads, kinds = _payloads(frames)
    columns: dict[str, Any] = {
        "position": positions,
        "end_position": positions + frames.aligned,
        "term_id": frames.term_ids,
        "session_id": frames.session_ids,
        "stream_id": frames.stream_ids,
        "flags": frames.flags,
        "length": frames.lengths,
        "reserved": frames.reserved,
        "kind": pa.DictionaryArray.from_arrays(pa.array(kinds), _KINDS).dictionary_decode(),
        "payload": payloads,
        "digest": fingerprints(frames),
        **dict(zip(_MESSAGE_COLUMNS, _message_columns(frames, kinds, payloads), strict=True)),
    }
    fixed = {**_place(piece), "from_position": frames.begin, "_reject": None}
    arrays = [
        pa.repeat(pa.scalar(fixed[field.name], field.type), count)
        if field.name in fixed
        else _array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _place(piece: Piece) -> dict[str, Any]:
    """What all rows of a piece have in common."""
    return {name: getattr(piece, name) for name in ("run", "member", "recording_id", "start_position", "to_position")}


def _array(column: Any, kind: pa.DataType) -> pa.Array:
    return column if isinstance(column, pa.Array) else pa.array(column, kind)


def _payloads(frames: Frames) -> tuple[list[bytes | None], Any]:
    """The payload of the message that each frame ends, and what kind of row each frame is."""
    data = frames.data
    edges = frames.flags & _WHOLE
    single = (frames.types == TYPE_DATA) & (edges == _WHOLE)
    begins = (frames.offsets + FRAME_HEADER_LENGTH).tolist()
    ends = (frames.offsets + frames.lengths).tolist()
    kinds = np.where(single, _MESSAGE, _PADDING).astype(np.int32)
    if single.all():
        return [data[a:b] for a, b in zip(begins, ends, strict=True)], kinds
    payloads: list[bytes | None] = [
        data[a:b] if whole else None for a, b, whole in zip(begins, ends, single.tolist(), strict=True)
    ]
    parts: list[bytes] = []
    for number in np.flatnonzero((frames.types == TYPE_DATA) & ~single).tolist():
        kinds[number] = _FRAME
        if edges[number] & FLAG_BEGIN:
            parts.clear()
        parts.append(data[begins[number] : ends[number]])
        if edges[number] & FLAG_END:
            kinds[number], payloads[number] = _MESSAGE, b"".join(parts)
            parts.clear()
    return payloads, kinds


def _message_columns(frames: Frames, kinds: Any, payloads: Sequence[bytes | None]) -> list[pa.Array]:
    """Type, fields as JSON, and operation id, function, key and value where the message holds an operation."""
    plain, columns = _plain_operations(frames, kinds)
    rare = np.flatnonzero((kinds == _MESSAGE) & ~plain)
    messages = [_message_row(payloads[number] or b"") for number in rare.tolist()]
    place: Any = np.zeros(len(kinds), np.int64)
    place[plain] = 1 + np.arange(int(plain.sum()))
    place[rare] = 1 + int(plain.sum()) + np.arange(len(rare))
    if plain.all():
        return columns
    arrays = []
    for index, column in enumerate(columns):
        others = pa.array([one[index] for one in (_NOTHING, *messages)], column.type)
        both = pa.concat_arrays([others.slice(0, 1), column, others.slice(1)])
        arrays.append(both.take(pa.array(place)))
    return arrays


def _plain_operations(frames: Frames, kinds: Any) -> tuple[Any, list[pa.Array]]:
    """Which frames are a whole operation of a shipped service with plain values, and their columns."""
    data, count = frames.data, len(frames.offsets)
    lengths = frames.lengths - _REQUEST - _REQUEST_LENGTH
    likely = (kinds == _MESSAGE) & (frames.flags & _WHOLE == _WHOLE) & (lengths >= 0)
    longs, words = np.frombuffer(data, "<i8"), np.frombuffer(data, "<i4")
    # A frame that is too short for an operation is looked at where the first one is, and left out.
    at = np.where(likely, frames.offsets, 0 if not count else frames.offsets[0])
    likely &= at + _REQUEST + _REQUEST_LENGTH <= len(data)
    at = np.where(likely, at, 0)
    if not likely.any():
        return likely, _no_columns()
    code_word = words[at + _REQUEST + 8 >> 2]
    codes, key_lengths = code_word & 0xFF, code_word >> 16 & 0xFFFF
    values, expected = words[at + _REQUEST + 12 >> 2], words[at + _REQUEST + 16 >> 2]
    likely &= (
        _is_session_header(longs[at + FRAME_HEADER_LENGTH >> 3])
        & (code_word >> 8 & 0xFF == encoding.VERSION)
        & np.isin(codes, [int(code) for code in _FUNCTIONS])
        # Messages of the services themselves have negative numbers in the place of a session.
        & (longs[(at + FRAME_HEADER_LENGTH >> 3) + 2] >= 0)
        & (key_lengths <= encoding.MAX_KEY_LENGTH)
        & (values >= encoding.ABSENT)
        & (values <= encoding.MAX_VALUE_LENGTH)
        & (expected >= encoding.ABSENT)
        & (expected <= encoding.MAX_VALUE_LENGTH)
        & (key_lengths + np.maximum(values, 0) + np.maximum(expected, 0) == lengths)
    )
    key_begin = at + _REQUEST + _REQUEST_LENGTH
    value_begin = key_begin + key_lengths
    expected_begin = value_begin + np.maximum(values, 0)
    known = np.flatnonzero(likely)
    keys = _slices(data, key_begin[known], key_lengths[known])
    new, is_plain = _texts(data, value_begin[known], values[known])
    old, is_plain_too = _texts(data, expected_begin[known], expected[known])
    cas = pa.array(codes[known] == int(encoding.Operation.COMPARE_AND_SET))
    value = pc.if_else(cas, pc.binary_join_element_wise("[", old, ",", new, "]", ""), new)
    good = pc.and_(pc.and_(is_plain, is_plain_too), pc.match_substring_regex(keys, rb"^[ -~]*\z"))
    plain: Any = np.zeros(count, bool)
    plain[known] = good.to_numpy(zero_copy_only=False)
    chosen = np.flatnonzero(plain)
    header = longs[(at[chosen] + FRAME_HEADER_LENGTH >> 3)[:, None] + np.array([[1, 2, 3]])]
    return plain, [
        pa.repeat(pa.scalar("SessionMessage"), len(chosen)),
        _header_fields(*(pa.array(header[:, column]).cast(pa.string()) for column in range(3))),
        pa.array(longs[at[chosen] + _REQUEST >> 3]),
        _function_names(codes[chosen]),
        keys.filter(good).cast(pa.string()),
        value.filter(good),
    ]


def _is_session_header(word: Any) -> Any:
    """`is_session_message` on columns."""
    return (word & session_header.ANY_VERSION_MASK == session_header.ANY_VERSION_WORD) & (
        (word >> session_header.VERSION_SHIFT & 0xFFFF) >= OLDEST_VERSION
    )


def _no_columns() -> list[pa.Array]:
    return [pa.array([], pa.int64() if name == "operation_id" else pa.string()) for name in _MESSAGE_COLUMNS]


def _slices(data: bytes, begins: Any, lengths: Any) -> pa.Array:
    return pa.array(
        [data[a : a + n] for a, n in zip(begins.tolist(), lengths.tolist(), strict=True)],
        pa.binary(),
    )


def _texts(data: bytes, begins: Any, lengths: Any) -> tuple[pa.Array, pa.Array]:
    """JSON texts, `null` for those that are absent, and whether each is in canonical form."""
    if (lengths < 0).all():
        return pa.repeat(pa.scalar("null"), len(begins)), pa.repeat(pa.scalar(True), len(begins))
    texts = _slices(data, begins, np.maximum(lengths, 0))
    texts = pc.if_else(pa.array(lengths < 0), pa.scalar(b"null"), texts)
    plain = pc.match_substring_regex(texts, _PLAIN)
    return pc.if_else(plain, texts, pa.scalar(b"null")).cast(pa.string()), plain


def _function_names(codes: Any) -> pa.Array:
    """Through a table of all codes, because they are few."""
    names = pa.array([_FUNCTIONS[code].value if code in _FUNCTIONS else None for code in range(1 + max(_FUNCTIONS))])
    return names.take(pa.array(codes))


def _header_fields(term: pa.Array, session: pa.Array, timestamp: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(
        '{"leadership_term_id":', term, ',"cluster_session_id":', session, ',"timestamp":', timestamp, "}", ""
    )


def _message_row(message: bytes) -> _MessageRow:
    """The columns of one message of any kind."""
    facts = message_facts(message)
    if is_session_message(message):
        if "credit" in facts:
            return "ServiceMessage", json.dumps(facts), None, None, None, None
        header, payload = json.dumps(facts, separators=(",", ":")), message[session_header.LENGTH :]
        try:
            number, function, key, value = decode_operation(payload)
        except DecodeError:
            return "SessionMessage", header, None, Function.CALL.value, None, canonical(call_digest(payload))
        return "SessionMessage", header, number, function.value, storable(key), canonical(value)
    if UNREADABLE in facts:
        return UNREADABLE, json.dumps(facts), None, None, None, None
    decoded = decode_message(message)
    return _NOTHING if decoded is None else (type(decoded).__name__, json.dumps(facts), None, None, None, None)


def _extent(piece: Piece, begin: int, end: int, fault: str | None, schema: pa.Schema) -> pa.RecordBatch:
    row: dict[str, Any] = {
        **_place(piece),
        "from_position": begin,
        "position": begin,
        "end_position": end,
        "kind": "extent",
        "fields": canonical({"segment_length": piece.segment_length}),
        "_reject": fault and storable(fault),
    }
    return pa.RecordBatch.from_pylist([row], schema=schema)
