"""What runs in the container of a member of Aeron's: the member, and what is asked of it there.

`python -m upheaval.system.aeron_inside status [--repeat] | health | control [COMMAND] | backup | tool
WORD...` prints what the harness outside reads. The container's environment says which member it is, and of which run.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from upheaval.aeron_programs import CLASSES, CONFIGURATION_VARIABLE, IN_IMAGE, JAR, SERVICES_IN_IMAGE, java_line
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import BACKUP, CompanionStatus, MemberFolder
from upheaval.system.aeron import CLASS_PATH_VARIABLE, FOLDER_IN_CONTAINER, AeronSystem
from upheaval.system.aeron_files import PROPERTIES_FILE, counters_file, driver_pid, is_running
from upheaval.system.aeron_launcher import TOOL_OPTIONS, LaunchInside, launch_inside
from upheaval.system.companion_status import status_in_folder
from upheaval.system.process_table import (
    COMPONENT_VARIABLE,
    ENDED_BY_SIGTERM,
    MEMBER_VARIABLE,
    RUN_ID_VARIABLE,
    process_of,
)
from upheaval.system.status import COMPONENTS, MemberStatus
from upheaval.waits import wait_until
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.tool.__main__ import finish, parse

_FOLDER: Final = Path(FOLDER_IN_CONTAINER)
_MEMBER: Final = "{member}"
"""The placeholder for the member's id in a text for several members."""
_USAGE: Final = 2
_WORDS: Final = "usage: status [--repeat] | health | control [COMMAND] | backup [--json FOLDER] | tool WORD..."
_BRIDGE: Final = "bridge"
_BRIDGE_PORT: Final = 9100
_BRIDGE_DIRECTORY: Final = "/dev/shm/upheaval-bridge"
_ARCHIVE: Final = "archive"
_WITH_DRIVER: Final = (_ARCHIVE, "all")
"""The components that include the media driver."""
_DRIVER_TIMEOUT_S: Final = 60
"""Longer than an archive waits for its mark file."""


def run(arguments: Sequence[str]) -> int:
    """Run the member to its end, or the configured backup with `backup`, or a bridge for clients with `bridge`. Returns
    the exit status.
    """
    if list(arguments) == [_BRIDGE]:
        return _run_bridge()
    text = os.environ.get(CONFIGURATION_VARIABLE)
    if text is None:
        print(f"upheaval-aeron: {CONFIGURATION_VARIABLE} is missing: the properties of a member", file=sys.stderr)
        return _USAGE
    if list(arguments) not in ([], [BACKUP]):
        print(f"upheaval-aeron: expected nothing, {BACKUP} or {_BRIDGE}, got {' '.join(arguments)}", file=sys.stderr)
        return _USAGE
    component = os.environ.get(COMPONENT_VARIABLE, "all")
    properties = _FOLDER / PROPERTIES_FILE
    # Other components of the member write the same text, and may read it meanwhile.
    fresh = properties.with_name(f"{properties.name}.{component}")
    fresh.write_text(text.replace(_MEMBER, os.environ.get(MEMBER_VARIABLE, _MEMBER)), encoding="utf-8")
    fresh.replace(properties)
    system = AeronSystem()
    # A component that is asked to end before it has begun has nothing to lose.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    has_driver = component in _WITH_DRIVER
    if has_driver:
        # The directory of a killed driver would pass for that of a running one.
        system.clean_up(_FOLDER)
    time.sleep(system.start_delay_s(_FOLDER, component))
    if not has_driver and not _has_archive():
        print(f"upheaval-aeron: {component}: no archive ran within {_DRIVER_TIMEOUT_S} s", file=sys.stderr)
        return ExitStatus.COMPONENT_LOST
    try:
        launch = None if arguments else launch_inside(properties)
    except UsageError as error:
        print(f"upheaval-aeron: {error}", file=sys.stderr)
        return _USAGE
    if launch is not None:
        status = _status_of_launcher(launch)
    else:
        program = ("upheaval.Backup", str(properties)) if arguments else ("upheaval.Member", str(properties), component)
        status = _status_of(java_line(_class_path(), *program))[0]
    if has_driver:
        system.clean_up(_FOLDER)
    return status


