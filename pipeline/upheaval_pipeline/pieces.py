"""Cuts the log of a member into pieces that tasks read apart from each other.

Where a frame begins is known only from the frame before it, back to the begin of its term: a payload, or what an
overwritten log left under a padding frame, can look exactly like a header. A piece that begins within a term therefore
follows the lengths of the frames from the begin of the term to its own first frame, which costs a tenth of decoding
them, and a term is cut into few pieces. A piece begins and ends where a message begins, so that no message is cut.
This module knows nothing of what frames say beyond their headers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.records import RunFolder
from upheaval_pipeline.frames import ALIGNMENT, Terms, read_frames

PIECES_OF_A_TERM = 8
PIECE_MIN, PIECE_MAX = 1 << 20, 1 << 22
_PIECES_OF_A_LOG = 8
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Piece:
    """A range of a member's log in one segment file."""

    folder: str
    run: str
    member: int
    recording_id: int
    start_position: int
    terms: Terms
    segment_length: int
    segment_base: int
    from_position: int
    to_position: int

    @property
    def path(self) -> Path:
        """The segment file that has it."""
        archive = RunFolder(Path(self.folder)).member(self.member).archive
        return archive / f"{self.recording_id}-{self.segment_base}.rec"


@dataclass(frozen=True)
class Content:
    """The bytes of a piece from its first frame on. Without a frame in reach `begin` is None."""

    begin: int | None
    data: bytes


def pieces(folder: Path, run: str, member: int, piece_length: int | None) -> list[Piece]:
    """How a member's log is cut up. Raises `LogMissing` when there is no log to be found."""
    log = RecordedLog(RunFolder(folder).member(member))
    terms = Terms(log.initial_term_id, log.term_length, log.start_position)
    archive = RunFolder(folder).member(member).archive
    sizes: list[tuple[int, int]] = []
    base = log.start_position - log.start_position % log.term_length
    while (path := archive / f"{log.recording_id}-{base}.rec").exists():
        sizes.append((base, min(path.stat().st_size, log.segment_length)))
        base += log.segment_length
    wanted = piece_length or sum(size for _, size in sizes) // _PIECES_OF_A_LOG
    if piece_length is None:
        wanted = min(max(wanted, PIECE_MIN), PIECE_MAX)
    head = (str(folder), run, member, log.recording_id, log.start_position, terms, log.segment_length)
    return [
        Piece(*head, base, max(begin, log.start_position), end)
        for base, size in sizes
        for begin, end in _ranges(base, size, log.segment_length, log.term_length, wanted)
        if end > log.start_position
    ]


def read_piece(piece: Piece) -> Content:
    """Raises `OSError` when the file cannot be read."""
    with piece.path.open("rb") as stream:
        begin: int | None = piece.from_position
        if _is_within_term(piece, piece.from_position):
            term_begin = piece.from_position - piece.from_position % piece.terms.term_length
            begin = _message_begin(stream, piece, max(term_begin, piece.start_position), piece.from_position)
        if begin is None:
            return Content(None, b"")
        end: int | None = piece.to_position
        if piece.to_position % piece.terms.term_length:
            end = _message_begin(stream, piece, begin, piece.to_position)
        stream.seek(begin - piece.segment_base)
        data = stream.read(max((piece.to_position if end is None else end) - begin, 0))
        return Content(begin, data[: len(data) & -ALIGNMENT])


def _is_within_term(piece: Piece, position: int) -> bool:
    return position % piece.terms.term_length != 0 and position != piece.start_position


def _ranges(base: int, size: int, segment_length: int, term_length: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Whole terms where several fit into a piece, otherwise equal parts of a term."""
    if wanted >= term_length:
        step = wanted // term_length * term_length
    else:
        step = term_length // min(PIECES_OF_A_TERM, -(-term_length // wanted)) & -ALIGNMENT
    begin = base
    while begin < base + size:
        term_end = begin - begin % term_length + term_length
        end = begin + step
        if step < term_length and term_end - end < step:
            end = term_end  # the last part of a term takes what is left
        end = min(end, base + segment_length)
        yield begin, end
        begin = end


def _message_begin(stream: BinaryIO, piece: Piece, start: int, target: int) -> int | None:
    """The first position from `target` on at which a message begins or the frames end; None when they end before it.

    A frame begins at `start`, and `target` is in the same term.
    """
    position = start
    term_end = target - target % piece.terms.term_length + piece.terms.term_length
    while position < term_end:
        stream.seek(position - piece.segment_base)
        frames = read_frames(stream.read(min(_BLOCK, term_end - position)), position, piece.terms)
        positions: Any = frames.offsets + position
        there = np.flatnonzero((positions >= target) & frames.begins_message)
        if len(there):
            return int(positions[there[0]])
        position += frames.next_offset
        if frames.is_broken or frames.next_offset < len(frames.data) or not len(frames.data):
            break
    return min(position, term_end) if position >= target else None
