"""A node whose files are on this machine, running or not. Only this module of the tool has files, sockets and clocks.

Locks show whether a process runs, as between the node's processes. Aeron's own nodes have no locks; for them, the
activity in the mark file decides.
"""

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from upheaval_node.archive.catalog import FILE_NAME
from upheaval_node.archive.folder import Folder, PathFolder
from upheaval_node.counters import Counters
from upheaval_node.errors import StorageError
from upheaval_node.files import layout
from upheaval_node.files.cnc import HEADER_LENGTH, read_header
from upheaval_node.files.mark_file import LIVENESS_TIMEOUT_MS, ClusterMarkHeader, is_active
from upheaval_node.media.client import MediaClient
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.mark_lock import is_locked
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.shared_counters import CncFile, attach_cnc
from upheaval_node.settings import MediaSettings
from upheaval_node.tool.node import MARK, RECORDING_LOG, MembersAnswer
from upheaval_node.tool.query import MembersQuery
from upheaval_node.types import MS

POLL_S: Final = 0.01
MAX_FILE_LENGTH: Final = 1 << 31
SHORT_QUERY_MS: Final = 1000

_CNC: Final = layout.CNC.rpartition("/")[2]
_SOCKET: Final = layout.DRIVER_SOCKET.rpartition("/")[2]


def exists(*parts: str) -> bool:
    """Whether the path exists. False for a path that the system refuses."""
    try:
        return Path(*parts).exists()
    except (OSError, ValueError):
        return False


def cluster_dir_of(folder: str) -> str:
    """The cluster's folder of a member's folder, else the given folder."""
    inside = f"{folder}/{layout.CLUSTER_DIRECTORY}"
    is_member = any(exists(inside, name) for name in (MARK, RECORDING_LOG))
    return inside if is_member and not exists(folder, MARK) else folder


class DiskNode:
    """Implements `node.Node`. Usable in a `with` statement, which releases the counters."""

    def __init__(self, cluster_dir: str, archive_dir: str | None = None) -> None:
        self.cluster_dir = cluster_dir.rstrip("/") or "/"
        self._archive_dir = archive_dir
        self._cnc: CncFile | None = None

    def __enter__(self) -> "DiskNode":
        return self

    def __exit__(self, *_: object) -> None:
        if self._cnc is not None:
            self._cnc.close()
            self._cnc = None

    def now_ms(self) -> int:
        """This machine's wall clock."""
        return time.time_ns() // MS

    # --- files

    def read(self, path: str) -> bytes | None:
        """Raises `StorageError`, also for something that cannot be a file of a node."""
        with _storage_errors(path):
            try:
                status = Path(path).stat()
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_LENGTH:
                    raise StorageError(f"{path} is not a file of a node: too long, or not a regular file")
                return Path(path).read_bytes()
            except FileNotFoundError:
                return None

    def names(self, directory: str) -> list[str]:
        """The sorted names; empty if the folder does not exist."""
        with _storage_errors(directory):
            try:
                return sorted(entry.name for entry in Path(directory).iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def replace(self, path: str, content: bytes) -> None:
        """Replace the file atomically. The new file gets the old one's owner."""
        new_path = f"{path}.tmp"
        with _storage_errors(path):
            with contextlib.suppress(FileNotFoundError):
                Path(new_path).unlink()
            try:
                fd = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
                try:
                    _give_away(fd, path)
                    _write_whole(fd, content)
                    os.fsync(fd)
                finally:
                    os.close(fd)
                Path(new_path).replace(path)
            except BaseException:
                Path(new_path).unlink(missing_ok=True)
                raise
            _sync_directory(path)

    def write_at(self, path: str, offset: int, content: bytes) -> None:
        """Write and sync in the calling thread."""
        with _storage_errors(path), Path(path).open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), content, offset)
            os.fsync(file.fileno())

    def remove(self, path: str) -> None:
        """Raises `StorageError` if the file does not exist."""
        with _storage_errors(path):
            Path(path).unlink()
            _sync_directory(path)

    def archive(self) -> Folder | None:
        """The folder that the tool was given, else the one beside the cluster's if it has a catalog."""
        if self._archive_dir is not None:
            return PathFolder(Path(self._archive_dir))
        beside = f"{self.cluster_dir}/../{layout.ARCHIVE_DIRECTORY}"
        return PathFolder(Path(beside)) if exists(beside, FILE_NAME) else None

    # --- life

    def is_in_use(self, path: str, header: ClusterMarkHeader) -> bool:
        """Whether the mark file is locked, or names a living process and is recent."""
        with _storage_errors(path):
            return is_locked(path) or (_is_process(header.pid) and is_active(header, self.now_ms()))

    def cnc(self, header: ClusterMarkHeader) -> tuple[str, bytes | None]:
        """Path and content, or None if the file does not exist."""
        path = f"{self._driver_directory(header)}/{_CNC}"
        return path, self.read(path)

    def counters(self, header: ClusterMarkHeader) -> Counters | None:
        """The counters, mapped so that they may be set. They are attached once and kept."""
        path = f"{self._driver_directory(header)}/{_CNC}"
        if self._cnc is None:
            with _storage_errors(path):
                self._cnc = attach_cnc(path) or _attach_other(path, self.now_ms())
        return None if self._cnc is None else self._cnc.counters((0, 0))

    def query_members(self, header: ClusterMarkHeader, timeout_ms: int) -> MembersAnswer | None:
        """Query through the socket of the node's media driver."""
        directory = self._driver_directory(header)
        if timeout_ms <= SHORT_QUERY_MS and self.counters(header) is None:
            # No process runs that could answer. With a longer time-out, wait for one to start.
            return None
        try:
            folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            # The path of the folder may be long, but that of a socket is limited to 107 bytes.
            return _ask(f"unix:/proc/self/fd/{folder}/{_SOCKET}", header, timeout_ms)
        finally:
            os.close(folder)

    def wait(self, counters: Counters, counter_id: int, value: int, timeout_ms: int) -> bool:
        """Check every POLL_S seconds, and give up when the driver dies."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            counter = counters.get(counter_id)
            if counter is not None and counter.get() == value:
                return True
            if time.monotonic() >= deadline or (self._cnc is not None and not self._cnc.is_driver_alive()):
                return False
            time.sleep(POLL_S)

    def _driver_directory(self, header: ClusterMarkHeader) -> str:
        """The folder in the mark file; for a folder that was copied from elsewhere, the one beside the cluster's."""
        beside = f"{self.cluster_dir}/../{layout.DRIVER_DIRECTORY}"
        if not exists(header.aeron_directory, _CNC) and exists(beside, _CNC):
            return os.path.normpath(beside)
        return header.aeron_directory


