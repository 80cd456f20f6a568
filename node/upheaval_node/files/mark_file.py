"""Mark files: `archive-mark.dat`, `cluster-mark.dat`, `cluster-mark-service-N.dat` (Aeron: mark files).

A mark file shows tools which process runs in a folder, with which streams and directories; it prevents a second start
of a component in the same folder, and holds the component's error log. Layout: SBE header, a block of 128 bytes, var
data, and from 8192 on the errors. The owner updates `activityTimestamp`; this module reads no clock and checks no
process ids.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.files import layout
from upheaval_node.files.error_log import ErrorLog, ErrorRecord, read_errors
from upheaval_node.ports import File, Storage
from upheaval_node.protocol import archive_mark_messages as amm, cluster_mark_messages as cmm
from upheaval_node.protocol.codec import MessageSchema
from upheaval_node.protocol.constants import semantic_version
from upheaval_node.protocol.message import with_values
from upheaval_node.types import NULL_TERM_ID, NULL_VALUE, MemberId, align

ArchiveMarkHeader = amm.MarkFileHeader
ClusterMarkHeader = cmm.MarkFileHeader
Header = TypeVar("Header", bound=amm.MarkFileHeader | cmm.MarkFileHeader)

HEADER_LENGTH: Final = 8192
ERROR_BUFFER_LENGTH: Final = 1 << 20
MAX_ERROR_BUFFER_LENGTH: Final = (1 << 31) - 1 - HEADER_LENGTH
PAGE_LENGTH: Final = 4096
LIVENESS_TIMEOUT_MS: Final = 10_000

# Semantic versions 3.1.0 and 0.3.0; the major part of an existing file must be ours.
ARCHIVE_MARK_VERSION: Final = semantic_version(3, 1)
CLUSTER_MARK_VERSION: Final = semantic_version(0, 3)
VERSION_FAILED: Final = -1

ACTIVATION_IN_PROGRESS: Final = (1 << 63) - 1

_BLOCK_OFFSET: Final = 8
_VERSION_OFFSET: Final = _BLOCK_OFFSET
_ACTIVITY_OFFSET: Final = _BLOCK_OFFSET + 8
_CLUSTER_MEMBER_ID_OFFSET: Final = _BLOCK_OFFSET + 56
_TEMPLATE_ID: Final = 200
_OWNER: Final = struct.Struct("<16xq8xq")
OWNER_LENGTH: Final = _OWNER.size
"""The number of bytes from the start of a mark file that identify its owner."""
_MESSAGE_HEADER: Final = struct.Struct("<HHHH")


@dataclass(frozen=True, slots=True)
class MarkFileContent(Generic[Header]):
    """The content of a mark file.

    `schema_version` and `block_length` (bytes) are those of the message header; 0 without one, as in a file of an early
    release.
    """

    header: Header
    errors: list[ErrorRecord]
    schema_version: int = 0
    block_length: int = 0


@dataclass(frozen=True, slots=True)
class MarkOwner:
    """The owner of a mark file: process id and last activity (epoch milliseconds), -1 where the file has none."""

    pid: int
    activity_timestamp_ms: int


def owner_of(head: bytes) -> MarkOwner:
    """The owner, from the first `OWNER_LENGTH` bytes of either kind of mark file. Fewer bytes name no owner."""
    if len(head) < OWNER_LENGTH:
        return MarkOwner(NULL_VALUE, NULL_VALUE)
    is_legacy = any(head[:4]) and _MESSAGE_HEADER.unpack_from(head)[1] != _TEMPLATE_ID
    activity_timestamp_ms, pid = _OWNER.unpack_from(bytes(_BLOCK_OFFSET) + head if is_legacy else head)
    return MarkOwner(pid, activity_timestamp_ms)


def is_active(
    header: ArchiveMarkHeader | ClusterMarkHeader, now_ms: int, timeout_ms: int = LIVENESS_TIMEOUT_MS
) -> bool:
    """Whether the owner was active within the time-out. An owner that ended in order has left a -1."""
    return header.activity_timestamp != NULL_VALUE and now_ms - header.activity_timestamp < timeout_ms


def read_mark_file(storage: Storage, path: str, kind: type[Header]) -> MarkFileContent[Header]:
    """Read a mark file of either layout. Raises `DecodeError` for anything else, `StorageError` if it is missing."""
    file = storage.open(path)
    try:
        return _read(kind, file.read)
    finally:
        file.close()


def decode_mark_file(content: bytes, kind: type[Header]) -> MarkFileContent[Header]:
    """Decode a mark file, like `read_mark_file`, from its whole content."""
    return _read(kind, lambda offset, length: content[offset : offset + length])


def decode_header(content: bytes, kind: type[Header]) -> Header:
    """The header alone, of either layout. Raises `DecodeError` for bytes that begin like neither."""
    header, is_legacy = _decode(kind, content)
    version = ARCHIVE_MARK_VERSION if kind is ArchiveMarkHeader else CLUSTER_MARK_VERSION
    if is_legacy and header.version not in (0, VERSION_FAILED) and header.version >> 16 != version >> 16:
        raise DecodeError("it begins neither with a message header nor with a version")
    return header


def _read(kind: type[Header], read: Callable[[int, int], bytes]) -> MarkFileContent[Header]:
    head = read(0, HEADER_LENGTH)
    header, is_legacy = _decode(kind, head)
    start = header.header_length if header.header_length > 0 else HEADER_LENGTH
    length = header.error_buffer_length
    errors = read_errors(read(start, length)) if 0 < length <= MAX_ERROR_BUFFER_LENGTH else []
    if is_legacy:
        return MarkFileContent(header, errors)
    block_length, _, _, version = _MESSAGE_HEADER.unpack_from(head)
    return MarkFileContent(header, errors, version, block_length)


def _decode(kind: type[Header], head: bytes) -> tuple[Header, bool]:
    schema = _schema(kind)
    if len(head) < _MESSAGE_HEADER.size:
        raise DecodeError(f"mark file of {len(head)} bytes")
    _, template_id, schema_id, _ = _MESSAGE_HEADER.unpack_from(head)
    if (template_id, schema_id) != (_TEMPLATE_ID, schema.table.schema_id):
        return schema.decode_body(kind, head, 0, 0), True
    message = schema.decode(head)
    assert isinstance(message, kind)
    return message, False


def _schema(kind: type[object]) -> MessageSchema:
    return amm.SCHEMA if kind is ArchiveMarkHeader else cmm.SCHEMA


class MarkFile(Generic[Header]):
    """The mark file of a running component. It is opened before anything else in the folder is touched."""

    def __init__(
        self,
        storage: Storage,
        path: str,
        header: Header,
        *,
        now_ms: int,
        error_buffer_length: int = ERROR_BUFFER_LENGTH,
        liveness_timeout_ms: int | None = LIVENESS_TIMEOUT_MS,
    ) -> None:
        """Make or take over the file. `header` gives identity, streams and texts; versions, times and lengths are set
        here.

        Without a time-out, no owner counts as active: then a lock decides that, not a time that may be torn. Raises
        `UsageError` when another owner is active or of another kind, `DecodeError` for a file of another major version.
        A candidate term that an earlier release left in the file is kept.
        """
        if not ERROR_BUFFER_LENGTH <= error_buffer_length <= MAX_ERROR_BUFFER_LENGTH:
            raise UsageError(f"error buffer of {error_buffer_length} bytes")
        kind = type(header)
        self._version = ARCHIVE_MARK_VERSION if kind is ArchiveMarkHeader else CLUSTER_MARK_VERSION
        exists = _has_content(storage, path)
        if exists:
            old = read_mark_file(storage, path, kind)
            self._check_takeover(path, old.header, header, now_ms, liveness_timeout_ms)
            header = _with_candidate_term(header, old.header)
        else:
            header = _with_candidate_term(header, None)
        self.header: Header = with_values(
            header,
            version=0,
            activity_timestamp=ACTIVATION_IN_PROGRESS,
            start_timestamp=now_ms,
            header_length=HEADER_LENGTH,
            error_buffer_length=error_buffer_length,
        )
        self._file: File = storage.open(path, create=True)
        self._write_all()
        if not exists:
            storage.sync_directory(layout.parent(path))
        self.error_log = ErrorLog(self._file, HEADER_LENGTH, error_buffer_length)

    def signal_ready(self, now_ms: int) -> None:
        """The component has started: write activity, then the version that makes the file valid, and flush."""
        self.update_activity(now_ms)
        self._write_version(self._version)
        self._file.sync(1)

    def signal_failed_start(self) -> None:
        """The component could not start. The next one may take over the file at once."""
        self._write_version(VERSION_FAILED)
        self.update_activity(NULL_VALUE)
        self._file.sync(1)

    def signal_terminated(self) -> None:
        """The component ends in an orderly way."""
        self.update_activity(NULL_VALUE)
        self._file.sync(1)

    def update_activity(self, now_ms: int) -> None:
        """Show that the owner is alive, about once a second."""
        self.header = with_values(self.header, activity_timestamp=now_ms)
        self._file.write(_ACTIVITY_OFFSET, [struct.pack("<q", now_ms)])

    def update_member_id(self, member_id: MemberId) -> None:
        """A service learns its member id only from JoinLog. Raises `UsageError` for an archive's file."""
        header = self.header
        if not isinstance(header, ClusterMarkHeader):
            raise UsageError("an archive's mark file has no member id")
        self.header = with_values(header, member_id=member_id)
        self._file.write(_CLUSTER_MEMBER_ID_OFFSET, [struct.pack("<i", member_id)])

    def close(self) -> None:
        """Close the file unchanged. Without `signal_terminated`, the owner looks as if it was killed."""
        self._file.close()

    def _check_takeover(self, path: str, old: Header, new: Header, now_ms: int, timeout_ms: int | None) -> None:
        # Version 0: the owner was killed while it started. That must not lock the folder for ever either.
        if old.version not in (0, VERSION_FAILED) and old.version >> 16 != self._version >> 16:
            raise DecodeError(f"{path} has version {old.version}, ours is {self._version}")
        if isinstance(old, ClusterMarkHeader) and isinstance(new, ClusterMarkHeader):
            is_backup_promoted = (old.component_type, new.component_type) == (
                cmm.ClusterComponentType.BACKUP,
                cmm.ClusterComponentType.CONSENSUS_MODULE,
            )
            is_same = old.component_type in (cmm.ClusterComponentType.UNKNOWN, new.component_type)
            if not is_same and not is_backup_promoted:
                raise UsageError(f"{path} belongs to component type {old.component_type}, not {new.component_type}")
        if timeout_ms is None:
            return
        # An owner that died while starting leaves a time of its own making, which must not lock the folder for ever.
        if old.activity_timestamp != ACTIVATION_IN_PROGRESS and is_active(old, now_ms, timeout_ms):
            raise UsageError(f"{path} is active: its owner showed itself {now_ms - old.activity_timestamp} ms ago")

    def _write_all(self) -> None:
        content = _schema(type(self.header)).encode(self.header)
        if len(content) > HEADER_LENGTH:
            raise UsageError(f"mark file texts of {len(content)} bytes do not fit")
        length = align(HEADER_LENGTH + self.header.error_buffer_length, PAGE_LENGTH)
        self._file.truncate(0)
        self._file.truncate(length)
        self._file.write(0, [content])

    def _write_version(self, version: int) -> None:
        self.header = with_values(self.header, version=version)
        self._file.write(_VERSION_OFFSET, [struct.pack("<i", version)])


def _has_content(storage: Storage, path: str) -> bool:
    """Whether the file has content. An empty file is not a mark file yet: its creator was killed, or only locked it."""
    if not storage.exists(path):
        return False
    file = storage.open(path)
    try:
        return file.size() > 0
    finally:
        file.close()


def _with_candidate_term(header: Header, old: Header | None) -> Header:
    """New files have -1: the term is in the node state file. The term that an earlier release stored here is kept."""
    if not isinstance(header, ClusterMarkHeader):
        return header
    return with_values(
        header, candidate_term_id=old.candidate_term_id if isinstance(old, ClusterMarkHeader) else NULL_TERM_ID
    )
