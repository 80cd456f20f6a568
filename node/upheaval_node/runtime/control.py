"""`python -m upheaval_node.runtime.control COMMAND [FOLDER]`: an admin command, through the member's counters.

COMMAND is snapshot, suspend, resume, shutdown, abort, standby-snapshot, or `status` for none. Only the leader takes a
command, any member replicate-standby-snapshot; what came of it is seen by `status`. Prints one JSON object: `refused`
(empty when the command was taken), `module_state`, `snapshot_count`, `snapshot_position`, `standby_position`. Exit
status 0: taken; 1: refused; 2: the folder cannot be read. Without a FOLDER it is that of the member's container.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from upheaval_node.cluster import admin_commands
from upheaval_node.cluster.admin_commands import ADMIN_COMMANDS, ControlStatus
from upheaval_node.errors import NodeError
from upheaval_node.files import layout
from upheaval_node.runtime.shared_counters import attach_cnc

STATUS: Final = "status"


def control_status(folder: str) -> ControlStatus:
    """The status of the member in a folder. If it is down, only its recording log counts.

    Raises `OSError` and `DecodeError` when its files exist and cannot be read.
    """
    cnc = attach_cnc(os.path.join(folder, layout.CNC))
    try:
        return admin_commands.read_control(None if cnc is None else cnc.counters(), _recording_log(folder))
    finally:
        if cnc is not None:
            cnc.close()


def give_command(folder: str, command: str) -> str:
    """Give the command to the member in a folder. Returns why it is refused, or empty text."""
    cnc = attach_cnc(os.path.join(folder, layout.CNC))
    if cnc is None:
        return "the member is not running"
    try:
        return admin_commands.give_command(cnc.counters((0, 0)), command)
    finally:
        cnc.close()


def _recording_log(folder: str) -> bytes:
    try:
        with open(os.path.join(folder, layout.RECORDING_LOG), "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return b""


def main(arguments: Sequence[str] | None = None) -> int:
    """Give the command and print the member's status. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="upheaval-control", description="Give an admin command to the leader of a cluster."
    )
    parser.add_argument("command", choices=[*ADMIN_COMMANDS, STATUS])
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        refused = "" if options.command == STATUS else give_command(options.folder, options.command)
        status = control_status(options.folder)
    except (OSError, NodeError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    print(json.dumps({"refused": refused, **asdict(status)}))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
