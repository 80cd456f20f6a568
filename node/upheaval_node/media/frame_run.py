"""Loops over runs of frames: validate, patch, cut. For speed they index words and call nothing per frame.

A run is a sequence of whole frames of one stream in one term. `words` is always the int32 view of the bytes. This
module knows layouts and arithmetic only.
"""

from typing import Final

from upheaval_node.protocol.frames import FLAG_BEGIN, MAX_MTU, TYPE_DATA, TYPE_PAD

# version, flags and type share the second word: version 0 and the type without the flags.
TYPE_MASK: Final = ~0xFF00
DATA_WORD: Final = TYPE_DATA << 16
PAD_WORD: Final = TYPE_PAD << 16
BEGIN_BIT: Final = FLAG_BEGIN << 8
HEADER_WORDS: Final = 8
MAX_FRAME_LENGTH: Final = MAX_MTU

FOLLOWS: Final = 0
MISPLACED: Final = 1
MALFORMED: Final = 2


def scan_run(
    words: memoryview, index: int, limit: int, stream: tuple[int, int, int], term_offset: int, term_length: int
) -> tuple[int, int, int]:
    """Walk the DATA frames of one stream and term from word `index`, where the first is at `term_offset`.

    `stream` is (session id, stream id, term id). Stops before anything else: another stream's frame, a control
    frame, a padding frame, a heartbeat, the end of the term or a frame that is not whole yet.
    Returns the word index and the term offset after the run, and FOLLOWS, MISPLACED or MALFORMED.
    """
    session_id, stream_id, term_id = stream
    while index < limit and term_offset < term_length:
        length = words[index]
        if words[index + 1] & TYPE_MASK != DATA_WORD or length == 0:
            break
        if words[index + 3] != session_id or words[index + 4] != stream_id:
            break
        if length < 32 or length > MAX_FRAME_LENGTH:
            return index, term_offset, MALFORMED
        if words[index + 2] != term_offset or words[index + 5] != term_id:
            return index, term_offset, MISPLACED
        aligned = (length + 31) & -32
        following = index + (aligned >> 2)
        if following > limit:
            break
        index = following
        term_offset += aligned
    if term_offset > term_length:
        return index, term_offset, MALFORMED
    return index, term_offset, FOLLOWS


def measure_run(words: memoryview, mtu: int) -> tuple[int, int]:
    """Check frames that are about to be published: (bytes of DATA frames, length of a last padding frame or 0).

    Returns (-1, 0) when they are no run of whole frames of at most `mtu` bytes.
    """
    index = 0
    limit = len(words)
    while index < limit:
        length = words[index]
        kind = words[index + 1] & TYPE_MASK
        if kind == PAD_WORD and length >= 32 and length & 31 == 0 and index + HEADER_WORDS == limit:
            return index << 2, length
        if kind != DATA_WORD or length < 32 or length > mtu:
            return -1, 0
        index += ((length + 31) & -32) >> 2
    return (index << 2, 0) if index == limit else (-1, 0)


def patch_run(words: memoryview, stream: tuple[int, int, int], term_offset: int, room: int) -> int:
    """Set the position fields of frames in place, as many whole messages as fit `room` bytes of the term.

    Returns the bytes patched, which end at a message boundary or at the end of the run.
    """
    session_id, stream_id, term_id = stream
    index = 0
    limit = len(words)
    end = term_offset + room
    boundary = 0
    while index < limit:
        if words[index + 1] & BEGIN_BIT:
            boundary = index
        aligned = (words[index] + 31) & -32
        if term_offset + aligned > end:
            return boundary << 2
        words[index + 2] = term_offset
        words[index + 3] = session_id
        words[index + 4] = stream_id
        words[index + 5] = term_id
        term_offset += aligned
        index += aligned >> 2
    return index << 2


def cut_run(data: memoryview, offset: int, max_end: int) -> tuple[int, int]:
    """How much of a block from `offset` is before `max_end`: (byte offset, position offset) of the cut.

    Both count from the start of the block; they differ when the cut is past a padding frame.
    """
    words = data.cast("i")
    index = offset >> 2
    limit = len(words)
    end = offset
    while index < limit:
        aligned = (words[index] + 31) & -32
        if end + aligned > max_end:
            break
        end += aligned
        if words[index + 1] & TYPE_MASK == PAD_WORD:
            index += HEADER_WORDS
            break
        index += aligned >> 2
    return index << 2, end
