"""The fast path of the ingress: finds the session messages of a block that go to the log unchanged.

Index operations only, without a call per frame. A pure function of its arguments.
"""

from collections.abc import Container
from typing import Final, NamedTuple

from upheaval_node.protocol.frames import DATA_UNFRAGMENTED
from upheaval_node.protocol.session_header import (
    ANY_VERSION_MASK,
    ANY_VERSION_WORD,
    HEADER_LONG,
    HEADER_WORD,
    SESSION_LONG,
    SHORTEST_FRAME,
    TERM_LONG,
    TIMESTAMP_LONG,
)

_RESERVED_LONG: Final = 3


class Run(NamedTuple):
    """`message_count` messages ready for the log, and the offset in the block where the walk stopped."""

    stop: int
    frames: bytearray
    message_count: int
    session_ids: list[int]


def take_run(
    data: memoryview, offset: int, term_id: int, sessions: Container[int], timestamp: int, max_frame_length: int
) -> Run:
    """Copy unfragmented session messages from `offset` up to the first frame that needs closer inspection.

    A message of another term, or of a session that is not in `sessions`, is left out. The copies carry `timestamp` and
    the header of our own schema version. Whole stretches of qualifying messages are copied at once. `session_ids` names
    each session at least once.
    """
    words = data.cast("i")
    longs = data.cast("q")
    limit = len(data)
    frames = bytearray()
    stamps: list[int] = []
    session_ids: list[int] = []
    last_session: int | None = None
    is_own_version = True
    stretch = offset
    # The difference between an offset in the copy and the same offset in the block.
    shift = -offset
    while offset < limit:
        word = offset >> 2
        length = words[word]
        long = offset >> 3
        if length < SHORTEST_FRAME or length > max_frame_length or words[word + 1] != DATA_UNFRAGMENTED:
            break
        header = longs[long + HEADER_LONG]
        if header != HEADER_WORD:
            if header & ANY_VERSION_MASK != ANY_VERSION_WORD:
                break
            is_own_version = False
        session_id = longs[long + SESSION_LONG]
        if longs[long + TERM_LONG] == term_id and (session_id == last_session or session_id in sessions):
            stamps.append((offset + shift >> 3) + TIMESTAMP_LONG)
            if session_id != last_session:
                last_session = session_id
                session_ids.append(session_id)
            offset += (length + 31) & -32
        else:
            if offset > stretch:
                frames += data[stretch:offset]
            offset += (length + 31) & -32
            stretch = offset
            shift = len(frames) - offset
    if offset > stretch:
        frames += data[stretch:offset]
    if stamps:
        stamped = memoryview(frames).cast("q")
        for index in stamps:
            stamped[index] = timestamp
            # The client's reserved value has no meaning in the log.
            stamped[index - TIMESTAMP_LONG + _RESERVED_LONG] = 0
            if not is_own_version:
                stamped[index - TIMESTAMP_LONG + HEADER_LONG] = HEADER_WORD
        stamped.release()
    return Run(offset, frames, len(stamps), session_ids)
