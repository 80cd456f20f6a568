"""`cnc.dat` as shared memory: the counters of a member, seen by all its processes and by tools.

The process that owns the media driver makes the file and holds a lock on it: a process that opens the file of a dead
driver finds it unlocked. The file appears under its name only when it is complete. Every process writes only the
counters of its own range of ids.
"""

import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Final

from upheaval_node.counters import Counters
from upheaval_node.errors import UsageError
from upheaval_node.files.cnc import HEADER_LENGTH, CncHeader, CncLayout, read_header, ready_version
from upheaval_node.files.error_log import ErrorLog
from upheaval_node.ports import Buffer
from upheaval_node.protocol.constants import MAX_SERVICES
from upheaval_node.runtime.disk import storage_errors
from upheaval_node.runtime.mark_lock import AlreadyRunning, is_descriptor_locked

DRIVER_RANGE: Final = (0, 2048)
MODULE_RANGE: Final = (2048, 3072)
_FIRST_SERVICE_RANGE: Final = 3072
_SERVICE_RANGE_LENGTH: Final = 64


def service_range(service_id: int) -> tuple[int, int]:
    """The ids that a service container's process allocates from."""
    if not 0 <= service_id < MAX_SERVICES:
        raise UsageError(f"service id {service_id} is not below {MAX_SERVICES}")
    first = _FIRST_SERVICE_RANGE + service_id * _SERVICE_RANGE_LENGTH
    return first, first + _SERVICE_RANGE_LENGTH


class CncFile:
    """A mapped `cnc.dat`. The mapping lives as long as the counters that were handed out."""

    def __init__(self, fd: int, header: CncHeader) -> None:
        self._fd = fd
        self.header = header
        self._view = memoryview(mmap.mmap(fd, header.layout.file_length))

    def counters(self, id_range: tuple[int, int] | None = None) -> Counters:
        """All counters to read, those of the range to allocate; None takes everything (one process a member)."""
        first, limit = id_range if id_range is not None else (0, None)
        layout = self.header.layout
        values = self._view[layout.counters_values_offset :][: layout.counters_values_length]
        metadata = self._view[layout.counters_metadata_offset :][: layout.counters_metadata_length]
        return Counters(values, metadata, first, limit)

    def error_log(self) -> ErrorLog:
        """The media driver's error log, for its owner to write."""
        layout = self.header.layout
        return ErrorLog(_Mapped(self._view), layout.error_log_offset, layout.error_log_length)

    def is_driver_alive(self) -> bool:
        """Whether the process that made this file is alive; for processes that attached to it."""
        return is_descriptor_locked(self._fd)

    def close(self) -> None:
        """Close the file, and release the driver's lock with it. Counters that were handed out stay usable."""
        os.close(self._fd)


class _Mapped:
    """Shared memory to write into. Implements `error_log.Writable`."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def write(self, offset: int, parts: Sequence[Buffer]) -> None:
        content = b"".join(parts)
        self._view[offset : offset + len(content)] = content


def create_cnc(path: str, *, pid: int, now_ms: int, is_shared: bool) -> CncFile:
    """Make a new file in place of what is there. `is_shared`: several processes will allocate counters.

    Raises `AlreadyRunning` when a live driver owns the file that is there, `StorageError` when there is no space.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _refuse_live_owner(path)
    new_path = f"{path}.new"
    fd = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    layout = CncLayout()
    with storage_errors(path, "allocate"):
        # Not a sparse file: with a full disk, writing to a hole of a mapping would kill the process with SIGBUS.
        os.posix_fallocate(fd, 0, layout.file_length)
    os.pwrite(fd, layout.header(start_timestamp_ms=now_ms, pid=pid), 0)
    cnc = CncFile(fd, CncHeader(layout, now_ms, pid))
    if is_shared:
        # Scans stop at the first id that was never used, and would miss the ranges after it.
        cnc.counters().reserve_up_to(_FIRST_SERVICE_RANGE + MAX_SERVICES * _SERVICE_RANGE_LENGTH)
    os.pwrite(fd, ready_version(), 0)
    os.rename(new_path, path)
    return cnc


def attach_cnc(path: str) -> CncFile | None:
    """Map the file of a live driver; None if there is none."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    header = read_header(os.pread(fd, HEADER_LENGTH, 0)) if is_descriptor_locked(fd) else None
    if header is None:
        os.close(fd)
        return None
    return CncFile(fd, header)


def _refuse_live_owner(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if is_descriptor_locked(fd):
            raise AlreadyRunning(f"{path} is held by a media driver that is alive")
    finally:
        os.close(fd)
