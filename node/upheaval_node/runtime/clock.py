"""The machine's clock, and the way in which chaos moves the wall clock of one member.

With a clock file, the member's wall clock is `wall + offset + drift * (monotonic - since)`; the monotonic clock is
never touched. The file holds three little-endian int64: offset in ms, drift in parts per million, and the monotonic
time in ns from which the drift counts. It is mapped, so that a write to it takes effect at once and costs nothing.
"""

import mmap
import os
import struct
import time
from typing import Final

from upheaval_node.types import MS, Now, Ns

CLOCK_FILE_LENGTH: Final = 24
_FIELDS: Final = struct.Struct("<qqq")


class SystemClock:
    """The machine's clock, for a duty cycle."""

    def now(self) -> Now:
        """The machine's monotonic and wall-clock time."""
        ns, wall_ns = time.monotonic_ns(), time.time_ns()
        return Now(Ns(ns), wall_ns // MS, wall_ns % MS)


class SkewedClock:
    """A clock whose wall time follows the fields of a clock file."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size < CLOCK_FILE_LENGTH:
                os.pwrite(fd, bytes(CLOCK_FILE_LENGTH), 0)
            self._map = mmap.mmap(fd, CLOCK_FILE_LENGTH)
        finally:
            os.close(fd)

    def now(self) -> Now:
        """The machine's monotonic time, and the wall-clock time by the file."""
        offset_ms, drift_ppm, since_ns = _FIELDS.unpack_from(self._map)
        ns = Ns(time.monotonic_ns())
        drift_ms = (ns - since_ns) * drift_ppm // (1_000_000 * MS) if drift_ppm else 0
        epoch_ms, fraction_ns = divmod(time.time_ns(), MS)
        return Now(ns, epoch_ms + offset_ms + drift_ms, fraction_ns)


def set_clock_skew(path: str, *, offset_ms: int = 0, drift_ppm: int = 0) -> None:
    """Move the wall clock of the member that reads this clock file; zeros heal it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.pwrite(fd, _FIELDS.pack(offset_ms, drift_ppm, time.monotonic_ns()), 0)
    finally:
        os.close(fd)
