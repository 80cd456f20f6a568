"""Header and buffers of `cnc.dat`, through which a driver's counters and errors are read (Aeron driver: cnc.dat).

Layout only; mapping the file is the runtime's job. The command buffers exist so that Aeron's tools find the counters
where they expect them; nothing is ever written into them here.
"""

import struct
from dataclasses import dataclass
from typing import Final

from upheaval_node.counters import METADATA_LENGTH, VALUE_LENGTH
from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.protocol.constants import semantic_version
from upheaval_node.types import S, align

# Semantic version 0.2.0; 0 means that the file is not ready.
VERSION: Final = semantic_version(0, 2)
HEADER_LENGTH: Final = 128
PAGE_LENGTH: Final = 4096

TO_DRIVER_TRAILER: Final = 768
TO_CLIENTS_TRAILER: Final = 128

# The offset of the driver's heartbeat in the trailer of the ring buffer from clients to driver (Agrona: ring buffers).
_HEARTBEAT_OFFSET: Final = 640

_HEADER: Final = struct.Struct("<iiiiiiqqqi")
_CLIENT_LIVENESS_TIMEOUT_NS: Final = 10 * S


@dataclass(frozen=True, slots=True)
class CncLayout:
    """Lengths in bytes, and the start of each buffer. The default holds 8192 counters."""

    to_driver_length: int = 64 * 1024 + TO_DRIVER_TRAILER
    to_clients_length: int = 64 * 1024 + TO_CLIENTS_TRAILER
    counters_values_length: int = 1024 * 1024
    error_log_length: int = 1024 * 1024

    @property
    def counters_metadata_length(self) -> int:
        """Bytes of the metadata buffer: one metadata record for each value record."""
        return self.counters_values_length // VALUE_LENGTH * METADATA_LENGTH

    @property
    def counters_metadata_offset(self) -> int:
        """The offset of the counters' metadata, after header and command buffers."""
        return HEADER_LENGTH + self.to_driver_length + self.to_clients_length

    @property
    def counters_values_offset(self) -> int:
        """The offset of the counters' values, after their metadata."""
        return self.counters_metadata_offset + self.counters_metadata_length

    @property
    def error_log_offset(self) -> int:
        """The offset of the distinct error log, after the values."""
        return self.counters_values_offset + self.counters_values_length

    @property
    def file_length(self) -> int:
        """Bytes of the whole file, in whole pages."""
        return align(self.error_log_offset + self.error_log_length, PAGE_LENGTH)

    def header(self, *, start_timestamp_ms: int, pid: int) -> bytes:
        """The first 128 bytes with version 0. `ready_version` goes to offset 0 once the buffers are in order."""
        if self.counters_values_length % VALUE_LENGTH:
            raise UsageError(f"counter values of {self.counters_values_length} bytes")
        return _HEADER.pack(
            0,
            self.to_driver_length,
            self.to_clients_length,
            self.counters_metadata_length,
            self.counters_values_length,
            self.error_log_length,
            _CLIENT_LIVENESS_TIMEOUT_NS,
            start_timestamp_ms,
            pid,
            PAGE_LENGTH,
        ).ljust(HEADER_LENGTH, b"\0")


@dataclass(frozen=True, slots=True)
class CncHeader:
    """The content of a header. `pid` is the driver's, the start is in epoch milliseconds."""

    layout: CncLayout
    start_timestamp_ms: int
    pid: int

    @property
    def counters_values_offset(self) -> int:
        """The offset of the counters' values in this file."""
        return self.layout.counters_values_offset

    @property
    def counters_metadata_offset(self) -> int:
        """The offset of the counters' metadata in this file."""
        return self.layout.counters_metadata_offset

    @property
    def heartbeat_offset(self) -> int:
        """The offset of the driver's heartbeat: eight bytes, epoch milliseconds, -1 after an end in order."""
        return HEADER_LENGTH + self.layout.to_driver_length - TO_DRIVER_TRAILER + _HEARTBEAT_OFFSET


def ready_version() -> bytes:
    """The four bytes that make the file valid."""
    return struct.pack("<i", VERSION)


def read_header(content: Buffer) -> CncHeader | None:
    """The header at the start of `content`, None while the file is not ready.

    Raises `DecodeError` for another major version or lengths that do not belong together.
    """
    if len(content) < HEADER_LENGTH:
        return None
    values = _HEADER.unpack_from(content)
    version, to_driver, to_clients, metadata, counters, errors, _, start_ms, pid, _ = values
    if version == 0:
        return None
    if version >> 16 != VERSION >> 16:
        raise DecodeError(f"cnc.dat of version {version}, ours is {VERSION}")
    layout = CncLayout(to_driver, to_clients, counters, errors)
    if min(to_driver, to_clients, counters, errors) < 0 or metadata != layout.counters_metadata_length:
        raise DecodeError(f"cnc.dat with impossible lengths {values[1:6]}")
    return CncHeader(layout, start_ms, pid)
