"""recording-log, recovery-plan, sort, seed and invalidate: the commands on the recording log of a node.

Source: Aeron Cluster, ClusterTool and recording log. A file that cannot be read whole is never rewritten. A log that a
running component has open is not replaced: the component would continue to write the old file.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from upheaval_node.archive.reader import Recording, recordings_of
from upheaval_node.errors import DecodeError, NodeError, UsageError
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.files.recording_log_entry import (
    Entry,
    EntryType,
    encode_entry,
    read_entries,
    sort_key,
)
from upheaval_node.files.recovery_plan import LogPlan, RecordingExtent, RecoveryPlan, make_recovery_plan
from upheaval_node.tool.answer import FAILURE, Answer, ToolFault, Value
from upheaval_node.tool.marks import find_mark
from upheaval_node.tool.memory_file import MemoryFile, OneFile
from upheaval_node.tool.node import RECORDING_LOG, Node
from upheaval_node.types import LOG_START, NULL_POSITION

BACKUP: Final = f"{RECORDING_LOG}.bak"
MAX_SERVICES: Final = 127


class LogFile:
    """The recording log as read. `entries` are sorted; `rest` is the bytes after the last whole record."""

    def __init__(self, node: Node) -> None:
        """Raises `ToolFault` if the log is missing or cannot be read."""
        self.path = f"{node.cluster_dir}/{RECORDING_LOG}"
        content = node.read(self.path)
        if content is None:
            raise ToolFault(f"{self.path} does not exist")
        self.content: Final = content
        try:
            entries, _, end = read_entries(content)
        except DecodeError as error:
            raise ToolFault(f"{self.path} is damaged: {error}") from error
        self.entries = sorted(entries, key=sort_key)
        self.rest = content[end:]

    def require_whole(self) -> None:
        """Raises `ToolFault` if a part of the file cannot be read: rewriting would lose it."""
        if any(self.rest):
            raise ToolFault(f"{self.path} is damaged: {len(self.rest)} bytes after its last record; not changed")


def recording_log(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001 - all commands have this shape
    """The sorted entries and the index of each term, as Aeron's ClusterTool prints them."""
    entries = LogFile(node).entries
    index = _terms(entries)
    shown = ", ".join(f"{term}={at}" for term, at in index.items())
    text = f"RecordingLog{{entries=[{', '.join(map(entry_text, entries))}], cacheIndex={{{shown}}}}}"
    values: dict[str, Value] = {
        "entries": [entry_values(entry) for entry in entries],
        "cacheIndex": {str(term): at for term, at in index.items()},
    }
    return Answer([text], values)


