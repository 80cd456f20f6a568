"""`python -m upheaval_node.runtime.health [--json] [--repeat] [FOLDER]`: what a member's own counters say.

Read from its folder. The health check of the container image, and the eye of every runtime that cannot map the member's
files itself. Reads only. Exit status 0: a live member whose consensus module publishes a role; 1: anything else.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from upheaval_node import counters as types
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.counters import Counters
from upheaval_node.files import layout
from upheaval_node.runtime.mark_lock import is_locked
from upheaval_node.runtime.shared_counters import attach_cnc
from upheaval_node.types import NULL_VALUE

ROLES: Final = ("FOLLOWER", "CANDIDATE", "LEADER")


def read_health(folder: str) -> dict[str, object]:
    """Role, election state, term and positions; `alive` is False when a component of the member is missing."""
    alive = is_complete(folder)
    cnc = attach_cnc(os.path.join(folder, layout.CNC)) if alive else None
    if cnc is None:
        return {"alive": alive}
    health = health_of(cnc.counters(), cnc.header.pid)
    cnc.close()
    return health


def is_complete(folder: str) -> bool:
    """Whether each component of the member in the folder is alive."""
    marks = (layout.ARCHIVE_MARK, layout.CLUSTER_MARK, layout.service_mark(0))
    return all(is_locked(os.path.join(folder, mark)) for mark in marks)


def health_of(counters: Counters, pid: int) -> dict[str, object]:
    """The health of a live member, from its counters."""
    role = counters.value_of(types.CLUSTER_NODE_ROLE)
    state = counters.value_of(types.ELECTION_STATE)
    return {
        "alive": True,
        "pid": pid,
        "role": ROLES[role] if role is not None and 0 <= role < len(ROLES) else None,
        "election_state": ElectionState(state).name if state in {known.value for known in ElectionState} else None,
        "leadership_term_id": _or_none_yet(counters.value_of(types.LEADERSHIP_TERM_ID)),
        "append_position": _or_none_yet(append_position(counters)),
        "commit_position": _or_none_yet(counters.value_of(types.COMMIT_POSITION)),
    }


def is_healthy(health: Mapping[str, object], word: str = "role") -> bool:
    """A live member whose consensus module publishes a role; of backups the word is `state`, whichever that is."""
    return health.get(word) is not None


def append_position(counters: Counters) -> int | None:
    """The position up to which the log is recorded; None while it is not being recorded."""
    recording_id = counters.value_of(types.LOG_RECORDING_ID)
    if recording_id is None or recording_id == NULL_VALUE:
        return None
    return counters.value_of(types.RECORDING_POSITION, types.recording_key_prefix(recording_id))


def _or_none_yet(value: int | None) -> int:
    return -1 if value is None else value


def say_health(prog: str, kind: str, read: Callable[[str], Mapping[str, object]], word: str) -> int:
    """Print one line about the node in the folder that the command line names, or with `--repeat` one for each line of
    standard input: `word` is what a healthy one has.

    Returns the exit status.
    """
    parser = argparse.ArgumentParser(prog=prog, description=f"Say how the {kind} of a folder is.")
    parser.add_argument("--json", action="store_true", help="all fields as one JSON object")
    parser.add_argument("--repeat", action="store_true", help="say it again for each line of standard input")
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER")
    options = parser.parse_args()
    health: Mapping[str, object] = {}
    for _ in sys.stdin if options.repeat else ("",):
        health = read(options.folder)
        print(json.dumps(health) if options.json else f"{health.get(word) or f'no {word} yet'}", flush=True)
    return 0 if is_healthy(health, word) else 1


if __name__ == "__main__":
    sys.exit(say_health("upheaval-health", "member", read_health, "role"))
