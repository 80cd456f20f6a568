"""`recording.log`: the leadership terms of the log, and its snapshots (Aeron Cluster: recording log).

The file keeps records in the order in which they were appended; in memory they are sorted by term, base, kind and
position. The caller passes what an archive knows of a recording as a `RecordingExtent`. Every change is written, and at
sync levels 1 and 2 synced, before the call returns.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.files import layout
from upheaval_node.files.recording_log_entry import (
    CONSENSUS_MODULE_ID,
    LOG_POSITION_OFFSET,
    RECORD_ALIGNMENT,
    REMOVED_TYPE,
    TERM_BASE_OFFSET,
    TYPE_OFFSET,
    Entry,
    EntryType,
    encode_entry,
    encode_position,
    encode_type,
    read_entries,
    sort_key,
)
from upheaval_node.files.recovery_plan import RecordingExtent, RecoveryPlan, make_recovery_plan
from upheaval_node.ports import File, Storage
from upheaval_node.types import NULL_POSITION, NULL_TERM_ID, NULL_VALUE, Position, TermId, align

__all__ = ["Entry", "EntryType", "RecordingExtent", "RecordingLog", "RecoveryPlan"]

# Far above what a cluster ever writes (64 bytes a term or snapshot); a longer file is not a recording log.
MAX_FILE_LENGTH: Final = 256 * 1024 * 1024
_PAGE_LENGTH: Final = 4096


class RecordingLog:
    """The recording log of one member. Misuse raises `UsageError`, a damaged file `DecodeError`."""

    def __init__(
        self, storage: Storage, path: str = layout.RECORDING_LOG, sync_level: int = 0, *, create: bool = True
    ) -> None:
        """Open and read the file. If it is missing, create an empty one (`StorageError` unless `create`)."""
        self._storage = storage
        self._path = path
        self._sync_level = sync_level
        is_new = not storage.exists(path)
        self._file: File = storage.open(path, create=create)
        self._entries: list[Entry] = []
        self._terms: dict[int, Entry] = {}
        self._log_recording_id = NULL_VALUE
        """That of all terms, invalid ones included."""
        self._next_index = 0
        if is_new or sync_level > 0:
            # The process that made the file may have ended before it synced the folder.
            storage.sync_directory(layout.parent(path))
        self.reload()

    # --- reading

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries that were not removed, including invalid ones, in sorted order."""
        return self._entries

    def is_unknown(self, leadership_term_id: TermId) -> bool:
        """Whether there is no valid entry for this term."""
        return leadership_term_id not in self._terms

    def find_last_term(self) -> Entry | None:
        """The valid TERM entry with the highest term id."""
        return self._terms[max(self._terms)] if self._terms else None

    def find_last_term_recording_id(self) -> int:
        """The recording id of the log, -1 without a term."""
        last = self.find_last_term()
        return NULL_VALUE if last is None else last.recording_id

    def find_term_entry(self, leadership_term_id: TermId) -> Entry | None:
        """The valid TERM entry of that leadership term, or None."""
        return self._terms.get(leadership_term_id)

    def get_term_entry(self, leadership_term_id: TermId) -> Entry:
        """Raises `UsageError` when the term is unknown."""
        entry = self._terms.get(leadership_term_id)
        if entry is None:
            raise UsageError(f"unknown leadership term {leadership_term_id}")
        return entry

    def find_term_at(self, position: Position, last_term_id: TermId) -> Entry | None:
        """The last TERM up to `last_term_id` that has, or may still get, an entry at `position`; None without one."""
        for entry in self._latest_terms_first():
            is_over = entry.log_position != NULL_POSITION and entry.log_position <= position
            if entry.leadership_term_id <= last_term_id and entry.term_base_log_position <= position and not is_over:
                return entry
        return None

    def base_of_term(self, leadership_term_id: TermId) -> Position:
        """The base position of the term. Raises `UsageError` when it is unknown."""
        return self.get_term_entry(leadership_term_id).term_base_log_position

    def get_latest_snapshot(self, service_id: int = CONSENSUS_MODULE_ID) -> Entry | None:
        """The newest valid snapshot entry of a service (-1: of the consensus module) that belongs to a valid set."""
        for index in range(len(self._entries) - 1, -1, -1):
            if self._entries[index].is_module_snapshot:
                at = index - (service_id + 1)
                entry = self._entries[at] if at >= 0 else None
                if entry is not None and entry.is_valid_snapshot and entry.service_id == service_id:
                    return entry
        return None

    def find_snapshot_at_or_before_or_lowest(self, position: Position, service_count: int) -> list[Entry]:
        """The newest complete snapshot set at or before `position`, else the lowest complete one, else nothing.

        In recording-log order: highest service first, the consensus module last.
        """
        lowest: list[Entry] = []
        for index in range(len(self._entries) - 1, service_count - 1, -1):
            module = self._entries[index]
            if module.is_module_snapshot:
                entries = self._entries[index - service_count : index + 1]
                if all(entry.is_same_set(module) for entry in entries):
                    if module.log_position <= position:
                        return entries
                    lowest = entries
        return lowest

    def latest_standby_snapshots(self, service_count: int) -> dict[str, list[Entry]]:
        """The standby snapshots of the highest complete position of each archive endpoint."""
        by_place: dict[tuple[str, int], list[Entry]] = {}
        for entry in self._entries:
            if entry.is_valid and entry.type is EntryType.STANDBY_SNAPSHOT:
                by_place.setdefault((entry.archive_endpoint, entry.log_position), []).append(entry)
        latest: dict[str, list[Entry]] = {}
        for (endpoint, position), entries in by_place.items():
            if len(entries) == service_count + 1:
                known = latest.get(endpoint)
                if known is None or known[0].log_position < position:
                    latest[endpoint] = entries
        return latest

    def create_recovery_plan(self, service_count: int, extent: RecordingExtent | None = None) -> RecoveryPlan:
        """The recovery plan of the member. `extent` is what the archive knows about the log's recording.

        The recording to query is `find_last_term_recording_id()`; with an empty recording log it may be one that was
        replicated from elsewhere. Raises `UsageError` when the extent of a known log is missing or that of another
        recording, or when a service's snapshot is missing.
        """
        return make_recovery_plan(self._entries, self.find_last_term(), service_count, extent)

    # --- writing

    def append_term(
        self, recording_id: int, leadership_term_id: TermId, term_base_log_position: Position, timestamp: int
    ) -> Entry:
        """Append a TERM. The previous term ends at its base; the new term ends at the base of the next one, if
        known.
        """
        self._require_recording(recording_id)
        if leadership_term_id in self._terms:
            raise UsageError(f"leadership term {leadership_term_id} is already known")
        if leadership_term_id - 1 in self._terms:
            self.commit_log_position(TermId(leadership_term_id - 1), term_base_log_position)
        following = self._terms.get(leadership_term_id + 1)
        end = NULL_POSITION if following is None else following.term_base_log_position
        return self._append(_term(recording_id, leadership_term_id, term_base_log_position, end, timestamp))

    def commit_log_position(self, leadership_term_id: TermId, log_position: Position) -> None:
        """Write the end position of a term. Raises `UsageError` when the term is unknown."""
        entry = self.get_term_entry(leadership_term_id)
        if entry.log_position != log_position:
            self._write(entry.offset + LOG_POSITION_OFFSET, encode_position(log_position))
            self._replace(entry, replace(entry, log_position=log_position))

    def cut_terms(self, position: Position) -> TermId:
        """Invalidate the terms that began after `position`, where the log was cut. Returns the term in which it now
        ends.

        Returns -1 without a term. A term that begins at `position` stays, without length.
        """
        for entry in self._latest_terms_first():
            if entry.term_base_log_position <= position:
                self.commit_log_position(entry.leadership_term_id, position)
                return entry.leadership_term_id
            self.invalidate_entry(entry.entry_index)
        return NULL_TERM_ID

    def move_empty_terms(self, first_term_id: TermId, position: Position) -> None:
        """The log got entries of an earlier term up to `position`: from this one on, its terms begin only there."""
        for entry in list(self._terms.values()):
            if entry.leadership_term_id >= first_term_id and entry.term_base_log_position < position:
                end = NULL_POSITION if entry.log_position == NULL_POSITION else max(entry.log_position, position)
                self._write(entry.offset + TERM_BASE_OFFSET, encode_position(position) + encode_position(end))
                self._replace(entry, replace(entry, term_base_log_position=position, log_position=end))
        self._entries.sort(key=sort_key)
        if not self.is_unknown(TermId(first_term_id - 1)):
            self.commit_log_position(TermId(first_term_id - 1), position)

    def extend_last_term(self, next_term_id: TermId, base: Position) -> None:
        """Extend the last term up to the base of `next_term_id`, which is about to be named, even if it was closed
        before.

        It is closed already if the member closed it to name a term of its own and ended before it wrote that term.
        """
        last = self.find_last_term()
        if last is not None and last.leadership_term_id < next_term_id and NULL_POSITION != last.log_position < base:
            self.commit_log_position(last.leadership_term_id, base)

    def append_snapshot(
        self,
        recording_id: int,
        leadership_term_id: TermId,
        term_base_log_position: Position,
        log_position: Position,
        timestamp: int,
        service_id: int,
        *,
        recorded_length: int = NULL_VALUE,
    ) -> Entry:
        """Append a SNAPSHOT, or make an invalidated entry for the same one valid again. The module's comes last.

        An existing entry stays unchanged: members with the same log have the same snapshot at the same place.
        """
        return self._append_snapshot(
            Entry(
                recording_id,
                leadership_term_id,
                term_base_log_position,
                log_position,
                timestamp,
                service_id,
                EntryType.SNAPSHOT,
                recorded_length=recorded_length,
            )
        )

    def append_standby_snapshot(
        self,
        recording_id: int,
        leadership_term_id: TermId,
        term_base_log_position: Position,
        log_position: Position,
        timestamp: int,
        service_id: int,
        archive_endpoint: str,
    ) -> Entry:
        """Append a snapshot that a standby took; `archive_endpoint` is where it can be fetched.

        An invalidated entry becomes valid again only if its endpoint is the same: Aeron fails to rewrite one. A
        repeated report of the same snapshot replaces the earlier one.
        """
        if not archive_endpoint:
            raise UsageError("a standby snapshot needs an archive endpoint")
        return self._append_snapshot(
            Entry(
                recording_id,
                leadership_term_id,
                term_base_log_position,
                log_position,
                timestamp,
                service_id,
                EntryType.STANDBY_SNAPSHOT,
                archive_endpoint=archive_endpoint,
            )
        )

    def invalidate_entry(self, entry_index: int) -> None:
        """Invalidate the entry with this ordinal. A term then is unknown."""
        entry = self._entry_at(entry_index)
        if entry.is_valid:
            invalid = replace(entry, is_valid=False)
            self._write(entry.offset + TYPE_OFFSET, encode_type(invalid))
            self._replace(entry, invalid)

    def invalidate_latest_snapshot(self) -> bool:
        """Invalidate the newest snapshot: the local and standby sets of its position. False if there is none.

        Raises `UsageError` when the term of the snapshot is unknown.
        """
        heads = [e for e in self._entries if e.is_valid and e.is_snapshot and e.service_id == CONSENSUS_MODULE_ID]
        if not heads:
            return False
        highest = max(entry.log_position for entry in heads)
        for head in heads:
            if head.log_position == highest:
                self.get_term_entry(head.leadership_term_id)
                for entry in self._set_of(head):
                    self.invalidate_entry(entry.entry_index)
        return True

    def latest_snapshot_set(self) -> list[Entry]:
        """The newest valid snapshot of the module and, by id, the services' snapshots of its set; empty if none."""
        module = self.get_latest_snapshot()
        return [] if module is None else [e for e in self._set_of(module) if e.is_same_set(module)]

    def invalidate_snapshot(self, snapshot: Sequence[Entry]) -> None:
        """Invalidate the entries of one set, the module's first: without it the others do not count."""
        for entry in snapshot:
            self.invalidate_entry(entry.entry_index)

    def remove_entry(self, leadership_term_id: TermId, entry_index: int) -> None:
        """Erase an entry; its record still takes its place in the file. Raises `UsageError` if the entry does not
        exist.
        """
        entry = self._entry_at(entry_index)
        if entry.leadership_term_id != leadership_term_id:
            raise UsageError(f"entry {entry_index} belongs to term {entry.leadership_term_id}")
        # Readers skip a removed record by 64 bytes, whatever its length was, so each 64-byte piece is marked.
        for offset in range(entry.offset, entry.offset + len(encode_entry(entry)), RECORD_ALIGNMENT):
            self._write(offset + TYPE_OFFSET, REMOVED_TYPE)
        self.reload()

    def ensure_coherent(
        self,
        recording_id: int,
        initial_log_leadership_term_id: TermId,
        initial_term_base_log_position: Position,
        leadership_term_id: TermId,
        term_base_log_position: Position,
        log_position: Position,
        timestamp: int,
    ) -> None:
        """Make the terms up to `leadership_term_id` known without a gap (Aeron Cluster: recording-log coherence).

        `term_base_log_position` and `log_position` (the end of the term) are -1 where unknown; missing terms become
        terms without length. Does nothing while the log has no recording (-1). Raises `UsageError` when an open term
        would have to end at an unknown base.
        """
        if recording_id == NULL_VALUE:
            return
        self._require_recording(recording_id)
        last = self.find_last_term()
        if last is None:
            first = max(0, initial_log_leadership_term_id)
            missing = range(first, leadership_term_id)
            self._append_terms(recording_id, missing, initial_term_base_log_position, timestamp)
            is_base_known = term_base_log_position != NULL_POSITION
            base = term_base_log_position if is_base_known else initial_term_base_log_position
            self.append_term(recording_id, leadership_term_id, base, timestamp)
        elif last.leadership_term_id < leadership_term_id:
            end = last.log_position
            if end == NULL_POSITION:
                if term_base_log_position == NULL_POSITION:
                    raise UsageError(f"term {last.leadership_term_id} is open and no base of the next term is known")
                end = term_base_log_position
                self.commit_log_position(last.leadership_term_id, end)
            missing = range(last.leadership_term_id + 1, leadership_term_id + 1)
            self._append_terms(recording_id, missing, end, timestamp)
        if log_position != NULL_POSITION:
            self.commit_log_position(leadership_term_id, log_position)

    def force(self, level: int) -> None:
        """Sync the file at `level`, regardless of the level of this log."""
        self._file.sync(level)

    def close(self) -> None:
        """Close the file. It already holds every change."""
        self._file.close()

    def reload(self) -> None:
        """Read the file again. Raises `DecodeError` when it breaks the rules of the format."""
        try:
            self._read()
        except DecodeError as error:
            raise DecodeError(f"{self._path} is damaged: {error}") from error

    def _read(self) -> None:
        size = self._file.size()
        if size > MAX_FILE_LENGTH:
            raise DecodeError(f"it has {size} bytes")
        content = self._file.read(0, size)
        entries, self._next_index, end = read_entries(content)
        if end < size:
            # A record that is cut off at the end, or zeros after a power cut, was never reported as written. Records
            # after such a hole do not count if files are not synced, and cannot exist otherwise.
            if self._sync_level > 0 and not any(content[end : end + RECORD_ALIGNMENT]) and any(content[end:]):
                raise DecodeError(f"record {self._next_index} is missing")
            self._file.truncate(end)
        terms: dict[int, Entry] = {}
        recording_id = NULL_VALUE
        for entry in entries:
            if entry.type is EntryType.TERM:
                if recording_id not in (NULL_VALUE, entry.recording_id):
                    raise DecodeError(f"terms in the recordings {recording_id} and {entry.recording_id}")
                recording_id = entry.recording_id
                if entry.is_valid and terms.setdefault(entry.leadership_term_id, entry) is not entry:
                    raise DecodeError(f"two entries for leadership term {entry.leadership_term_id}")
        self._entries = sorted(entries, key=sort_key)
        self._terms = terms
        self._log_recording_id = recording_id

    # --- helpers

    def _latest_terms_first(self) -> list[Entry]:
        return sorted(self._terms.values(), key=lambda entry: entry.leadership_term_id, reverse=True)

    def _require_recording(self, recording_id: int) -> None:
        """All terms are in one recording."""
        _check_recording_id(recording_id)
        if self._log_recording_id not in (NULL_VALUE, recording_id):
            raise UsageError(f"terms are in recording {self._log_recording_id}, not {recording_id}")

    def _append_terms(self, recording_id: int, terms: Sequence[int], base: Position, timestamp: int) -> None:
        """Append terms without length, later than all that are known. The last one is open."""
        if not terms:
            return
        if terms[0] - 1 in self._terms:
            self.commit_log_position(TermId(terms[0] - 1), base)
        ended = [_term(recording_id, TermId(term_id), base, base, timestamp) for term_id in terms[:-1]]
        self._append(*ended, _term(recording_id, TermId(terms[-1]), base, NULL_POSITION, timestamp))

    def _append_snapshot(self, entry: Entry) -> Entry:
        _check_recording_id(entry.recording_id)
        for known in self._entries:
            if not known.is_same_snapshot(entry):
                continue
            if known.is_valid and (known.is_valid_snapshot or known.recording_id == entry.recording_id):
                # A set has one entry for each service; Aeron appends a second one.
                return known
            revived = replace(entry, entry_index=known.entry_index, offset=known.offset)
            self._write(revived.offset, encode_entry(revived))
            self._replace(known, revived)
            return revived
        return self._append(entry)

    def _append(self, *entries: Entry) -> Entry:
        """Write and sync the entries a page at a time: a power cut that loses some of many leaves no hole before
        others. Returns the last one as it is in the file.
        """
        placed: list[Entry] = []
        content = b""
        begin = align(self._file.size(), RECORD_ALIGNMENT)
        for entry in entries:
            if content and (begin + len(content)) % _PAGE_LENGTH == 0:
                self._write(begin, content)
                begin, content = begin + len(content), b""
            index, offset = self._next_index + len(placed), begin + len(content)
            placed.append(replace(entry, entry_index=index, offset=offset))
            content += encode_entry(placed[-1])
        self._write(begin, content)
        self._next_index += len(placed)
        for entry in placed:
            insort(self._entries, entry, key=sort_key)
            if entry.type is EntryType.TERM:
                self._terms[entry.leadership_term_id] = entry
                self._log_recording_id = entry.recording_id
        return placed[-1]

    def _replace(self, old: Entry, new: Entry) -> None:
        """Put `new` in the place of `old`; both have the same sort key."""
        first = bisect_left(self._entries, sort_key(old), key=sort_key)
        self._entries[self._entries.index(old, first)] = new
        if new.type is EntryType.TERM:
            if new.is_valid:
                self._terms[new.leadership_term_id] = new
            else:
                self._terms.pop(new.leadership_term_id, None)

    def _entry_at(self, entry_index: int) -> Entry:
        for entry in self._entries:
            if entry.entry_index == entry_index:
                return entry
        raise UsageError(f"no entry with index {entry_index}")

    def _set_of(self, head: Entry) -> list[Entry]:
        """The snapshot entry of the module and, directly before it, the entries of services 0, 1, ..."""
        index = self._entries.index(head)
        entries = [head]
        while index >= len(entries):
            entry = self._entries[index - len(entries)]
            is_next = entry.is_valid and entry.type is head.type and entry.service_id == len(entries) - 1
            if not is_next or entry.log_position != head.log_position:
                break
            entries.append(entry)
        return entries

    def _write(self, offset: int, content: bytes) -> None:
        self._file.write(offset, [content])
        self._file.sync(self._sync_level)


def _term(recording_id: int, term_id: TermId, base: Position, end: Position, timestamp: int) -> Entry:
    return Entry(recording_id, term_id, base, end, timestamp, CONSENSUS_MODULE_ID, EntryType.TERM)


def _check_recording_id(recording_id: int) -> None:
    if recording_id == NULL_VALUE:
        raise UsageError("an entry needs a recording")
