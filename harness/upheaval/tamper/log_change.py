"""Changes the log on all members at once: later entries move, and so does every position in the run's files."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from upheaval.records import MemberFolder, decode_operation
from upheaval.tamper.recordings import (
    SNAPSHOT,
    Entry,
    LogRecord,
    log_of,
    log_records,
    put_log_records,
    recording_of,
)
from upheaval.tamper.run_copy import COMPANIONS, CONTROLS, HISTORY, Lacking, Line, RunCopy, need
from upheaval_node.errors import DecodeError

MESSAGE, TIMER, OPENED, CLOSED, ACTION, NEW_TERM = 1, 20, 21, 22, 23, 24
"""Templates of entries (Aeron Cluster)."""
MARKER, CLIENT_SESSION, CLUSTER_SESSION, MODULE_STATE, TRACKER = 100, 102, 103, 105, 107
"""Templates of messages in snapshots (Aeron Cluster)."""
MODULE_TIMER = 104
TERM_ID: Final = 8
"""The offset of the term in an entry; the offsets of other fields depend on the template."""
SESSION: Final = 16
TIME: Final = {MESSAGE: 24, TIMER: 24, OPENED: 32, CLOSED: 24, ACTION: 24, NEW_TERM: 24}
PAYLOAD: Final = 32
"""The offset of the payload in a message."""
_POSITIONS: Final = (
    "log_position",
    "append_position",
    "commit_position",
    "position",
    "snapshot_position",
    "standby_position",
    "term_base_log_position",
    "next_term_base_log_position",
    "next_log_position",
)
_AT_POSITION: Final = re.compile(r"(?<=at position )\d+")

Change = Callable[[list[Entry]], list[Entry]]


@dataclass(frozen=True)
class Moved:
    """Maps positions of the old log to positions of the new one."""

    ends: Sequence[int]
    """The ends of the old entries, in order."""
    by: Sequence[int]
    """How far the log moved after each old entry."""
    exact: dict[int, int]
    """The new ends of the entries that remain, by their old ends."""

    def __call__(self, position: int) -> int:
        """The new position; -1 stays, because it is not a position."""
        if position in self.exact:
            return self.exact[position]
        at = bisect_right(self.ends, position) - 1
        return position + self.by[at] if at >= 0 else position


def change_logs(run: RunCopy, change: Change) -> None:
    """Apply a change to the log of every node, and move all positions in the files of the run.

    Raises `Lacking` if a log does not begin at 0, or if `change` raises it.
    """
    longest: Moved | None = None
    for folder in run.node_folders():
        moved = _change_log(folder, change)
        if longest is None or len(moved.ends) > len(longest.ends):
            longest = moved
    assert longest is not None
    _move_files(run, longest)


def change_one_log(run: RunCopy, member: int, change: Change) -> None:
    """Apply a change to one member's log only. It must keep the lengths of entries, because no positions are moved."""
    log = log_of(run.folder.member(member))
    entries = log.read()
    log.write(change(entries))


def change_in_place(run: RunCopy, change: Callable[[list[Entry]], None]) -> None:
    """Change fields of entries on every node, in the same way as `change_logs`."""

    def changed(entries: list[Entry]) -> list[Entry]:
        change(entries)
        return entries

    change_logs(run, changed)


def _change_log(folder: MemberFolder, change: Change) -> Moved:
    log = log_of(folder)
    old = log.read()
    need(old, f"{folder.name} has no log")
    ends = [entry.end for entry in old]
    new = change(list(old))
    end = log.write(new)
    moved = _moved(old, ends)
    if [entry.placed for entry in new] != ends:
        for entry in new:
            _move_entry(entry, moved)
        log.write(new)
        put_log_records(folder, [_moved_record(record, moved) for record in log_records(folder)])
        log.stop_at(end)
        _move_snapshots(folder, moved)
    return moved


def _moved(old: Sequence[Entry], ends: Sequence[int]) -> Moved:
    """The map of positions. A removed entry ends where the entry before it ends."""
    by, at = [], 0
    for entry, end in zip(old, ends, strict=True):
        at = entry.placed if entry.placed >= 0 else at
        by.append(at - end)
    return Moved(ends, by, {end: entry.placed for entry, end in zip(old, ends, strict=True) if entry.placed >= 0})


