"""Frames of a log as columns: where they begin, what their headers say, a fingerprint of each.

numpy on the bytes of a segment file, from the frame layout alone. This module knows nothing of messages or files.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from upheaval.checkers.evidence.recordings import (
    FLAG_BEGIN,
    FRAME_HEADER_LENGTH,
    TYPE_DATA,
    TYPE_PAD,
    header_fault,
    length_fault,
)

ALIGNMENT: Final = 32
_COLUMNS: Final = ("offsets", "lengths", "flags", "types", "session_ids", "stream_ids", "term_ids")
_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_FACTORS: Final = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


@dataclass(frozen=True)
class Terms:
    """What a frame header has to say, by its position."""

    initial_term_id: int
    term_length: int
    start_position: int = 0


@dataclass(frozen=True)
class Frames:
    """Frames that follow each other. The arrays are as long as there are frames; `words` are the bytes as int32."""

    begin: int
    """The position of the first byte of `data`."""
    data: bytes
    offsets: Any
    lengths: Any
    """As the headers say: without the bytes that align the next frame."""
    flags: Any
    types: Any
    session_ids: Any
    stream_ids: Any
    term_ids: Any
    next_offset: int
    """After the last frame."""
    is_broken: bool
    """Whether the last frame is followed by something that is no frame of this log."""

    @property
    def reserved(self) -> Any:
        """The last eight bytes of each header."""
        return np.frombuffer(self.data, "<i8", len(self.data) >> 3)[(self.offsets >> 3) + 3]

    @property
    def aligned(self) -> Any:
        """Bytes that each frame takes in the log, with those that align the next one."""
        return (self.lengths + (ALIGNMENT - 1)) & -ALIGNMENT

    @property
    def begins_message(self) -> Any:
        """Which frames a message begins with; padding counts as a separate one."""
        return (self.types != TYPE_DATA) | (self.flags & FLAG_BEGIN != 0)

    def first(self, count: int) -> "Frames":
        """The same without the frames from number `count` on, the next of which is no good."""
        columns = {name: getattr(self, name)[:count] for name in _COLUMNS}
        return replace(self, **columns, next_offset=int(self.offsets[count]), is_broken=True)


def read_frames(data: bytes, begin: int, terms: Terms) -> Frames:
    """The frames from the first byte of `data` on, which is at position `begin`; the last one may reach past them."""
    data = data[: len(data) & -ALIGNMENT]
    indexes, end = _walk(data)
    offsets = np.array(indexes, np.int64) * 4
    words = np.frombuffer(data, "<i4")
    index = offsets >> 2
    kinds = words[index + 1]
    lengths = words[index].astype(np.int64)
    flags, types = kinds >> 8 & 0xFF, kinds >> 16
    positions = offsets + begin
    expected = (positions // terms.term_length + terms.initial_term_id + 0x80000000 & 0xFFFFFFFF) - 0x80000000
    good = (
        (lengths >= FRAME_HEADER_LENGTH)
        & (kinds & 0xFF == 0)
        & ((types == TYPE_PAD) | (types == TYPE_DATA))
        & (words[index + 2] == positions % terms.term_length)
        & (words[index + 5] == expected)
    )
    ids = (words[index + 3], words[index + 4], words[index + 5])
    frames = Frames(begin, data, offsets, lengths, flags, types, *ids, next_offset=end * 4, is_broken=False)
    bad = np.flatnonzero(~good)
    return frames.first(int(bad[0])) if len(bad) else frames


def whole_frames(data: bytes, begin: int, terms: Terms) -> tuple[Frames, str | None]:
    """The frames that are in `data` as a whole, and why there are no more when what follows is no frame of this log."""
    frames = read_frames(data, begin, terms)
    ends = frames.offsets + frames.aligned
    fits = (ends <= len(frames.data)) & (
        (frames.offsets + begin) % terms.term_length + frames.aligned <= terms.term_length
    )
    cut = np.flatnonzero(~fits)
    if len(cut):
        first = int(cut[0])
        position, length = int(frames.offsets[first]) + begin, int(frames.lengths[first])
        is_too_long = position % terms.term_length + int(frames.aligned[first]) > terms.term_length
        return frames.first(first), length_fault(position, length, terms.term_length if is_too_long else None)
    if frames.is_broken:
        words = np.frombuffer(frames.data, "<i4", FRAME_HEADER_LENGTH >> 2, frames.next_offset)
        return frames, header_fault(begin + frames.next_offset, terms, words)
    return frames, None


def fingerprints(frames: Frames) -> Any:
    """64 bits of each frame, without session ids, which differ between members, and bodies of padding, which are holes.

    Each word is mixed with its place in the frame, and the sum is mixed once more (the finaliser of SplitMix64).
    """
    if not len(frames.offsets):
        return np.empty(0, np.int64)
    first = int(frames.offsets[0])
    words = np.frombuffer(frames.data, "<u8", (frames.next_offset - first) >> 3, first).copy()
    starts = (frames.offsets - first) >> 3
    counts = frames.aligned >> 3
    words[starts + 1] &= np.uint64(0xFFFFFFFF)
    for number in np.flatnonzero(frames.types == TYPE_PAD):
        words[starts[number] + 4 : starts[number] + counts[number]] = 0
    places = (np.arange(len(words)) - np.repeat(starts, counts)).astype(np.uint64)
    places += np.uint64(1)
    places *= _SEED
    words += places
    _mix(words)
    sums = np.add.reduceat(words, starts)
    _mix(sums)
    return sums.view(np.int64)


def _mix(words: Any) -> None:
    for shift, factor in _FACTORS:
        words ^= words >> np.uint64(shift)
        words *= factor
    words ^= words >> np.uint64(31)


def _walk(data: bytes) -> tuple[list[int], int]:
    """The indexes of the words with which frames begin, as their lengths say, and that after the last one."""
    words = memoryview(data).cast("i")
    count = len(words)
    indexes: list[int] = []
    index = 0
    while index < count:
        length = words[index]
        if length <= 0:
            break
        indexes.append(index)
        index += length + 31 >> 5 << 3
    return indexes, index
