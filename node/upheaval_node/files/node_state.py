"""`node-state.dat`: the highest term in which this member has voted or stood, so that it never votes twice in a term.

Layout (Aeron Cluster: node state file): version and padding, then SBE records with a 16-byte header: candidateTerm
(template 301) and the footer (304). Records of other releases in between are skipped.
"""

import struct
from typing import Final

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.files import layout
from upheaval_node.ports import File, Storage
from upheaval_node.protocol import node_state_messages as messages
from upheaval_node.protocol.constants import semantic_version
from upheaval_node.types import NULL_POSITION, NULL_TERM_ID, NULL_VALUE, Position, TermId, align

FILE_LENGTH: Final = 1 << 20

# Semantic version 0.3.0 of the file; only the major part must match.
VERSION: Final = semantic_version(0, 3)

_FIRST_RECORD: Final = 8
_HEADER_LENGTH: Final = 16
_RECORD_ALIGNMENT: Final = 8
_FRAME_LENGTH_OFFSET: Final = 8
_TERM: Final = struct.Struct("<q")
_REST: Final = struct.Struct("<qq")


class NodeState:
    """The durable candidate term of one member. Raises `StorageError` when the disk fails."""

    def __init__(
        self, storage: Storage, path: str = layout.NODE_STATE, sync_level: int = 0, *, create: bool = True
    ) -> None:
        """Open the file, or create it if it is missing (`StorageError` unless `create`).

        Raises `DecodeError` for a file of another major version or one without a footer.
        """
        self.is_new = not storage.exists(path)
        self._sync_level = sync_level
        self._file: File = storage.open(path, create=create)
        content = self._file.read(0, FILE_LENGTH)
        # The creation of a file that is all zeros was interrupted, so it cannot hold a vote yet.
        if not any(content):
            self.is_new = True
            self._file.truncate(FILE_LENGTH)
            self._file.write(0, [_initial_content()])
            self._file.sync(sync_level)
            content = self._file.read(0, FILE_LENGTH)
        if self.is_new or sync_level > 0:
            # The process that made the file may have ended before it synced the folder.
            storage.sync_directory(layout.parent(path))
        header = messages.SCHEMA.decode_body(messages.NodeStateHeader, content)
        if header.version >> 16 != VERSION >> 16:
            raise DecodeError(f"node state file of version {header.version}, ours is {VERSION}")
        self._record_offset, term = _find_candidate_term(content)
        self._candidate_term_id = term.candidate_term_id
        self._timestamp = term.timestamp
        self._log_position = term.log_position

    @property
    def candidate_term_id(self) -> TermId:
        """The highest term voted or stood for; -1 for none."""
        return self._candidate_term_id

    @property
    def log_position(self) -> Position:
        """The end of the log when the term was stored; -1 for none."""
        return self._log_position

    @property
    def timestamp(self) -> int:
        """When the term was stored, in epoch milliseconds; -1 for never."""
        return self._timestamp

    def propose_max_candidate_term_id(self, term: TermId, log_position: Position, timestamp_ms: int) -> TermId:
        """Store `term` if it is higher than the stored one. Returns the higher of the two.

        At sync levels 1 and 2 it is durable on return, so a vote may be sent afterwards.
        """
        if term > self._candidate_term_id:
            self._store(term, log_position, timestamp_ms)
        return self._candidate_term_id

    def close(self) -> None:
        """Close the file. It already holds every stored term."""
        self._file.close()

    def _store(self, term: TermId, log_position: Position, timestamp_ms: int) -> None:
        try:
            rest = _REST.pack(timestamp_ms, log_position)
            term_bytes = _TERM.pack(term)
        except struct.error as error:
            raise UsageError(f"term {term} at {log_position} does not fit the file: {error}") from error
        # The term is written last: a process that reads the file meanwhile sees the old term with newer details.
        self._file.write(self._record_offset + 8, [rest])
        self._file.write(self._record_offset, [term_bytes])
        self._file.sync(self._sync_level)
        self._candidate_term_id = term
        self._log_position = log_position
        self._timestamp = timestamp_ms


def _initial_content() -> bytes:
    return (
        messages.SCHEMA.encode_body(messages.NodeStateHeader(version=VERSION, padding=0))
        + messages.SCHEMA.encode(messages.CandidateTerm(NULL_TERM_ID, NULL_VALUE, NULL_POSITION))
        + messages.SCHEMA.encode(messages.NodeStateFooter())
    )


def _find_candidate_term(content: bytes) -> tuple[int, messages.CandidateTerm]:
    """Offset and content of the candidateTerm record's block. The records must end with a footer."""
    candidate: tuple[int, messages.CandidateTerm] | None = None
    offset = _FIRST_RECORD
    while offset + _HEADER_LENGTH <= len(content):
        record = messages.SCHEMA.decode(content, offset)
        (frame_length,) = struct.unpack_from("<i", content, offset + _FRAME_LENGTH_OFFSET)
        if frame_length < _HEADER_LENGTH:
            break
        if isinstance(record, messages.CandidateTerm):
            candidate = (offset + _HEADER_LENGTH, record)
        elif isinstance(record, messages.NodeStateFooter):
            if candidate is None:
                raise DecodeError("node state file without a candidate term")
            return candidate
        offset += align(frame_length, _RECORD_ALIGNMENT)
    raise DecodeError("node state file without a footer")
