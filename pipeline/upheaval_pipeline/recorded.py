"""The rows of a piece of a member's recorded log: every frame, and what the message that it ends says.

Plain Python without Spark, written from the file formats like `upheaval.checkers.recordings`, whose reading of catalog
and recording log it uses. A piece is a range of whole terms, and no message spans terms, so pieces are read apart. The
last row of a piece has kind `extent`: how far its frames reach, and why not further.
"""

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from upheaval.checkers.recordings import FLAG_BEGIN, FLAG_END, FRAME_HEADER_LENGTH, TYPE_DATA, TYPE_PAD, RecordedLog
from upheaval.errors import HarnessError
from upheaval.run_folder import RunFolder
from upheaval.service_messages import decode_operation
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol import session_header
from upheaval_pipeline.tables import RECORDING, Row, canonical, reject_row, text

_HEADER = struct.Struct("<iBBHiiii")
_HEADER_WORD = session_header.HEADER_WORD.to_bytes(8, "little", signed=True)
_Said = tuple[str | int | None, ...]
_NOTHING: _Said = (None, None, None, None, None, None)


@dataclass(frozen=True)
class Piece:
    """A range of whole terms in one segment file of a member's log."""

    folder: str
    run: str
    member: int
    recording_id: int
    start_position: int
    initial_term_id: int
    term_length: int
    segment_base: int
    from_position: int
    to_position: int


def pieces(folder: Path, run: str, member: int, piece_length: int) -> list[Piece]:
    """How a member's log is cut up. Raises `LogMissing` when there is no log to be found."""
    log = RecordedLog(RunFolder(folder).member(member))
    step = max(piece_length // log.term_length, 1) * log.term_length
    found: list[Piece] = []
    base = log.start_position - log.start_position % log.term_length
    while (path := _segment(folder, member, log.recording_id, base)).exists():
        content_end = base + min(path.stat().st_size, log.segment_length)
        for begin in range(base, content_end, step):
            end = min(begin + step, base + log.segment_length)
            first = max(begin, log.start_position)
            found.append(
                Piece(
                    str(folder),
                    run,
                    member,
                    log.recording_id,
                    log.start_position,
                    log.initial_term_id,
                    log.term_length,
                    base,
                    first,
                    end,
                )
            )
        base += log.segment_length
    return found


def recording_rows(piece: Piece) -> Iterator[Row]:
    """The frames of a piece in order, then its extent."""
    try:
        data = _read(piece)
    except OSError as error:
        reason = f"cannot read the log of member {piece.member}: {error.strerror}"
        yield _extent(piece, piece.from_position, reason)
        return
    parts: list[bytes] = []
    position = piece.from_position
    while position < piece.to_position:
        offset = position - piece.from_position
        if offset + 4 > len(data) or int.from_bytes(data[offset : offset + 4], "little", signed=True) <= 0:
            break
        fault = _fault(piece, data, offset, position)
        if fault:
            yield _extent(piece, position, fault)
            return
        row = _frame_row(piece, data, offset, position, parts)
        position = row[7]
        yield row
    yield _extent(piece, position, None)


def _segment(folder: Path, member: int, recording_id: int, base: int) -> Path:
    return RunFolder(folder).member(member).archive / f"{recording_id}-{base}.rec"


def _read(piece: Piece) -> bytes:
    path = _segment(Path(piece.folder), piece.member, piece.recording_id, piece.segment_base)
    with path.open("rb") as stream:
        stream.seek(piece.from_position - piece.segment_base)
        data = stream.read(piece.to_position - piece.from_position)
    return data[: len(data) & ~31]


def _fault(piece: Piece, data: bytes, offset: int, position: int) -> str | None:
    """Why what lies here is no frame of this log, or None."""
    if offset + FRAME_HEADER_LENGTH > len(data):
        return f"the frame at position {position} is not whole"
    length, version, _, kind, term_offset, _, _, term_id = _HEADER.unpack_from(data, offset)
    expected = piece.initial_term_id + position // piece.term_length
    if (
        length < FRAME_HEADER_LENGTH
        or version
        or kind not in (TYPE_PAD, TYPE_DATA)
        or term_offset != position & (piece.term_length - 1)
        or term_id != (expected + 0x80000000 & 0xFFFFFFFF) - 0x80000000
    ):
        return f"no valid frame at position {position}"
    aligned = length + 31 & -32
    if offset + aligned > len(data) or term_offset + aligned > piece.term_length:
        return f"the frame at position {position} is not whole"
    return None


def _frame_row(piece: Piece, data: bytes, offset: int, position: int, parts: list[bytes]) -> Row:
    length, _, flags, kind, _, session_id, stream_id, term_id = _HEADER.unpack_from(data, offset)
    end = offset + (length + 31 & -32)
    label, said, payload = "padding", _NOTHING, None
    if kind == TYPE_DATA:
        label = "frame"
        if flags & FLAG_BEGIN:
            parts.clear()
        parts.append(data[offset + FRAME_HEADER_LENGTH : offset + length])
        if flags & FLAG_END:
            label, payload = "message", b"".join(parts)
            said = _said(payload)
            parts.clear()
    covered = data[offset : offset + FRAME_HEADER_LENGTH] if kind == TYPE_PAD else data[offset:end]
    return (
        piece.run,
        piece.member,
        piece.recording_id,
        piece.start_position,
        piece.from_position,
        piece.to_position,
        position,
        piece.from_position + end,
        term_id,
        session_id,
        stream_id,
        label,
        *said[:2],
        payload,
        _digest(covered),
        *said[2:],
        None,
    )


def _digest(frame: bytes) -> int:
    """A fingerprint of a frame without its session id, which differs between members."""
    found = hashlib.blake2b(frame[:12], digest_size=8)
    found.update(frame[16:])
    return int.from_bytes(found.digest(), "little", signed=True)


def _said(message: bytes) -> _Said:
    """Type, fields as JSON, and operation id, function, key and value where the message holds an operation."""
    if message[:8] == _HEADER_WORD and len(message) >= session_header.LENGTH:
        term, session, timestamp = session_header.unpack_session_header(message)
        header = f'{{"leadership_term_id":{term},"cluster_session_id":{session},"timestamp":{timestamp}}}'
        try:
            number, function, key, value = decode_operation(message[session_header.LENGTH :])
        except DecodeError:
            return "SessionMessage", header, None, None, None, None
        return "SessionMessage", header, number, function.value, text(key), canonical(value)
    try:
        decoded = cm.SCHEMA.decode(message)
    except DecodeError:
        return _NOTHING
    if decoded is None:
        return _NOTHING
    shown = {field.name: getattr(decoded, field.name) for field in fields(cast(Any, decoded))}
    return type(decoded).__name__, json.dumps(shown, default=_shown), None, None, None, None


def _shown(value: object) -> str:
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _extent(piece: Piece, end: int, fault: str | None) -> Row:
    place = (
        piece.run,
        piece.member,
        piece.recording_id,
        piece.start_position,
        piece.from_position,
        piece.to_position,
        piece.from_position,
        end,
        None,
        None,
        None,
        "extent",
    )
    return reject_row(RECORDING, place, None, fault) if fault else (*place, *([None] * 9))


def missing_log_row(run: str, member: int, error: HarnessError) -> Row:
    """The row of a member whose log cannot be found."""
    return reject_row(RECORDING, (run, member), None, str(error))
