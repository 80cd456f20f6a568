"""What passes one side of a forwarder of datagrams, read as one stream of Aeron: its messages, each once.

An observer beside the injector: it changes nothing and raises nothing. What is no frame of a publisher is counted, a
message in fragments is put together, and a frame that was seen before, which is sent again because a receiver has
lost it, is passed over. What came in without being seen leaves a hole in the positions, which is counted until it is
filled. Memory is bounded, whatever is sent.
"""

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from upheaval_node.errors import DecodeError
from upheaval_node.protocol.frames import (
    FLAG_BEGIN,
    FLAG_END,
    FLAGS_UNFRAGMENTED,
    TYPE_DATA,
    TYPE_OFFSET,
    TYPE_PAD,
    TYPE_SETUP,
    Setup,
    compute_position,
    position_bits_to_shift,
    unpack_setup,
    walk,
)
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, align

SESSIONS_MAX: Final = 8
HOLES_MAX: Final = 4096
"""The limit for lost ranges that were not sent again yet: a flow control window of 128 KiB has fewer, even if half of
its short frames are lost.
"""
PARTS_MAX: Final = 64

_VERSION_OFFSET: Final = 4

Take = Callable[[bytes, int, int, bool], object]
"""Gets a message, its session, its end position, and whether a message with a later position came before it."""


class StreamTap:
    """One side of one direction. `bytes_seen` counts the bytes of all datagrams, `garbage` the datagrams that are no
    frames.
    """

    def __init__(self, stream_id: int, take: Take) -> None:
        self.bytes_seen = 0
        self.garbage = 0
        self._stream_id = stream_id
        self._take = take
        self._sessions: dict[int, _Session] = {}
        self._given_up = 0

    @property
    def missing(self) -> int:
        """The bytes of the stream, up to the furthest position seen, that were not seen."""
        return self._given_up + sum(session.missing for session in self._sessions.values())

    @property
    def given_up(self) -> int:
        """The missing bytes whose positions were forgotten: a frame that fills them counts as already seen."""
        return self._given_up + sum(session.given_up for session in self._sessions.values())

    def add(self, datagram: bytes) -> None:
        """Add the next datagram of this side."""
        self.bytes_seen += len(datagram)
        if len(datagram) < TYPE_OFFSET + 2:
            self.garbage += 1
            return
        if datagram[_VERSION_OFFSET]:
            # Not a frame of Aeron's, for example a probe.
            return
        kind = datagram[TYPE_OFFSET] | datagram[TYPE_OFFSET + 1] << 8
        try:
            if kind == TYPE_SETUP:
                self._on_setup(unpack_setup(datagram))
            elif kind in (TYPE_DATA, TYPE_PAD):
                self._on_frames(datagram)
        except DecodeError:
            self.garbage += 1

    def _on_setup(self, setup: Setup) -> None:
        if setup.stream_id == self._stream_id and setup.session_id not in self._sessions:
            if len(self._sessions) == SESSIONS_MAX:
                # The session of a publisher that ended long ago.
                self._given_up += self._sessions.pop(next(iter(self._sessions))).missing
            self._sessions[setup.session_id] = _Session(setup)

    def _on_frames(self, datagram: bytes) -> None:
        for offset, header in walk(datagram):
            session = self._sessions.get(header.session_id)
            if header.stream_id != self._stream_id or session is None:
                # No subscriber creates an image for an unknown session.
                continue
            begin = compute_position(header.term_id, header.term_offset, session.shift, session.initial_term_id)
            end = begin + align(header.frame_length, FRAME_ALIGNMENT)
            is_late = begin < session.end
            if not session.note(begin, end) or header.type == TYPE_PAD:
                continue
            payload = datagram[offset + FRAME_HEADER_LENGTH : offset + header.frame_length]
            if header.flags & FLAGS_UNFRAGMENTED != FLAGS_UNFRAGMENTED:
                whole = session.join(begin, end, header.flags, payload)
                if whole is None:
                    continue
                payload, end = whole
            self._take(payload, header.session_id, end, is_late)


class _Session:
    """The stream of one publication. It was seen up to `end`, except for `holes`, each with begin and end."""

    def __init__(self, setup: Setup) -> None:
        self.shift = position_bits_to_shift(setup.term_length)
        self.initial_term_id = setup.initial_term_id
        self.end = setup.position
        self._holes: list[tuple[int, int]] = []
        self.given_up = 0
        self._parts: dict[int, tuple[int, int, bytes]] = {}
        """Of messages that are not whole, by where a part begins: its end, flags and bytes."""

    @property
    def missing(self) -> int:
        return self.given_up + sum(end - begin for begin, end in self._holes)

    def note(self, begin: int, end: int) -> bool:
        """Note a frame. Returns whether it is new."""
        if begin >= self.end:
            if begin > self.end:
                self._add_hole(self.end, begin)
            self.end = end
            return True
        index = bisect_right(self._holes, begin, key=itemgetter(0)) - 1
        if index < 0 or self._holes[index][1] < end:
            return False
        low, high = self._holes[index]
        left = ((low, begin), (end, high))
        self._holes[index : index + 1] = [hole for hole in left if hole[0] < hole[1]]
        return True

    def _add_hole(self, begin: int, end: int) -> None:
        if len(self._holes) >= HOLES_MAX:
            low, high = self._holes.pop(0)
            self.given_up += high - low
        self._holes.append((begin, end))

    def join(self, begin: int, end: int, flags: int, payload: bytes) -> tuple[bytes, int] | None:
        """The message that this fragment completes, and its end position."""
        if len(self._parts) == PARTS_MAX:
            lost = min(self._parts)
            self.given_up += self._parts.pop(lost)[0] - lost
        self._parts[begin] = end, flags, payload
        for first in [at for at, part in self._parts.items() if part[1] & FLAG_BEGIN]:
            at, chain = first, list[int]()
            while at in self._parts:
                chain.append(at)
                at, flags, _ = self._parts[at]
                if flags & FLAG_END:
                    return b"".join(self._parts.pop(part_begin)[2] for part_begin in chain), at
        return None
