"""Compares two recorded logs piece by piece, wherever their segments begin, and computes the digest of one.

Logs are in canonical form (see `recordings`), so equal logs are equal bytes. This module knows no promise.
"""

import hashlib
import sys
from collections.abc import Iterator

from upheaval.checkers.evidence.recordings import RecordedLog, Segment, frame_end


class _Pieces:
    """The content of one log from a position on, within its current segment."""

    def __init__(self, log: RecordedLog) -> None:
        self._segments: Iterator[Segment] = log.segments()
        self.segment: Segment | None = next(self._segments, None)

    def end_after(self, position: int) -> int:
        """The end of the segment that holds this position; the position itself at the end of the log."""
        while self.segment is not None and self.segment.base + self.segment.end <= position:
            self.segment = next(self._segments, None)
        return position if self.segment is None else self.segment.base + self.segment.end

    def take(self, start: int, end: int) -> memoryview:
        """Bytes of the current segment."""
        assert self.segment is not None
        return memoryview(self.segment.data)[start - self.segment.base : end - self.segment.base]


def first_difference(one: RecordedLog, other: RecordedLog, start: int, limit: int) -> tuple[Segment, int] | None:
    """The first frame at which the two logs differ between two positions: the segment of `one` and the offset in it.

    None if both are equal as far as both reach. `start` must be the beginning of a frame in both.
    """
    ones, others = _Pieces(one), _Pieces(other)
    position = start
    while position < limit:
        end = min(limit, ones.end_after(position), others.end_after(position))
        if end == position:
            return None
        left, right = ones.take(position, end), others.take(position, end)
        if left != right:
            segment = ones.segment
            assert segment is not None
            return segment, _frame_at_difference(segment, others, position, end)
        position = end
    return None


def _frame_at_difference(segment: Segment, others: _Pieces, start: int, end: int) -> int:
    """The offset of the first frame that differs. It may begin before the piece."""
    for offset in segment.offsets:
        begin, stop = max(segment.base + offset, start), min(segment.base + frame_end(segment, offset), end)
        frame = segment.data[begin - segment.base : max(stop - segment.base, 0)]
        if begin < stop and frame != bytes(others.take(begin, stop)):
            return offset
    return start - segment.base


def log_digest(log: RecordedLog, start: int, limit: int = sys.maxsize) -> str:
    """The SHA-256 of a log between two positions. Without a limit, this finds the end of the log."""
    whole = hashlib.sha256()
    pieces = _Pieces(log)
    position = start
    while position < limit:
        end = min(limit, pieces.end_after(position))
        if end == position:
            break
        whole.update(pieces.take(position, end))
        position = end
    return whole.hexdigest()
