"""The catalog of recordings: one descriptor per recording, in the layout of Aeron's `archive.catalog`.

The whole file is kept as an image in memory. Every change goes to the image and, with one write, to the file. A change
that moves other entries writes a new file, which replaces the old one once it is durable. So neither a crash of the
process nor a power cut tears existing entries. The module knows nothing of segments or sessions, and of messages only
the descriptor.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
"""A new catalog until it is complete. If it exists at a start, it is an incomplete leftover."""

VERSION: Final = semantic_version(3, 1)
HEADER_LENGTH: Final = 32
ALIGNMENT: Final = 64
DESCRIPTOR_HEADER_LENGTH: Final = 32
DESCRIPTOR_BLOCK_LENGTH: Final = 80
MAX_CAPACITY: Final = (1 << 31) - 1

MIN_SEGMENT_LENGTH: Final = 64 * 1024
MAX_SEGMENT_LENGTH: Final = 1 << 30

# The URI grammar limits channels to 4 KiB; the catalog limits all its texts to that.
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
_TEXT_NAMES: Final = ("stripped_channel", "original_channel", "source_identity")
_LENGTH: Final = struct.Struct("<I")

_DESCRIPTOR_FIELDS_ON_WIRE: Final = 16
_MESSAGE_HEADER: Final = struct.Struct("<HHHHqq")

ForceDone = Callable[[Exception | None], None]


@dataclass(slots=True)
class RecordingEntry:
    """The catalog's entry of one recording. Positions are in bytes of the stream, times in epoch milliseconds.

    `stop_position` and `stop_timestamp` are -1 while the recording is active. `offset` and `length` locate the entry in
    the file. The length counts the descriptor with its padding, without the 32 bytes of descriptor header.
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
        """Raises `DecodeError` if no recording can have such a descriptor."""
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

    def take(self, changed: "RecordingEntry") -> None:
        """Take all values but the place in the file."""
        for name in (*_DESCRIPTOR_NAMES, *_TEXT_NAMES, "state", "checksum"):
            setattr(self, name, getattr(changed, name))

    def encode(self, min_length: int = 0, checksum: Checksum | None = None) -> bytes:
        """Encode descriptor header and descriptor, zero-padded to the catalog's alignment and at least `min_length`.

        If `checksum` is given, the descriptor's checksum is set first.
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
    """A decoded catalog: the entries of every state in file order, and the problems of entries that were left out.

    `used_length` is the offset of the next entry.
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
    """Decode a catalog file. Raises `DecodeError` for an unusable header; a damaged entry becomes a problem instead.

    A power cut can tear an entry of a recording that was never reported, so a damaged entry must not hide the others.
    If the header does not count the last entry yet, that entry is such a torn one: the next entry takes its place and
    id.
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
    names = (*_DESCRIPTOR_NAMES, *_TEXT_NAMES)
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

    Raises `StorageError` when the file cannot be written, `DecodeError` when it is not a catalog. `problems` lists what
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
            # A power cut may take the file's first write. No recording was reported before that.
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
        """The id that the next recording gets. Ids are never reused."""
        return self._next_id

    def get(self, recording_id: int) -> RecordingEntry | None:
        """The descriptor of a valid recording, or None."""
        return self._by_id.get(recording_id)

    def entries(self) -> Iterator[RecordingEntry]:
        """The valid entries, ordered by recording id."""
        return iter(self._by_id.values())

    def entries_from(self, recording_id: int) -> Iterator[RecordingEntry]:
        """The entries that are valid now, from `recording_id` on. Later additions do not join the iteration."""
        return iter([entry for entry in self._by_id.values() if entry.recording_id >= recording_id])

    def add(self, entry: RecordingEntry) -> RecordingEntry:
        """Append a descriptor under the next recording id, which is set in `entry`.

        Raises `StorageError`: the recording then does not exist, and the next one takes its place in the file.
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
        """Write where and when (epoch ms) an active recording ended. It has ended also where that raises."""
        stopped = replace(entry, stop_position=position, stop_timestamp=timestamp)
        try:
            self._rewrite(entry, stopped)
        except StorageError:
            self._take(entry, stopped)
            raise

    def record_end(self, entry: RecordingEntry, position: int, timestamp: int) -> None:
        """Change where and when (epoch ms) a stopped recording ends."""
        self._rewrite(entry, replace(entry, stop_position=position, stop_timestamp=timestamp))

    def record_extended(
        self, entry: RecordingEntry, *, control_session_id: int, correlation_id: int, session_id: int
    ) -> None:
        """Mark the recording as active again, for another request and with another session."""
        extended = replace(
            entry,
            control_session_id=control_session_id,
            correlation_id=correlation_id,
            session_id=session_id,
            stop_timestamp=NULL_VALUE,
            stop_position=NULL_POSITION,
        )
        self._rewrite(entry, extended)

    def record_start(self, entry: RecordingEntry, position: int) -> None:
        """Change the start position of a recording to another segment."""
        self._rewrite(entry, replace(entry, start_position=position))

    def record_channel(self, entry: RecordingEntry, original: str, stripped: str) -> None:
        """Change the channel under which the recording is found."""
        self.replace(entry, replace(entry, original_channel=original, stripped_channel=stripped))

    def record_deleted(self, entry: RecordingEntry) -> None:
        """Mark the recording as deleted: its entry stays in the file, but no search finds it."""
        self._rewrite(entry, replace(entry, state=am.RecordingState.DELETED))
        del self._by_id[entry.recording_id]

    def deleted_ids(self) -> set[int]:
        """The ids of purged recordings, which may have left files behind."""
        return {entry.recording_id for entry in self._raw if entry.state == am.RecordingState.DELETED}

    def replace(self, entry: RecordingEntry, changed: RecordingEntry) -> None:
        """Write `changed` in place of `entry`, which takes its values. Texts and lengths may differ. If the entry
        grows, the entries after it shift to the right.

        A change of the entry's length is durable when the call returns. Raises `StorageError`: the file is then either
        the old one, or the new one under a name that a power cut may take back.
        """
        start, old_end = entry.offset, entry.offset + DESCRIPTOR_HEADER_LENGTH + entry.length
        data = changed.encode(entry.length, self._checksum)
        growth = len(data) - (old_end - start)
        if growth == 0:
            self._rewrite(entry, changed)
            return
        self._replace_file(self._image[:start] + data + self._image[old_end:])
        entry.take(changed)
        entry.length = len(data) - DESCRIPTOR_HEADER_LENGTH
        for other in self._raw:
            if other.offset > start:
                other.offset += growth
        self._storage.sync_directory(self._directory)

    def descriptor_message(self, entry: RecordingEntry, control_session_id: int, correlation_id: int) -> bytes:
        """Encode a RecordingDescriptor message: the ids of the request, then the stored descriptor (Aeron)."""
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
        """Call `done` with None once everything written so far is durable (at once at sync level 0), or with an error.

        At most one sync is in flight; calls during it share the next one.
        """
        if self._sync_level == 0:
            done(None)
            return
        self._waiting.append(done)
        if not self._is_forcing:
            self._start_force()

    def sync(self) -> None:
        """Make everything durable like `force`, but block: for the start and end of a process. Raises
        `StorageError`.
        """
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

    def _rewrite(self, entry: RecordingEntry, changed: RecordingEntry) -> None:
        """Write `changed` in place of `entry`, which takes its values when the file has them."""
        self._file.write(entry.offset, (changed.encode(entry.length, self._checksum),))
        self._take(entry, changed)

    def _take(self, entry: RecordingEntry, changed: RecordingEntry) -> None:
        """Let requests see `changed`."""
        data = changed.encode(entry.length, self._checksum)
        self._image[entry.offset : entry.offset + len(data)] = data
        entry.take(changed)

    def _write(self, start: int, end: int) -> None:
        self._file.write(start, (bytes(self._image[start:end]),))

    def _replace_file(self, image: bytearray) -> None:
        """Replace the file by a new one with this image. The new file is durable before it takes the old one's name.

        Raises `UsageError` for an image that no catalog holds, `StorageError` when it cannot be written.
        """
        capacity = self._capacity_for(len(image))
        new_path = f"{self._directory}/{NEW_FILE_NAME}"
        file = self._storage.open(new_path, create=True)
        try:
            file.truncate(0)
            file.truncate(capacity)
            file.write(0, (bytes(image),))
            # Even at sync level 0: a rename that outlives the file's bytes in a power cut would lose every entry.
            file.sync(max(self._sync_level, 1))
            self._storage.rename(new_path, f"{self._directory}/{FILE_NAME}")
        except StorageError:
            file.close()
            raise
        old, self._file, self._image, self._capacity = self._file, file, image, capacity
        old.close()

    def _ensure_capacity(self, needed: int) -> None:
        capacity = self._capacity_for(needed)
        if capacity > self._capacity:
            self._file.truncate(capacity)
            self._capacity = capacity

    def _capacity_for(self, needed: int) -> int:
        """The file length to use for `needed` bytes. Raises `UsageError` when the catalog is full."""
        if needed > MAX_CAPACITY:
            raise UsageError("the catalog is full")
        capacity = self._capacity
        while capacity < needed:
            capacity = min(capacity + (capacity >> 1), MAX_CAPACITY)
        return capacity
