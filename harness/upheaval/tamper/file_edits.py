"""Edits of recordings, catalogs, recording logs, node states and mark files of members."""

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.records import MemberFolder
from upheaval.tamper.edit import applied_by, edit
from upheaval.tamper.log_change import change_one_log, operation_id, place_in_the_middle, place_of
from upheaval.tamper.recordings import (
    MODULE,
    SNAPSHOT,
    TERM,
    Entry,
    LogRecord,
    log_of,
    log_records,
    put_in_file,
    put_log_records,
)
from upheaval.tamper.run_copy import Lacking, RunCopy, need, remove

_CANDIDATE_TERM: Final = 24
"""The offset of the candidate term in node-state.dat."""
_MARK_PROCESS: Final = 32
"""The offset of the process id in a mark file."""
_SESSION_OF_RECORDING, _STREAM_OF_RECORDING, _START = 72, 76, 40


def _flip(run: RunCopy, members: list[int]) -> None:
    def flipped(entries: list[Entry]) -> list[Entry]:
        entries[place_in_the_middle(entries)].message[-1] ^= 1
        return entries

    for member in members:
        change_one_log(run, member, flipped)


def one_log_has_another_byte(run: RunCopy) -> None:
    """A byte of an operation in one log."""
    need(len(run.members) > 1, "a single member")
    _flip(run, [run.members[-1]])