def _run_bridge() -> int:
    """Run a bridge. Clients are in its network name space; members answer to the name of its host."""
    options = (f"-Dupheaval.bridge.port={_BRIDGE_PORT}",)
    program = ("upheaval.Bridge", _BRIDGE_DIRECTORY, socket.gethostname())
    # The bridge ends with its standard input, which a container may lack.
    return _status_of(java_line(_class_path(), *program, options=options), stdin=subprocess.PIPE)[0]


def _status_of_launcher(launch: LaunchInside) -> int:
    """The exit status of a launcher. After an order to end, Java reports the signal, and the trace the end."""
    status, pid = _status_of(launch.words, cwd=launch.folder, env=launch.environment)
    if status != ENDED_BY_SIGTERM:
        return status
    traced = AeronSystem().traced_exit_status(MemberFolder(_FOLDER, int(os.environ[MEMBER_VARIABLE])), pid)
    return status if traced is None else traced


def _status_of(command: Sequence[str], **options: Any) -> tuple[int, int]:
    """The exit status and the process id of a program that is asked to end when this one is, however early."""
    is_ending = False
    program: subprocess.Popen[bytes] | None = None

    def end(*_: object) -> None:
        nonlocal is_ending
        is_ending = True
        if program is not None:
            program.terminate()

    signal.signal(signal.SIGTERM, end)
    program = subprocess.Popen(command, **options)
    if is_ending:
        program.terminate()
    status = program.wait()
    return (status if status >= 0 else 128 - status), program.pid


def _class_path() -> list[str]:
    services = filter(None, os.environ.get(CLASS_PATH_VARIABLE, "").split(os.pathsep))
    return [f"{IN_IMAGE}/{JAR}", f"{IN_IMAGE}/{CLASSES}", SERVICES_IN_IMAGE, *services]


def _has_archive() -> bool:
    try:
        wait_until(lambda: is_running(_FOLDER, _ARCHIVE), timeout_s=_DRIVER_TIMEOUT_S, describe=lambda: "no archive")
    except UnknownOutcome:
        return False
    return True


def _status() -> MemberStatus:
    member_id, run_id = int(os.environ[MEMBER_VARIABLE]), os.environ[RUN_ID_VARIABLE]
    return AeronSystem().read_status(_FOLDER, member_id, run_id)


def _is_well() -> bool:
    if COMPONENT_VARIABLE in os.environ:
        return all(is_running(_FOLDER, component) for component in COMPONENTS)
    return _status().alive


def _shown_status() -> str:
    status = _status()
    return json.dumps({**asdict(status), "pid": next(iter(status.pids.values()), -1)})


def _backup() -> CompanionStatus:
    counters = counters_file(_FOLDER)
    pid = driver_pid(counters)
    is_there = pid > 0 and process_of(pid, os.environ[RUN_ID_VARIABLE]) is not None
    return status_in_folder(BACKUP, _FOLDER, pid if is_there else None, counters)


def _shown_control(command: str | None) -> str:
    system = AeronSystem()
    refused = "" if command is None else system.give_command(_FOLDER, command)
    return json.dumps({"refused": refused, **asdict(system.read_control(_FOLDER))})


def main(arguments: Sequence[str]) -> int:
    """Print what is asked for; returns the exit status."""
    match list(arguments):
        case ["status"]:
            print(_shown_status())
        case ["status", "--repeat"]:
            for _ in sys.stdin:
                print(_shown_status(), flush=True)
        case ["health"]:
            return 0 if _is_well() else 1
        case ["control", *command] if len(command) < 2:
            print(_shown_control(command[0] if command else None))
        case ["backup", *shown] if shown in ([], ["--json", str(_FOLDER)]):
            backup = _backup()
            if shown:
                print(json.dumps(asdict(backup)))
            return 0 if backup.alive and backup.state is not None else 1
        case ["tool", *words]:
            # They are the member's: the port of a debugger, for example, is taken.
            os.environ.pop(TOOL_OPTIONS, None)
            options = parse(words)
            return finish(options, lambda: AeronSystem().tool(options, Path(IN_IMAGE, JAR)), "upheaval tool")
        case _:
            print(_WORDS, file=sys.stderr)
            return _USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
