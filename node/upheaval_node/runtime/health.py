"""`python -m upheaval_node.runtime.health [--json] [FOLDER]`: what a member's own counters say, read from its folder.

The health check of the container image, and the eye of every runtime that cannot map the member's files itself. Reads
only. Exit status 0: a live member whose consensus module publishes a role; 1: anything else.
"""

import argparse
import json
import os
import struct
import sys
from collections.abc import Sequence
from typing import Final

from upheaval_node import counters as types
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.counters import Counters
from upheaval_node.files import layout
from upheaval_node.runtime.mark_lock import is_locked
from upheaval_node.runtime.shared_counters import attach_cnc

ROLES: Final = ("FOLLOWER", "CANDIDATE", "LEADER")
_TERM_ENTRY: Final = 0
_ENTRY_LENGTH: Final = 64
_RECORDING_AND_TYPE: Final = struct.Struct("<q36xi")


def read_health(folder: str) -> dict[str, object]:
    """Role, election state, term and positions; `alive` is False when a component of the member is missing."""
    marks = (layout.ARCHIVE_MARK, layout.CLUSTER_MARK, layout.service_mark(0))
    alive = all(is_locked(os.path.join(folder, mark)) for mark in marks)
    health: dict[str, object] = {"alive": alive}
    cnc = attach_cnc(os.path.join(folder, layout.CNC)) if alive else None
    if cnc is None:
        return health
    counters = cnc.counters()
    role = _value(counters, types.CLUSTER_NODE_ROLE)
    state = _value(counters, types.ELECTION_STATE)
    recording_id = _log_recording_id(os.path.join(folder, layout.RECORDING_LOG))
    append = None
    if recording_id is not None:
        append = _value(counters, types.RECORDING_POSITION, types.recording_key_prefix(recording_id))
    health |= {
        "pid": cnc.header.pid,
        "role": ROLES[role] if role is not None and 0 <= role < len(ROLES) else None,
        "election_state": ElectionState(state).name if state in {each.value for each in ElectionState} else None,
        "leadership_term_id": _or_none_yet(_value(counters, types.LEADERSHIP_TERM_ID)),
        "append_position": _or_none_yet(append),
        "commit_position": _or_none_yet(_value(counters, types.COMMIT_POSITION)),
    }
    cnc.close()
    return health


def _value(counters: Counters, type_id: int, key_prefix: bytes = b"") -> int | None:
    counter = counters.find(type_id, key_prefix)
    return None if counter is None else counter.get()


def _or_none_yet(value: int | None) -> int:
    return -1 if value is None else value


def _log_recording_id(path: str) -> int | None:
    """The recording of the log, which the first TERM entry of the recording log names."""
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError:
        return None
    for offset in range(0, len(content) - _ENTRY_LENGTH + 1, _ENTRY_LENGTH):
        recording_id, entry_type = _RECORDING_AND_TYPE.unpack_from(content, offset)
        if entry_type == _TERM_ENTRY:
            return int(recording_id)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line about the member in the folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="upheaval-health", description="Say how the member of a folder is.")
    parser.add_argument("--json", action="store_true", help="all fields as one JSON object")
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER")
    options = parser.parse_args(arguments)
    health = read_health(options.folder)
    is_healthy = health.get("role") is not None
    print(json.dumps(health) if options.json else f"{health.get('role') or 'no role yet'}")
    return 0 if is_healthy else 1


if __name__ == "__main__":
    sys.exit(main())
