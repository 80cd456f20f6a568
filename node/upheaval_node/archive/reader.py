"""Reads recordings from an archive's folder without the archive: for harness, pipeline and tools.

The folder may be in use. A recording that was not stopped is read as recovery does: up to the first place without a
frame, and only as far as the frames are whole. Bytes that were read once never change; read again to get more. Nothing
is ever written, so a torn tail is left for the archive to cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from upheaval_node.archive.catalog import FILE_NAME, RecordingEntry, decode_catalog
from upheaval_node.archive.folder import Folder, folder_of
from upheaval_node.archive.recovery import segment_end
from upheaval_node.archive.segments import (
    entry_segment_base,
    parse_segment_file_name,
    segment_file_name,
)
from upheaval_node.errors import DamageError, DecodeError
from upheaval_node.ports import Storage
from upheaval_node.protocol.archive_messages import RecordingState
from upheaval_node.protocol.frames import FLAG_BEGIN, FLAG_END, TYPE_DATA, walk
from upheaval_node.types import FRAME_HEADER_LENGTH, NULL_POSITION


class RecordedFrame(NamedTuple):
    """One frame as stored in the log. `position` is its begin, `end_position` the begin of the next frame."""

    position: int
    end_position: int
    flags: int
    is_padding: bool
    term_id: int
    term_offset: int
    session_id: int
    stream_id: int
    reserved_value: int
    payload: bytes


class RecordedMessage(NamedTuple):
    """One reassembled message. `end_position` is the position that a subscriber would receive with it."""

    position: int
    end_position: int
    term_id: int
    session_id: int
    stream_id: int
    reserved_value: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording of a folder. `end_position` is how far it was readable when `read_recordings` read the folder.

    `problem` says why that is less than the catalog promises, or None.
    """

    entry: RecordingEntry
    end_position: int
    problem: str | None
    folder: Folder

    @property
    def recording_id(self) -> int:
        """The id of the recording in its archive."""
        return self.entry.recording_id

    @property
    def start_position(self) -> int:
        """Where the recording begins, in the positions of its stream."""
        return self.entry.start_position

    @property
    def is_stopped(self) -> bool:
        """Whether the catalog has a stop position. In a folder in use, an active recording may get one later."""
        return self.entry.stop_position != NULL_POSITION

    def blocks(self, from_position: int | None = None, to_position: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Positions and bytes of whole terms' worth of frames; padding is as long as it was."""
        entry = self.entry
        position = entry.start_position if from_position is None else from_position
        end = self.end_position if to_position is None else min(to_position, self.end_position)
        while position < end:
            base = entry_segment_base(entry, position)
            term_end = (position & -entry.term_length) + entry.term_length
            length = min(end, term_end) - position
            yield position, self.folder.read(segment_file_name(entry.recording_id, base), position - base, length)
            position += length

    def frames(self, from_position: int | None = None, to_position: int | None = None) -> Iterator[RecordedFrame]:
        """Frames from one frame boundary to another, padding included. Raises `DecodeError` for a damaged one."""
        for start, block in self.blocks(from_position, to_position):
            end = 0
            for offset, header in walk(block):
                end = offset + (header.frame_length + 31 & -32)
                is_padding = header.type != TYPE_DATA
                yield RecordedFrame(
                    start + offset,
                    start + end,
                    header.flags,
                    is_padding,
                    header.term_id,
                    header.term_offset,
                    header.session_id,
                    header.stream_id,
                    header.reserved_value,
                    b"" if is_padding else block[offset + FRAME_HEADER_LENGTH : offset + header.frame_length],
                )
            if end < len(block):
                raise DecodeError(f"recording {self.recording_id} holds no frame at {start + end}")

    def messages(self, from_position: int | None = None, to_position: int | None = None) -> Iterator[RecordedMessage]:
        """Messages that begin at or after `from_position`; one that is not whole is left out."""
        parts: list[RecordedFrame] = []
        for frame in self.frames(from_position, to_position):
            if frame.is_padding:
                continue
            if frame.flags & FLAG_BEGIN:
                parts = []
            elif not parts or parts[-1].end_position != frame.position:
                parts = []
                continue
            parts.append(frame)
            if frame.flags & FLAG_END:
                first = parts[0]
                payload = frame.payload if len(parts) == 1 else b"".join(part.payload for part in parts)
                yield RecordedMessage(
                    first.position,
                    frame.end_position,
                    first.term_id,
                    first.session_id,
                    first.stream_id,
                    first.reserved_value,
                    payload,
                )
                parts = []


def read_recordings(source: Storage | Path | str, directory: str = "archive") -> list[Recording]:
    """The valid recordings of an archive's folder, by id.

    A path is that of the archive's folder; of a `Storage` the folder is `directory`. Empty when there is no catalog.
    Raises `DecodeError` for a catalog that cannot be read and `StorageError` when files cannot.
    """
    return recordings_of(folder_of(source, directory))


def recordings_of(folder: Folder) -> list[Recording]:
    """The same for a folder that the caller opened."""
    names = folder.names()
    if FILE_NAME not in names:
        return []
    content = folder.read(FILE_NAME, 0, folder.size(FILE_NAME))
    if not content.strip(b"\0"):
        return []
    valid = [entry for entry in decode_catalog(content).entries if entry.state == RecordingState.VALID]
    return [_recording(folder, names, entry) for entry in sorted(valid, key=lambda entry: entry.recording_id)]


def _recording(folder: Folder, names: list[str], entry: RecordingEntry) -> Recording:
    keys = (parse_segment_file_name(name) for name in names)
    bases = {key[1] for key in keys if key is not None and key[0] == entry.recording_id}
    limit = entry.stop_position
    position = entry.start_position
    problem: str | None = None
    while limit == NULL_POSITION or position < limit:
        base = entry_segment_base(entry, position)
        if base not in bases:
            problem = None if limit == NULL_POSITION else f"segment {base} is missing"
            break
        try:
            position, _ = _segment_end(folder, entry, base, is_last=base == max(bases))
        except DamageError as damage:
            problem, position = str(damage), max(position, damage.whole_end)
            break
        if position < base + entry.segment_length and (limit == NULL_POSITION or position < limit):
            problem = None if limit == NULL_POSITION else f"no whole frame at {position}"
            break
    if limit != NULL_POSITION and position > limit:
        problem, position = f"stop position {limit} is within a frame", limit
    return Recording(entry, position, problem, folder)


def _segment_end(folder: Folder, entry: RecordingEntry, base: int, *, is_last: bool) -> tuple[int, str | None]:
    name = segment_file_name(entry.recording_id, base)
    return segment_end(
        lambda position, length: folder.read(name, position - base, length),
        folder.size(name),
        entry,
        base,
        entry.stop_position,
        is_last=is_last,
    )
