"""Reads a member's status from the files in its folder: counters, mark files, recording log.

Works on a member that is alive, dead or starting; it only reads. This module starts and ends nothing.
"""

import os
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from upheaval.system.aeron_files import counters_file, driver_pid
from upheaval.system.process_table import process_of
from upheaval.system.status import LEADER, ROLES, MemberStatus
from upheaval_node import counters as counter_types
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.counters import METADATA_LENGTH, STATE_UNUSED, VALUE_LENGTH, Counters
from upheaval_node.errors import NodeError
from upheaval_node.files import cnc, layout

_MARK_PID_OFFSET: Final = 32
_RECORDING_LOG_ENTRY: Final = struct.Struct("<q36xi16x")
_TERM_ENTRY: Final = 0
_INT64: Final = struct.Struct("<q")
_STEP: Final = 64


def member_pids(folder: Path, member_id: int, run_id: str) -> dict[str, int]:
    """The live processes of a member by component, from its mark files.

    The id in an old mark file may by now belong to another process, even one of this run.
    """
    marks = {
        "archive": layout.ARCHIVE_MARK,
        "consensus": layout.CLUSTER_MARK,
        "service": layout.service_mark(0),
    }
    pids = {}
    for component, path in marks.items():
        pid = _mark_pid(folder / path)
        process = process_of(pid, run_id) if pid > 0 else None
        if process is not None and process.member_id == member_id:
            pids[component] = pid
    return pids


def read_member_status(folder: Path, member_id: int, run_id: str) -> MemberStatus:
    """The status of one member, without `leader_member_id`, which `with_leaders` sets."""
    pids = member_pids(folder, member_id, run_id)
    status = MemberStatus(member_id, alive=len(pids) == 3, pids=pids)
    if not status.alive:
        return status
    try:
        counters = read_counters(folder / layout.CNC, pids["archive"])
    except (OSError, NodeError):
        counters = None
    if counters is None:
        # The driver is just creating the file: the member lives but has no status yet.
        return status
    return status_from_counters(status, counters, log_recording_id(_content(folder / layout.RECORDING_LOG)))


def with_leaders(statuses: Iterable[MemberStatus]) -> list[MemberStatus]:
    """Fill in the leader of each member's term, if a live member claims to lead it."""
    members = list(statuses)
    leaders = {status.leadership_term_id: status.member_id for status in members if status.role == LEADER}
    return [replace(status, leader_member_id=leaders.get(status.leadership_term_id, -1)) for status in members]


def read_counters(path: Path, driver_pid: int) -> Counters | None:
    """A copy of the counters in a `cnc.dat`; None when `driver_pid` did not create it, so that its content is stale.

    The file is read and not mapped: a starting member recreates it, and reading a mapping of a truncated file would
    crash the reader. Counters are read in steps, because only the first few of thousands are in use.
    """
    with path.open("rb", buffering=0) as stream:
        header = cnc.read_header(stream.read(cnc.HEADER_LENGTH))
        if header is None or header.pid != driver_pid:
            return None
        fd = stream.fileno()
        metadata = bytearray()
        capacity = header.layout.counters_values_length // VALUE_LENGTH
        while len(metadata) < capacity * METADATA_LENGTH:
            offset = header.counters_metadata_offset + len(metadata)
            step = os.pread(fd, _STEP * METADATA_LENGTH, offset)
            metadata += step
            states = memoryview(step).cast("i")[:: METADATA_LENGTH // 4].tolist()
            if STATE_UNUSED in states or len(step) < _STEP * METADATA_LENGTH:
                break
        count = len(metadata) // METADATA_LENGTH
        values = bytearray(os.pread(fd, count * VALUE_LENGTH, header.counters_values_offset))
    return Counters(memoryview(values), memoryview(metadata))


def last_commit_position(folder: Path) -> int:
    """The last known commit position of a node, alive or not; -1 when it is unknown."""
    path = counters_file(folder) or folder / layout.CNC
    try:
        counters = read_counters(path, driver_pid(path))
    except (OSError, NodeError):
        return -1
    position = None if counters is None else counters.value_of(counter_types.COMMIT_POSITION)
    return -1 if position is None else position


def has_live_counters(folder: Path) -> bool:
    """Whether the process that made the counters of a node is there, whatever it is."""
    return Path("/proc", str(driver_pid(counters_file(folder) or folder / layout.CNC))).is_dir()


def status_from_counters(status: MemberStatus, counters: Counters, recording_id: int | None) -> MemberStatus:
    """Fill in the values of the counters. `recording_id` is the recording of the member's log, None while it
    has none.
    """
    role = counters.value_of(counter_types.CLUSTER_NODE_ROLE)
    state = counters.value_of(counter_types.ELECTION_STATE)
    prefix = b"" if recording_id is None else counter_types.recording_key_prefix(recording_id)
    append = counters.value_of(counter_types.RECORDING_POSITION, prefix) if prefix else None
    commit = counters.value_of(counter_types.COMMIT_POSITION)
    term = counters.value_of(counter_types.LEADERSHIP_TERM_ID)
    return replace(
        status,
        role=ROLES[role] if role is not None and 0 <= role < len(ROLES) else None,
        election_state=_election_state_name(state),
        append_position=-1 if append is None else append,
        commit_position=-1 if commit is None else commit,
        leadership_term_id=-1 if term is None else term,
    )


def _election_state_name(state: int | None) -> str | None:
    try:
        return None if state is None else ElectionState(state).name
    except ValueError:
        return None


def _mark_pid(path: Path) -> int:
    try:
        with path.open("rb") as stream:
            head = stream.read(_MARK_PID_OFFSET + _INT64.size)
    except OSError:
        return -1
    if len(head) < _MARK_PID_OFFSET + _INT64.size:
        return -1
    pid: int = _INT64.unpack_from(head, _MARK_PID_OFFSET)[0]
    return pid


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def log_recording_id(recording_log: bytes) -> int | None:
    """The recording of the log, from the content of a recording log; None before the member has one."""
    for offset in range(0, len(recording_log) - _RECORDING_LOG_ENTRY.size + 1, _RECORDING_LOG_ENTRY.size):
        recording_id, entry_type = _RECORDING_LOG_ENTRY.unpack_from(recording_log, offset)
        if entry_type == _TERM_ENTRY:
            assert isinstance(recording_id, int)
            return recording_id
    return None