def the_logs_of_a_majority_have_another_byte(run: RunCopy) -> None:
    """The same byte in the logs of a majority."""
    need(len(run.members) > 1, "a single member")
    _flip(run, list(run.members)[: len(run.members) // 2 + 1])


def one_log_lacks_its_last_entry(run: RunCopy) -> None:
    """The last entry of one log."""
    need(len(run.members) > 1, "a single member")
    _cut(run.last_member)


def all_logs_lack_their_last_entry(run: RunCopy) -> None:
    """The last entry of all logs."""
    for member in run.members:
        _cut(run.folder.member(member))


def _cut(folder: MemberFolder) -> None:
    log = log_of(folder)
    log.stop_at(log.write(log.read()[:-1]))


def one_log_ends_in_a_torn_frame(run: RunCopy) -> None:
    """Half of the last frame of one log."""
    log = log_of(run.last_member)
    end = log.read()[-1].end
    base = (end - 1) // log.segment_length * log.segment_length
    content = bytearray(log.path(base).read_bytes())
    at = end - base
    content[at - 32 : at] = bytes(32)
    log.put_segment(base, bytes(content))


def one_log_has_a_hole(run: RunCopy) -> None:
    """A frame in the middle of one log."""
    log = log_of(run.last_member)
    content = bytearray(log.path().read_bytes())
    entries = log.read()
    middle = [entry.end for entry in entries if entry.end < log.segment_length]
    begin, end = middle[len(middle) // 2], middle[len(middle) // 2 + 1]
    content[begin:end] = bytes(end - begin)
    log.put_segment(0, bytes(content))


def a_majority_of_logs_go_on_after_their_end(run: RunCopy) -> None:
    """An entry after the end of most logs."""
    need(len(run.members) > 1, "a single member")
    for member in list(run.members)[: len(run.members) // 2 + 1]:
        change_one_log(run, member, _with_one_more)


def _with_one_more(entries: list[Entry]) -> list[Entry]:
    at = max(at for at, entry in enumerate(entries) if operation_id(entry) is not None)
    return [*entries, entries[at].copy()]


def one_log_has_a_gap_of_padding(run: RunCopy) -> None:
    """Padding for an entry of one log."""
    need(len(run.members) > 1, "a single member")
    log = log_of(run.last_member)
    entries = log.read()
    at = place_of(entries, lambda entry: operation_id(entry) is not None, "no operation in the log")
    content = bytearray(log.path().read_bytes())
    begin, end = entries[at - 1].end, entries[at].end
    content[begin + 6 : begin + 8] = bytes(2)
    content[begin + 32 : end] = bytes(end - begin - 32)
    log.put_segment(0, bytes(content))


def a_log_has_a_segment_more(run: RunCopy) -> None:
    """A segment file more of one log."""
    log = log_of(run.last_member)
    base = 0
    while log.path(base).exists():
        base += log.segment_length
    shutil.copyfile(log.path(), log.path(base))


def there_is_a_recording_more(run: RunCopy) -> None:
    """A recording that no catalog has."""
    log = log_of(run.last_member)
    shutil.copyfile(log.path(), log.path().with_name("900-0.rec"))


# --- the catalog ---


def a_log_stops_too_early(run: RunCopy) -> None:
    """The stop position of one log, two entries earlier."""
    log = log_of(run.last_member)
    log.stop_at(log.read()[-3].end, when_active=True)


def a_log_stops_too_late(run: RunCopy) -> None:
    """The stop position of one log, 320 bytes later."""
    log = log_of(run.last_member)
    log.stop_at(log.read()[-1].end + 320, when_active=True)


def a_log_is_of_another_session(run: RunCopy) -> None:
    """The session of one log in its catalog."""
    log_of(run.last_member).describe(_SESSION_OF_RECORDING, "i", 5)


def a_log_is_of_another_stream(run: RunCopy) -> None:
    """The stream of one log in its catalog."""
    log_of(run.last_member).describe(_STREAM_OF_RECORDING, "i", 106)


def a_log_starts_later(run: RunCopy) -> None:
    """The start of one log in its catalog."""
    log = log_of(run.last_member)
    log.describe(_START, "q", log.read()[4].end)


# --- the recording log ---

Records = list[LogRecord]


def _change_records(run: RunCopy, change: Callable[[Records], Records], *, everywhere: bool = False) -> None:
    for member in run.members if everywhere else [run.members[-1]]:
        folder = run.folder.member(member)
        put_log_records(folder, change(log_records(folder)))


def _changed(
    wanted: Callable[[LogRecord], bool], what: str, change: Callable[[LogRecord], LogRecord | None]
) -> Callable[[Records], Records]:
    """Changes the last valid record that is wanted; removes it if `change` returns None."""

    def changed(records: Records) -> Records:
        places = [at for at, record in enumerate(records) if record.is_valid and wanted(record)]
        need(places, what)
        new = change(records[places[-1]])
        return [*records[: places[-1]], *([] if new is None else [new]), *records[places[-1] + 1 :]]

    return changed


def _is_term(record: LogRecord) -> bool:
    return record.what == TERM


def _is_snapshot(record: LogRecord) -> bool:
    return record.what == SNAPSHOT


@applied_by(_change_records)
def a_term_begins_elsewhere(records: Records) -> Records:
    """Where a term begins, in one recording log."""
    terms = [at for at, record in enumerate(records) if _is_term(record) and record.is_valid]
    need(len(terms) > 1, "one term")
    before, last = records[terms[-2]], records[terms[-1]]
    records[terms[-2]] = replace(before, position=last.base - 96)
    records[terms[-1]] = replace(last, base=last.base - 96)
    return records


def a_term_is_another_one(run: RunCopy) -> None:
    """The id of a term, in one recording log."""
    _change_records(run, _changed(_is_term, "no term", lambda record: replace(record, term=record.term + 3)))


def a_term_is_forgotten(run: RunCopy) -> None:
    """The last term, in one recording log."""
    need(len([1 for record in log_records(run.last_member) if _is_term(record)]) > 1, "one term")
    _change_records(run, _changed(_is_term, "no term", lambda _: None))


def a_term_was_never_named(run: RunCopy) -> None:
    """A term between two others, in one recording log, which has its entries and snapshots in the term before."""

    def joined(records: Records) -> Records:
        terms = [record for record in records if _is_term(record) and record.is_valid]
        pairs = [(before, gone) for before, gone in pairwise(terms[:-1]) if gone.base < gone.position]
        need(pairs, "no term with entries between two others")
        before, gone = pairs[-1]
        changed = [replace(record, position=gone.position) if record is before else record for record in records]
        return [
            replace(record, term=before.term, base=before.base)
            if _is_snapshot(record) and record.term == gone.term
            else record
            for record in changed
            if record is not gone
        ]

    _change_records(run, joined)


def a_term_was_named_a_year_ago(run: RunCopy) -> None:
    """The time of a term, in one recording log."""
    year_ms = 365 * 24 * 3_600_000
    _change_records(
        run, _changed(_is_term, "no term", lambda record: replace(record, timestamp=record.timestamp - year_ms))
    )


def one_recording_log_has_no_snapshot(run: RunCopy) -> None:
    """The last snapshot, in one recording log."""
    _change_records(run, _without_last_snapshot)


def all_recording_logs_have_no_snapshot(run: RunCopy) -> None:
    """The last snapshot, in all recording logs."""
    _change_records(run, _without_last_snapshot, everywhere=True)


def _without_last_snapshot(records: Records) -> Records:
    positions = [record.position for record in records if _is_snapshot(record)]
    need(positions, "no snapshot")
    return [record for record in records if not (_is_snapshot(record) and record.position == positions[-1])]


def one_recording_log_has_invalid_snapshots(run: RunCopy) -> None:
    """All snapshots of a member as invalid."""
    _change_records(run, _invalidated)


def all_recording_logs_have_invalid_snapshots(run: RunCopy) -> None:
    """All snapshots as invalid."""
    _change_records(run, _invalidated, everywhere=True)


def _invalidated(records: Records) -> Records:
    need(any(_is_snapshot(record) and record.is_valid for record in records), "no snapshot")
    return [record.invalidated() if _is_snapshot(record) and record.is_valid else record for record in records]


def a_snapshot_lacks_its_service(run: RunCopy) -> None:
    """The service's part of one snapshot of a member."""
    _change_records(
        run, _changed(lambda record: _is_snapshot(record) and record.service != MODULE, "no snapshot", lambda _: None)
    )


def all_snapshots_lack_their_service(run: RunCopy) -> None:
    """The services' parts of all snapshots."""

    def modules_alone(records: Records) -> Records:
        left = [record for record in records if not _is_snapshot(record) or record.service == MODULE]
        need(len(left) < len(records), "no snapshot")
        return left

    _change_records(run, modules_alone, everywhere=True)


def a_snapshot_is_elsewhere_in_the_log(run: RunCopy) -> None:
    """The position of a snapshot of a member.

    With the checksum of its record.
    """
    _change_records(
        run, _changed(_is_snapshot, "no snapshot", lambda record: replace(record, position=record.position - 96))
    )


@applied_by(_change_records)
def a_snapshot_is_of_another_recording(records: Records) -> Records:
    """The recording of a snapshot, that of the one before."""
    modules = [at for at, record in enumerate(records) if _is_snapshot(record) and record.service == MODULE]
    need(len(modules) > 1, "one snapshot")
    before = records[modules[-2]]
    records[modules[-1]] = replace(records[modules[-1]], recording_id=before.recording_id, tail=before.tail)
    return records


def a_snapshot_has_another_length(run: RunCopy) -> None:
    """The length of a snapshot of a member."""
    _change_records(run, _changed(_is_snapshot, "no snapshot", lambda record: record.of_length(64)))


# --- node states and mark files ---


def a_node_state_forgets_its_vote(run: RunCopy) -> None:
    """The candidate term in a node state, one lower."""
    _put_candidate_term(run, lambda term: term - 1)


def a_node_state_names_a_later_term(run: RunCopy) -> None:
    """The candidate term in a node state, five higher."""
    _put_candidate_term(run, lambda term: term + 5)


def _put_candidate_term(run: RunCopy, change: Callable[[int], int]) -> None:
    for member in run.members:
        path = run.folder.member(member).cluster / "node-state.dat"
        need(path.exists(), "no node state")
        (term,) = struct.unpack_from("<q", path.read_bytes(), _CANDIDATE_TERM)
        if term > 0:
            put_in_file(path, _CANDIDATE_TERM, change(term))
            return
    raise Lacking("no vote after the first term")


def a_node_state_is_gone(run: RunCopy) -> None:
    """A node state."""
    remove(run.last_member.cluster / "node-state.dat", "no node state")


def a_mark_file_is_of_another_process(run: RunCopy) -> None:
    """The process in a mark file."""
    put_in_file(run.last_member.cluster / "cluster-mark.dat", _MARK_PROCESS, 77)


def a_mark_file_is_that_of_another_member(run: RunCopy) -> None:
    """A mark file, that of another member."""
    need(len(run.members) > 1, "a single member")
    one, other = run.folder.member(run.members[0]), run.last_member
    shutil.copyfile(one.cluster / "cluster-mark.dat", other.cluster / "cluster-mark.dat")


def a_mark_file_is_gone(run: RunCopy) -> None:
    """A mark file."""
    remove(run.last_member.cluster / "cluster-mark.dat", "no mark file")


def a_members_folder_is_that_of_another(run: RunCopy) -> None:
    """The folder of a member, that of another."""
    need(len(run.members) > 1, "a single member")
    one, other = run.folder.member(run.members[0]), run.last_member
    shutil.rmtree(other.path)
    shutil.copytree(one.path, other.path)


_EQUAL = Promise.LOGS_EQUAL
_WHOLE = Promise.LOGS_COMPLETE
_FINAL = Promise.FINAL_POSITIONS
_LOST = Promise.ACKNOWLEDGED_NOT_LOST
_BOUND = Promise.EVIDENCE_BOUND
_COMPLETE = Promise.EVIDENCE_COMPLETE
_SNAPSHOTS = (_COMPLETE, _BOUND, Promise.SNAPSHOT_IS_REPLAY, Promise.STATES_AGREE, Promise.ADMIN_COMMANDS_PROVED)

FILE_EDITS = (
    edit(one_log_has_another_byte, _EQUAL),
    edit(the_logs_of_a_majority_have_another_byte, _EQUAL, _LOST),
    edit(one_log_lacks_its_last_entry, _WHOLE, _FINAL),
    edit(all_logs_lack_their_last_entry, _WHOLE, _FINAL, _LOST),
    edit(one_log_ends_in_a_torn_frame, _WHOLE, _EQUAL, _FINAL),
    edit(one_log_has_a_hole, _WHOLE, _EQUAL, _FINAL),
    edit(a_majority_of_logs_go_on_after_their_end, _FINAL, Promise.APPLIED_ONCE),
    edit(one_log_has_a_gap_of_padding, _EQUAL),
    edit(a_log_has_a_segment_more, _BOUND, _WHOLE),
    edit(there_is_a_recording_more, _BOUND),
    edit(a_log_stops_too_early, _BOUND),
    edit(a_log_stops_too_late, _BOUND),
    edit(a_log_is_of_another_session, _BOUND),
    edit(a_log_is_of_another_stream, _BOUND),
    edit(a_log_starts_later, _BOUND, _WHOLE, _EQUAL),
    edit(a_term_begins_elsewhere, _BOUND),
    edit(a_term_is_another_one, _BOUND),
    edit(a_term_is_forgotten, _BOUND),
    edit(a_term_was_never_named, Promise.ENTRIES_IN_TERM),
    edit(a_term_was_named_a_year_ago, _BOUND, Promise.TIME_KEPT),
    edit(one_recording_log_has_no_snapshot, *_SNAPSHOTS),
    edit(all_recording_logs_have_no_snapshot, *_SNAPSHOTS),
    edit(one_recording_log_has_invalid_snapshots, *_SNAPSHOTS),
    edit(all_recording_logs_have_invalid_snapshots, *_SNAPSHOTS),
    edit(a_snapshot_lacks_its_service, *_SNAPSHOTS),
    edit(all_snapshots_lack_their_service, *_SNAPSHOTS),
    edit(a_snapshot_is_elsewhere_in_the_log, *_SNAPSHOTS),
    edit(a_snapshot_is_of_another_recording, *_SNAPSHOTS),
    edit(a_snapshot_has_another_length, *_SNAPSHOTS),
    edit(a_node_state_forgets_its_vote, Promise.VOTES_KEPT),
    edit(a_node_state_names_a_later_term, _BOUND),
    edit(a_node_state_is_gone, Promise.VOTES_KEPT, _COMPLETE),
    edit(a_mark_file_is_of_another_process, _BOUND),
    edit(a_mark_file_is_that_of_another_member, _BOUND),
    edit(a_mark_file_is_gone, _BOUND, _COMPLETE),
    edit(a_members_folder_is_that_of_another, _BOUND),
)
