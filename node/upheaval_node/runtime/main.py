"""`python -m upheaval_node.runtime.main --config FILE [--component NAME]`: one process of a member.

Parses, runs, and turns the end into a numbered exit status; see `exit_status`.
"""

import argparse
import contextlib
import faulthandler
import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace

from upheaval_node.errors import NetworkError, NodeError, PeerError, StorageError, TerminationError, UsageError
from upheaval_node.member_config import MemberConfig, config_from_fields
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.mark_lock import AlreadyRunning
from upheaval_node.runtime.process import ALL, ComponentLost, MemberProcess


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one process of a member; returns its exit status."""
    parser = argparse.ArgumentParser(prog="upheaval-member", description="Run one process of a cluster member.")
    parser.add_argument("--config", required=True, metavar="FILE", help="JSON file that configures the member")
    parser.add_argument(
        "--component", default=ALL, metavar="NAME", help="all (default), archive, consensus, service, or service-N"
    )
    options = parser.parse_args(arguments)
    process: MemberProcess | None = None
    is_stop_requested = False

    def stop(*_: object) -> None:
        nonlocal is_stop_requested
        is_stop_requested = True
        if process is not None:
            process.request_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        config = read_config(options.config)
        os.makedirs(config.folder, exist_ok=True)
        os.chdir(config.folder)
        sys.path[:0] = config.python_path
        process = MemberProcess(config, options.component)
        if is_stop_requested:
            process.request_stop()
        faulthandler.register(signal.SIGUSR1)
        gc.freeze()
        status, reason = process.run(), ""
    except Exception as error:  # noqa: BLE001 - this is where every end gets its number
        status, reason = status_of(error), f"{type(error).__name__}: {error}"
        if status == ExitStatus.INTERNAL_ERROR:
            traceback.print_exc()
        with contextlib.suppress(OSError):
            print(f"upheaval-member {options.component}: {error} (exit status {int(status)})", file=sys.stderr)
    if process is not None:
        process.record_end(status, reason)
    return int(status)


def read_config(path: str) -> MemberConfig:
    """The configuration in a JSON file; a relative folder is relative to the file. Raises `UsageError`."""
    try:
        with open(path, encoding="utf-8") as stream:
            values = json.load(stream)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    if not isinstance(values, Mapping):
        raise UsageError(f"{path} holds no JSON object")
    config = config_from_fields(values)
    base = os.path.dirname(os.path.abspath(path))
    python_path = tuple(os.path.join(base, directory) for directory in config.python_path)
    return replace(config, folder=os.path.join(base, config.folder), python_path=python_path)


def status_of(error: Exception) -> ExitStatus:
    """The exit status that stands for an error which ended the process."""
    match error:
        case AlreadyRunning():
            return ExitStatus.ALREADY_RUNNING
        case ComponentLost():
            return ExitStatus.COMPONENT_LOST
        case TerminationError():
            return ExitStatus.TERMINATED
        case UsageError():
            return ExitStatus.USAGE
        case NetworkError():
            return ExitStatus.ADDRESS_UNAVAILABLE
        case StorageError() | OSError():
            return ExitStatus.STORAGE_FAILED
        case PeerError():
            return ExitStatus.PEER_FAULT
        case NodeError():
            return ExitStatus.TERMINATED
        case _:
            return ExitStatus.INTERNAL_ERROR


if __name__ == "__main__":
    assert __debug__, "assertions guard what the node promises: do not switch them off"
    sys.exit(main())
