"""Small value types and sentinels that every other module of the node shares.

This module may know nothing else of the package.
"""

from enum import IntEnum
from typing import Final, NewType

TermId = NewType("TermId", int)
"""A leadership term of a cluster."""

SessionId = NewType("SessionId", int)
"""A client's session with a cluster; negative for who asks as a backup or a service."""

MemberId = NewType("MemberId", int)
"""One member of a cluster."""

Position = NewType("Position", int)
"""A place in a cluster's log, as members report, decide on and store it. Sums are plain numbers until they are taken
for a place again, and so is all that streams, recordings and readers of frames count."""

Ns = NewType("Ns", int)
"""A moment of the monotonic clock, in nanoseconds. What is computed from it, as a deadline, is a plain number."""

NULL_VALUE: Final = -1
NULL_TERM_ID: Final = TermId(-1)
NULL_MEMBER_ID: Final = MemberId(-1)
NULL_POSITION: Final = Position(-1)
LOG_START: Final = Position(0)
MAX_POSITION: Final = Position((1 << 63) - 1)

US: Final = 1_000
MS: Final = 1_000_000
S: Final = 1_000_000_000
"""Microsecond, millisecond and second in nanoseconds, in which all durations and monotonic times are counted."""

NEVER_NS: Final = (1 << 63) - 1
"""The monotonic time of what does not happen: a deadline that is not set."""

LONG_AGO_NS: Final = Ns(-(1 << 62))
"""The monotonic time of what has not happened yet: any interval since it is over."""

FRAME_ALIGNMENT: Final = 32
FRAME_HEADER_LENGTH: Final = 32


class ClusterRole(IntEnum):
    """The role of a member (Aeron Cluster's codes), published in counter type 201. A service never sees CANDIDATE."""

    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


class Now:
    """The time of one duty cycle. Every component gets it as an argument; none reads a clock.

    `ns` is monotonic and drives time-outs and intervals; `epoch_ms` is the wall clock and goes into messages,
    log entries and files. A jump of the wall clock moves only `epoch_ms`. `epoch_fraction_ns` is what of the present
    millisecond has passed by it, for clusters that count in smaller units.
    """

    __slots__ = ("epoch_fraction_ns", "epoch_ms", "ns")

    def __init__(self, ns: Ns, epoch_ms: int, epoch_fraction_ns: int = 0) -> None:
        self.ns: Final = ns
        self.epoch_ms: Final = epoch_ms
        self.epoch_fraction_ns: Final = epoch_fraction_ns

    def __repr__(self) -> str:
        return f"Now({self.ns}, {self.epoch_ms}, {self.epoch_fraction_ns})"


NOT_YET: Final = Now(Ns(0), 0)
"""The time of a component that has had no duty cycle."""


def align(length: int, alignment: int) -> int:
    """Round `length` up to a multiple of `alignment`, which is a power of two."""
    return (length + alignment - 1) & -alignment