def _move_entry(entry: Entry, moved: Moved) -> None:
    if entry.end < 0:
        return
    if entry.template in (ACTION, NEW_TERM):
        entry.put(16, "q", moved(entry.long(16)))
    if entry.template == NEW_TERM:
        entry.put(32, "q", moved(entry.long(32)))


def _moved_record(record: LogRecord, moved: Moved) -> LogRecord:
    return replace(record, base=moved(record.base), position=moved(record.position))


def _move_snapshots(folder: MemberFolder, moved: Moved) -> None:
    for record in log_records(folder):
        if record.what != SNAPSHOT or not record.is_valid:
            continue
        with suppress(Lacking):
            recording = recording_of(folder, record.recording_id)
            messages = recording.read()
            for message in messages:
                offset = {MARKER: 16, CLUSTER_SESSION: 24}.get(message.template)
                if offset is not None:
                    message.put(offset, "q", moved(message.long(offset)))
            recording.write(messages)


def _move_files(run: RunCopy, moved: Moved) -> None:
    run.each_trace(lambda _, lines: _move_fields(lines, moved))
    for name in (HISTORY, CONTROLS):
        if (run.path / name).exists():
            with run.changing(name) as lines:
                _move_fields(lines, moved)
    with run.manifest() as manifest:
        _move_fields(manifest["converge"], moved)
    if (run.path / COMPANIONS).exists():
        with run.changing_object(COMPANIONS) as companions:
            _move_fields(companions, moved)


def _move_fields(fields: Any, moved: Moved) -> None:
    """Move all positions in an object and everything inside it."""
    if isinstance(fields, list):
        for element in fields:
            _move_fields(element, moved)
    elif isinstance(fields, dict):
        for name, value in fields.items():
            if name in _POSITIONS and isinstance(value, int):
                fields[name] = moved(value)
            elif name == "evidence":
                fields[name] = _AT_POSITION.sub(lambda match: str(moved(int(match.group()))), value)
            else:
                _move_fields(value, moved)


# --- finding entries ---


def operation_id(entry: Entry) -> int | None:
    """The operation id in a client's message to a shipped service; None for other entries."""
    if entry.template != MESSAGE or entry.long(SESSION) <= 0:
        return None
    try:
        return decode_operation(bytes(entry.message[PAYLOAD:]))[0]
    except DecodeError:
        return None


def place_of(entries: Sequence[Entry], wanted: Callable[[Entry], bool], what: str, *, nth: int = 0) -> int:
    """The index of the nth entry that is wanted, from 0. Raises `Lacking` with `what`."""
    places = [at for at, entry in enumerate(entries) if wanted(entry)]
    need(len(places) > nth, what)
    return places[nth]


def place_of_operation(entries: Sequence[Entry], line: Line) -> int:
    """The index of the entry for a line of the history. Raises `Lacking`."""
    return place_of(entries, lambda entry: operation_id(entry) == line["id"], f"operation {line['id']} is in no log")


def place_in_the_middle(entries: Sequence[Entry]) -> int:
    """The index of the entry of an operation in the middle of a log. Raises `Lacking`."""
    places = [at for at, entry in enumerate(entries) if operation_id(entry) is not None]
    need(places, "no operation in the log")
    return places[len(places) // 2]


def without(entries: list[Entry], at: int) -> list[Entry]:
    """All entries but the one at an index."""
    return [*entries[:at], *entries[at + 1 :]]


def templates(entries: Sequence[Entry], *wanted: int) -> Iterator[int]:
    """The indices of the entries with these templates."""
    return (at for at, entry in enumerate(entries) if entry.template in wanted)


def is_service_message(entry: Entry) -> bool:
    """Whether a service offered the message."""
    return entry.template == MESSAGE and entry.long(SESSION) < 0


def log_entries(run: RunCopy) -> dict[int, Entry]:
    """The entries of clients' operations in the longest log, by operation id."""
    logs = (log_of(run.folder.member(member)).read() for member in run.members)
    longest = max(logs, key=len)
    return {known: entry for entry in longest if (known := operation_id(entry)) is not None}
