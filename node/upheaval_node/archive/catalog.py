"""The catalog of recordings: one descriptor a recording, in the layout of Aeron's `archive.catalog`.

The whole file is kept as an image in memory; every change goes to the image and with one write to the file. A change
that moves other entries makes a new file, which takes the place of the old one when it is durable: neither the end of
the process nor a power cut tears what was there. The module knows nothing of segments, sessions or messages other than
the descriptor.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from upheaval_node.archive.checksums import Checksum
from upheaval_node.errors import DecodeError, StorageError, UsageError
from upheaval_node.ports import Storage
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.constants import semantic_version
from upheaval_node.protocol.frames import is_valid_mtu, is_valid_term_length
from upheaval_node.types import FRAME_ALIGNMENT, NULL_POSITION, NULL_VALUE, align

FILE_NAME: Final = "archive.catalog"
NEW_FILE_NAME: Final = "archive.catalog.new"
"""What becomes the catalog when it is complete; one that is found at a start never did."""

VERSION: Final = semantic_version(3, 1)
HEADER_LENGTH: Final = 32
ALIGNMENT: Final = 64
DESCRIPTOR_HEADER_LENGTH: Final = 32
DESCRIPTOR_BLOCK_LENGTH: Final = 80
MAX_CAPACITY: Final = (1 << 31) - 1

MIN_SEGMENT_LENGTH: Final = 64 * 1024
MAX_SEGMENT_LENGTH: Final = 1 << 30

# Channels are limited to 4 KiB by the URI grammar; the catalog takes no more for any of its texts.
MAX_TEXT_LENGTH: Final = 4096

_HEADER: Final = struct.Struct("<iiqi")
_DESCRIPTOR_HEADER: Final = struct.Struct("<iii")
_DESCRIPTOR: Final = struct.Struct("<qqqqqqqiiiiii")
_DESCRIPTOR_NAMES: Final = (
    "control_session_id",
    "correlation_id",
    "recording_id",
    "start_timestamp",
    "stop_timestamp",
    "start_position",
    "stop_position",
    "initial_term_id",
    "segment_length",
    "term_length",
    "mtu",
    "session_id",
    "stream_id",
)
_LENGTH: Final = struct.Struct("<I")

_DESCRIPTOR_FIELDS_ON_WIRE: Final = 16
_MESSAGE_HEADER: Final = struct.Struct("<HHHHqq")

ForceDone = Callable[[Exception | None], None]


@dataclass(slots=True)
class RecordingEntry:
    """What the catalog holds of one recording. Positions in bytes of the stream, times in epoch milliseconds.

    `stop_position` and `stop_timestamp` are -1 while the recording is active. `offset` and `length` place the entry
    in the file: the length counts the descriptor with its padding, without the 32 bytes of descriptor header.
    """

    recording_id: int
    start_timestamp: int
    stop_timestamp: int
    start_position: int
    stop_position: int
    initial_term_id: int
    segment_length: int
    term_length: int
    mtu: int
    session_id: int
    stream_id: int
    stripped_channel: str
    original_channel: str
    source_identity: str
    control_session_id: int = 0
    correlation_id: int = 0
    state: am.RecordingState = am.RecordingState.VALID
    checksum: int = 0
    offset: int = 0
    length: int = 0

    def validate(self) -> None:
        """Raises `DecodeError` for a descriptor that no recording can have."""
        if self.recording_id < 0:
            raise DecodeError(f"recording id {self.recording_id}")
        if not is_valid_term_length(self.term_length) or not is_valid_mtu(self.mtu):
            raise DecodeError(f"recording {self.recording_id}: term length {self.term_length}, MTU {self.mtu}")
        segment = self.segment_length
        if segment & (segment - 1) or not max(self.term_length, MIN_SEGMENT_LENGTH) <= segment <= MAX_SEGMENT_LENGTH:
            raise DecodeError(f"recording {self.recording_id}: segment length {segment}")
        if self.start_position < 0 or self.start_position % FRAME_ALIGNMENT:
            raise DecodeError(f"recording {self.recording_id}: start position {self.start_position}")
        stop = self.stop_position
        if stop != NULL_POSITION and (stop < self.start_position or stop % FRAME_ALIGNMENT):
            raise DecodeError(f"recording {self.recording_id}: stop position {stop}")

    def encode(self, min_length: int = 0, checksum: Checksum | None = None) -> bytes:
        """Descriptor header and descriptor, zero-padded to the catalog's alignment and to at least `min_length`.

        With `checksum` that of the descriptor is set first.
        """
        texts = b"".join(
            _LENGTH.pack(len(text)) + text
            for text in map(_ascii, (self.stripped_channel, self.original_channel, self.source_identity))
        )
        descriptor = _DESCRIPTOR.pack(*(getattr(self, name) for name in _DESCRIPTOR_NAMES))
        used = DESCRIPTOR_HEADER_LENGTH + DESCRIPTOR_BLOCK_LENGTH + len(texts)
        length = max(align(used, ALIGNMENT) - DESCRIPTOR_HEADER_LENGTH, min_length)
        content = (descriptor + texts).ljust(length, b"\0")
        if checksum is not None:
            self.checksum = checksum(content)
        header = _DESCRIPTOR_HEADER.pack(length, self.state, self.checksum).ljust(DESCRIPTOR_HEADER_LENGTH, b"\0")
        return header + content


def _ascii(text: str) -> bytes:
    encoded = text.encode("ascii", "replace")
    if len(encoded) > MAX_TEXT_LENGTH:
        raise UsageError(f"text of {len(encoded)} characters in a recording descriptor")
    return encoded


@dataclass(frozen=True, slots=True)
class CatalogContents:
    """A decoded catalog: entries of every state in file order, and what was wrong with those that were left out.

    `used_length` is where the next entry goes.
    """

    next_recording_id: int
    alignment: int
    entries: tuple[RecordingEntry, ...]
    used_length: int
    problems: tuple[str, ...]


def encode_header(next_recording_id: int) -> bytes:
    """The header of a catalog file (Aeron archive: CatalogHeader)."""
    return _HEADER.pack(VERSION, HEADER_LENGTH, next_recording_id, ALIGNMENT).ljust(HEADER_LENGTH, b"\0")


def decode_catalog(image: bytes) -> CatalogContents:
    """Read a catalog file. Raises `DecodeError` for an unusable header; a damaged entry becomes a problem instead.

    A power cut can tear an entry before anything was reported about its recording, so it must not hide the others.
    The last one is torn so when the header does not count it yet: the next one takes its place and its id.
    """
    if len(image) < HEADER_LENGTH:
        raise DecodeError(f"catalog of {len(image)} bytes")
    version, header_length, next_id, alignment = _HEADER.unpack_from(image)
    if version >> 16 != VERSION >> 16 or header_length != HEADER_LENGTH:
        raise DecodeError(f"catalog version {version:#x}, header of {header_length} bytes")
    if alignment < FRAME_ALIGNMENT or alignment & (alignment - 1):
        raise DecodeError(f"catalog alignment {alignment}")
    entries: list[RecordingEntry] = []
    problems: list[str] = []
    offset = used_length = HEADER_LENGTH
    while offset + DESCRIPTOR_HEADER_LENGTH + DESCRIPTOR_BLOCK_LENGTH <= len(image):
        length = int.from_bytes(image[offset : offset + 4], "little", signed=True)
        if length <= 0:
            break
        end = offset + DESCRIPTOR_HEADER_LENGTH + length
        if length < DESCRIPTOR_BLOCK_LENGTH or end > len(image):
            problems.append(f"catalog entry at {offset} has length {length}: the rest of the catalog is left out")
            break
        try:
            entries.append(_decode_entry(image[offset:end], offset))
            is_counted = True
        except DecodeError as error:
            problems.append(f"catalog entry at {offset}: {error}")
            is_counted = next_id > max((entry.recording_id for entry in entries), default=-1) + 1
        offset += align(DESCRIPTOR_HEADER_LENGTH + length, alignment)
        if is_counted:
            used_length = offset
    return CatalogContents(next_id, alignment, tuple(entries), used_length, tuple(problems))


def _decode_entry(data: bytes, offset: int) -> RecordingEntry:
    length, state, checksum = _DESCRIPTOR_HEADER.unpack_from(data)
    fields = _DESCRIPTOR.unpack_from(data, DESCRIPTOR_HEADER_LENGTH)
    texts: list[str] = []
    position = DESCRIPTOR_HEADER_LENGTH + DESCRIPTOR_BLOCK_LENGTH
    for _ in range(3):
        if position + _LENGTH.size > len(data):
            raise DecodeError("descriptor texts end after the entry")
        (text_length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size + text_length
        if position > len(data):
            raise DecodeError(f"descriptor text of {text_length} bytes ends after the entry")
        texts.append(data[position - text_length : position].decode("ascii", "replace"))
    if state not in am.RecordingState.__members__.values():
        raise DecodeError(f"state {state}")
    names = (*_DESCRIPTOR_NAMES, "stripped_channel", "original_channel", "source_identity")
    entry = RecordingEntry(
        **dict(zip(names, (*fields, *texts), strict=True)),
        state=am.RecordingState(state),
        checksum=checksum,
        offset=offset,
        length=length,
    )
    entry.validate()
    return entry


class Catalog:
    """The catalog file of one archive, open for reading and writing.

    Raises `StorageError` when the file cannot be written, `DecodeError` when it is no catalog. `problems` says what
    was left out at loading.
    """

    def __init__(
        self, storage: Storage, directory: str, *, capacity: int, sync_level: int, checksum: Checksum | None = None
    ) -> None:
        self._storage = storage
        self._directory = directory
        path, new_path = f"{directory}/{FILE_NAME}", f"{directory}/{NEW_FILE_NAME}"
        if storage.exists(new_path):
            storage.remove(new_path)
        is_new = not storage.exists(path)
        self._file = storage.open(path, create=True)
        self._sync_level = sync_level
        self._checksum = checksum
        self._capacity = max(capacity, self._file.size())
        self._by_id: dict[int, RecordingEntry] = {}
        self._raw: list[RecordingEntry] = []
        self._waiting: list[ForceDone] = []
        self._is_forcing = False
        self.problems: tuple[str, ...] = ()
        content = b"" if is_new else self._file.read(0, self._file.size())
        if content[:HEADER_LENGTH].strip(b"\0"):
            self._load(content)
        else:
            # A power cut may leave the file without its first write: nothing was recorded yet.
            self._image = bytearray(encode_header(0))
            self._next_id = 0
            self._file.truncate(0)
            self._file.truncate(self._capacity)
            self._write(0, HEADER_LENGTH)
        if self._sync_level > 0:
            self._file.sync(self._sync_level)
            storage.sync_directory(directory)

    def _load(self, content: bytes) -> None:
        contents = decode_catalog(content)
        if contents.alignment != ALIGNMENT:
            raise DecodeError(f"catalog alignment {contents.alignment} is not supported")
        self.problems = contents.problems
        self._image = bytearray(content[: contents.used_length])
        self._raw = list(contents.entries)
        valid = am.RecordingState.VALID
        self._by_id = {entry.recording_id: entry for entry in contents.entries if entry.state == valid}
        highest = max((entry.recording_id for entry in contents.entries), default=-1)
        self._next_id = max(contents.next_recording_id, highest + 1)
        # Bytes past the last entry belong to a torn one: a later append must not revive it.
        if content[contents.used_length :] != bytes(max(len(content) - contents.used_length, 0)):
            self._file.truncate(contents.used_length)
        self._file.truncate(self._capacity)
        self._file.write(0, (encode_header(self._next_id),))

    @property
    def next_recording_id(self) -> int:
        """The id that the next recording gets; ids are never given twice."""
        return self._next_id

    def get(self, recording_id: int) -> RecordingEntry | None:
        """The descriptor of a recording that is valid, or None."""
        return self._by_id.get(recording_id)

    def entries(self) -> Iterator[RecordingEntry]:
        """Valid entries in order of their ids."""
        return iter(self._by_id.values())

    def entries_from(self, recording_id: int) -> Iterator[RecordingEntry]:
        """Valid entries of `recording_id` and above as they are now; later ones do not join an iteration."""
        return iter([entry for entry in self._by_id.values() if entry.recording_id >= recording_id])

    def add(self, entry: RecordingEntry) -> RecordingEntry:
        """Append a descriptor under the next recording id, which is set in `entry`.

        Raises `StorageError`: there is no such recording, and the next one takes its place in the file.
        """
        entry.recording_id = self._next_id
        entry.offset = len(self._image)
        data = entry.encode(checksum=self._checksum)
        entry.length = len(data) - DESCRIPTOR_HEADER_LENGTH
        self._ensure_capacity(entry.offset + len(data))
        self._file.write(entry.offset, (data,))
        self._image += data
        self._next_id += 1
        self._image[:HEADER_LENGTH] = encode_header(self._next_id)
        self._write(0, HEADER_LENGTH)
        self._raw.append(entry)
        self._by_id[entry.recording_id] = entry
        return entry

    def record_stopped(self, entry: RecordingEntry, position: int, timestamp: int) -> None:
        """Write where and when (epoch ms) an active recording ended."""
        entry.stop_position = position
        entry.stop_timestamp = timestamp
        self._rewrite(entry)

    def record_extended(
        self, entry: RecordingEntry, *, control_session_id: int, correlation_id: int, session_id: int
    ) -> None:
        """The recording is active again, for another request and with another session."""
        entry.control_session_id = control_session_id
        entry.correlation_id = correlation_id
        entry.session_id = session_id
        entry.stop_timestamp = NULL_VALUE
        entry.stop_position = NULL_POSITION
        self._rewrite(entry)

    def record_start(self, entry: RecordingEntry, position: int) -> None:
        """The recording begins at another segment than before."""
        entry.start_position = position
        self._rewrite(entry)

    def record_channel(self, entry: RecordingEntry, original: str, stripped: str) -> None:
        """The recording is found under another channel from now on."""
        entry.original_channel = original
        entry.stripped_channel = stripped
        self.replace(entry)

    def record_deleted(self, entry: RecordingEntry) -> None:
        """The recording is gone: its entry keeps its place in the file, and no search finds it."""
        entry.state = am.RecordingState.DELETED
        self._rewrite(entry)
        del self._by_id[entry.recording_id]

    def deleted_ids(self) -> set[int]:
        """Recordings that were purged, of which files may be left."""
        return {entry.recording_id for entry in self._raw if entry.state == am.RecordingState.DELETED}

    def replace(self, entry: RecordingEntry) -> None:
        """Write an entry whose texts or lengths changed. One that grew shifts those after it to the right.

        That is durable when the call returns. Raises `StorageError`: the file is what it was, or the new one that may
        be lost in a power cut.
        """
        start, old_end = entry.offset, entry.offset + DESCRIPTOR_HEADER_LENGTH + entry.length
        data = entry.encode(entry.length, self._checksum)
        growth = len(data) - (old_end - start)
        if growth == 0:
            self._rewrite(entry)
            return
        self._capacity = self._capacity_for(len(self._image) + growth)
        self._replace_file(self._image[:start] + data + self._image[old_end:])
        entry.length = len(data) - DESCRIPTOR_HEADER_LENGTH
        for other in self._raw:
            if other.offset > start:
                other.offset += growth
        self._storage.sync_directory(self._directory)

    def descriptor_message(self, entry: RecordingEntry, control_session_id: int, correlation_id: int) -> bytes:
        """The RecordingDescriptor message: the stored descriptor with the ids of the request in front (Aeron)."""
        table = am.RecordingDescriptor
        start = entry.offset + DESCRIPTOR_HEADER_LENGTH
        header = _MESSAGE_HEADER.pack(
            DESCRIPTOR_BLOCK_LENGTH,
            table.TEMPLATE_ID,
            am.SCHEMA.table.schema_id,
            am.SCHEMA.table.version,
            control_session_id,
            correlation_id,
        )
        return header + self._image[start + _DESCRIPTOR_FIELDS_ON_WIRE : start + entry.length]

    def force(self, done: ForceDone) -> None:
        """Call `done` when everything written so far survives a power cut, at sync level 0 at once, or with an error.

        At most one sync is in flight; calls that come meanwhile share the next one.
        """
        if self._sync_level == 0:
            done(None)
            return
        self._waiting.append(done)
        if not self._is_forcing:
            self._start_force()

    def sync(self) -> None:
        """The same as `force`, waiting for it: for the start and the end of a process. Raises `StorageError`."""
        if self._sync_level > 0:
            self._file.sync(self._sync_level)

    def close(self) -> None:
        """Close the file without syncing it."""
        self._file.close()

    def _start_force(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._is_forcing = True

        def finished(error: Exception | None) -> None:
            self._is_forcing = False
            for done in waiting:
                done(error)
            if self._waiting and not self._is_forcing:
                self._start_force()

        try:
            self._file.sync_later(self._sync_level, finished)
        except StorageError as failure:
            finished(failure)

    def _rewrite(self, entry: RecordingEntry) -> None:
        end = entry.offset + DESCRIPTOR_HEADER_LENGTH + entry.length
        self._image[entry.offset : end] = entry.encode(entry.length, self._checksum)
        self._write(entry.offset, end)

    def _write(self, start: int, end: int) -> None:
        self._file.write(start, (bytes(self._image[start:end]),))

    def _replace_file(self, image: bytearray) -> None:
        """A new file with this image instead of the one there is; what was open is given back when it is synced."""
        new_path = f"{self._directory}/{NEW_FILE_NAME}"
        file = self._storage.open(new_path, create=True)
        try:
            file.truncate(0)
            file.truncate(self._capacity)
            file.write(0, (bytes(image),))
            # Also where nothing else is synced: a new name for bytes that a power cut takes would lose every entry.
            file.sync(max(self._sync_level, 1))
            self._storage.rename(new_path, f"{self._directory}/{FILE_NAME}")
        except StorageError:
            file.close()
            raise
        old, self._file, self._image = self._file, file, image
        old.close()

    def _ensure_capacity(self, needed: int) -> None:
        capacity = self._capacity_for(needed)
        if capacity > self._capacity:
            self._file.truncate(capacity)
            self._capacity = capacity

    def _capacity_for(self, needed: int) -> int:
        """How long the file shall be to hold so much."""
        if needed > MAX_CAPACITY:
            raise UsageError("the catalog is full")
        capacity = self._capacity
        while capacity < needed:
            capacity = min(capacity + (capacity >> 1), MAX_CAPACITY)
        return capacity