def sort_recording_log(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001
    """Sort the records of the file as in memory. If they are sorted, or there are none, the answer is -1."""
    if node.read(f"{node.cluster_dir}/{RECORDING_LOG}") is None:
        return Answer([], {"sorted": False}, FAILURE)
    log = LogFile(node)
    if all(entry.entry_index == index for index, entry in enumerate(log.entries)):
        return Answer([], {"sorted": False}, FAILURE)
    log.require_whole()
    _require_idle(node)
    node.replace(log.path, _encoded(log.entries))
    return Answer([], {"sorted": True})


def seed_recording_log_from_snapshot(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001
    """Keep only the newest valid snapshot, as the start of a new log. The old file is kept beside the new one."""
    log = LogFile(node)
    _require_idle(node)
    node.replace(f"{node.cluster_dir}/{BACKUP}", log.content)
    snapshot = [replace(e, term_base_log_position=LOG_START, log_position=LOG_START) for e in newest_set(log.entries)]
    if snapshot:
        node.replace(log.path, _encoded(snapshot))
    else:
        node.remove(log.path)
    return Answer([], {"entries": [entry_values(entry) for entry in snapshot], "backup": BACKUP})


def invalidate_latest_snapshot(node: Node, arguments: Sequence[str]) -> Answer:  # noqa: ARG001
    """Write in place to a log that a running module has open; replace any other."""
    log = LogFile(node)
    memory = MemoryFile(log.content)
    try:
        is_changed = RecordingLog(OneFile(memory), log.path, create=False).invalidate_latest_snapshot()
    except NodeError as error:
        raise ToolFault(str(error)) from error
    if is_changed and _is_in_use(node):
        # The module's entry is the first of each set: without it the others do not count.
        for offset, content in memory.writes:
            node.write_at(log.path, offset, content)
    elif is_changed:
        node.replace(log.path, memory.content + log.rest)
    line = f" invalidate latest snapshot: {str(is_changed).lower()}"
    return Answer([line], {"invalidated": is_changed}, 0 if is_changed else FAILURE)


def recovery_plan(node: Node, arguments: Sequence[str]) -> Answer:
    """`arguments`: the number of services. The end of the log is read from the archive's files."""
    services = _service_count(arguments[0])
    entries = LogFile(node).entries
    terms = [entry for entry in entries if entry.type is EntryType.TERM and entry.is_valid]
    last = max(terms, key=lambda entry: entry.leadership_term_id, default=None)
    try:
        plan = make_recovery_plan(entries, last, services, None if last is None else _extent(node, last.recording_id))
    except UsageError as error:
        raise ToolFault(f"no recovery plan: {error}") from error
    return Answer([_plan_text(plan)], _plan_values(plan))


def newest_set(entries: Sequence[Entry]) -> list[Entry]:
    """The newest valid snapshot of the module and those of the services before it, in the order of memory."""
    index = next((at for at in range(len(entries) - 1, -1, -1) if entries[at].is_module_snapshot), None)
    if index is None:
        return []
    first = index
    while first > 0 and entries[first - 1].is_valid_snapshot and entries[first - 1].service_id == index - first:
        first -= 1
    return list(entries[first : index + 1])


def read_recording(node: Node, recording_id: int) -> Recording:
    """A recording of the node's archive. Raises `ToolFault` if it is missing or cannot be read."""
    folder = node.archive()
    if folder is None:
        raise ToolFault("the archive's folder cannot be found: name it with --archive")
    try:
        recordings = recordings_of(folder)
    except NodeError as error:
        raise ToolFault(f"the archive cannot be read: {error}") from error
    for recording in recordings:
        if recording.recording_id == recording_id:
            return recording
    raise ToolFault(f"the archive has no recording {recording_id}")


# --- helpers


def _encoded(entries: Sequence[Entry]) -> bytes:
    return b"".join(encode_entry(entry) for entry in entries)


def _is_in_use(node: Node) -> bool:
    mark = find_mark(node)
    return mark is not None and node.is_in_use(mark.path, mark.header)


def _require_idle(node: Node) -> None:
    if _is_in_use(node):
        raise ToolFault(f"{RECORDING_LOG} is in use: the node runs, and would go on writing into the old file")


def _terms(entries: Sequence[Entry]) -> dict[int, int]:
    """The index in memory of each valid term."""
    return {
        entry.leadership_term_id: at
        for at, entry in enumerate(entries)
        if entry.type is EntryType.TERM and entry.is_valid
    }


def _service_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= MAX_SERVICES):
        raise ToolFault(f"expected a service count from 0 to {MAX_SERVICES}, got {text[:20]!r}")
    return int(text)


def _extent(node: Node, recording_id: int) -> RecordingExtent:
    """The extent as an archive reports it: the stop position of an active recording is -1."""
    recording = read_recording(node, recording_id)
    entry = recording.entry
    stop = entry.stop_position
    if stop == NULL_POSITION and not _is_in_use(node):
        # The end of a killed archive's recording, as the archive will find it at its next start.
        stop = recording.end_position
    return RecordingExtent(
        recording_id, entry.start_position, stop, entry.initial_term_id, entry.term_length, entry.mtu, entry.session_id
    )


# --- showing


def entry_values(entry: Entry) -> dict[str, Value]:
    """An entry with the field names of Aeron's RecordingLog.Entry."""
    values: dict[str, Value] = {
        "recordingId": entry.recording_id,
        "leadershipTermId": entry.leadership_term_id,
        "termBaseLogPosition": entry.term_base_log_position,
        "logPosition": entry.log_position,
        "timestamp": entry.timestamp,
        "serviceId": entry.service_id,
        "type": entry.type.name,
        "isValid": entry.is_valid,
        "entryIndex": entry.entry_index,
    }
    if entry.type is EntryType.STANDBY_SNAPSHOT:
        values["archiveEndpoint"] = entry.archive_endpoint
    return values


def entry_text(entry: Entry) -> str:
    """An entry in the form of Aeron's RecordingLog.Entry."""
    values = entry_values(entry)
    return f"Entry{{{', '.join(f'{name}={_shown(value)}' for name, value in values.items())}}}"


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _snapshot_values(entry: Entry) -> dict[str, Value]:
    values = entry_values(entry)
    return {name: values[name] for name in list(values)[:6]}


def _log_values(log: LogPlan) -> dict[str, Value]:
    return {
        "recordingId": log.recording_id,
        "leadershipTermId": log.leadership_term_id,
        "termBaseLogPosition": log.term_base_log_position,
        "logPosition": log.log_position,
        "startPosition": log.start_position,
        "stopPosition": log.stop_position,
        "initialTermId": log.initial_term_id,
        "termBufferLength": log.term_length,
        "mtuLength": log.mtu,
        "sessionId": log.session_id,
    }


def _plan_values(plan: RecoveryPlan) -> dict[str, Value]:
    return {
        "lastLeadershipTermId": plan.last_leadership_term_id,
        "lastTermBaseLogPosition": plan.last_term_base_log_position,
        "appendedLogPosition": plan.appended_log_position,
        "committedLogPosition": plan.committed_log_position,
        "snapshots": [_snapshot_values(entry) for entry in plan.snapshots],
        "log": None if plan.log is None else _log_values(plan.log),
    }


def _plan_text(plan: RecoveryPlan) -> str:
    heads = [f"{name}={value}" for name, value in list(_plan_values(plan).items())[:4]]
    snapshots = ", ".join(_record("Snapshot", _snapshot_values(entry)) for entry in plan.snapshots)
    log = "null" if plan.log is None else _record("Log", _log_values(plan.log))
    return f"RecoveryPlan[{', '.join(heads)}, snapshots=[{snapshots}], log={log}]"


def _record(name: str, values: dict[str, Value]) -> str:
    return f"{name}[{', '.join(f'{key}={value}' for key, value in values.items())}]"