def _attach_other(path: str, now_ms: int) -> CncFile | None:
    """Attach the file of a driver without a lock, such as Aeron's: it is alive while its heartbeat is recent."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    attached: CncFile | None = None
    try:
        header = read_header(os.pread(fd, HEADER_LENGTH, 0))
        if header is not None and os.fstat(fd).st_size >= header.layout.file_length:
            heartbeat_ms = int.from_bytes(os.pread(fd, 8, header.heartbeat_offset), "little", signed=True)
            if now_ms - heartbeat_ms < LIVENESS_TIMEOUT_MS:
                attached = CncFile(fd, header)
        return attached
    finally:
        if attached is None:
            os.close(fd)


def _ask(address: str, header: ClusterMarkHeader, timeout_ms: int) -> MembersAnswer | None:
    loop = Loop()
    network = SelectorNetwork(loop)
    media = MediaClient(network, address, MediaSettings(), Random(secrets.randbits(64)), "cluster-tool")
    try:
        query = MembersQuery(media, header)
        cycle = DutyCycle(loop, SystemClock(), (media, query))
        deadline_ns = time.monotonic_ns() + timeout_ms * MS
        cycle.run_until(lambda: query.answer is not None or media.is_closed, deadline_ns)
        return query.answer
    finally:
        media.close()
        network.close()
        loop.close()


def _is_process(pid: int) -> bool:
    """Whether the process runs. A zombie does not count."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return not status.rpartition(")")[2].lstrip().startswith("Z")


def _give_away(fd: int, path: str) -> None:
    """Give the file to the owner of the file that it will replace, if any: the node has to open it again."""
    try:
        old = Path(path).stat()
    except FileNotFoundError:
        return
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, stat.S_IMODE(old.st_mode))


def _write_whole(fd: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def _sync_directory(path: str) -> None:
    fd = os.open(Path(path).parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _storage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise StorageError(f"{path!r} is not a path: {error}") from error
