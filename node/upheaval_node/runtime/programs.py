"""What the programs of the node share: configuration files, signals, and the end as a numbered exit status.

Knows no component. A program is a process that is made, runs once, and records how it ended.
"""

import contextlib
import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Protocol

from upheaval_node.errors import (
    ContradictionError,
    NetworkError,
    NodeError,
    PeerError,
    StorageError,
    TerminationError,
    UsageError,
)
from upheaval_node.runtime import log_lines
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.mark_lock import AlreadyRunning
from upheaval_node.runtime.siblings import ComponentLost


class Program(Protocol):
    """A process that is used once: made, run, closed."""

    def request_stop(self) -> None:
        """Begin an orderly end. Safe in a signal handler."""

    def request_reload(self) -> None:
        """Read again what may change while it runs. Safe in a signal handler."""

    def run(self) -> ExitStatus:
        """Run until the end. Errors that end it are raised; an orderly end returns a status."""

    def record_end(self, status: ExitStatus, reason: str = "") -> None:
        """Write down how the process ended, before it is closed."""


def run_program(name: str, make: Callable[[], Program]) -> int:
    """Make a process and run it until SIGTERM, SIGINT or its own end; returns its exit status.

    What ends it is one line on stderr, which begins with `name` or is a JSON object (`log_lines`).
    """
    process: Program | None = None
    is_stop_requested = False

    def stop(*_: object) -> None:
        nonlocal is_stop_requested
        is_stop_requested = True
        if process is not None:
            process.request_stop()

    def reload(*_: object) -> None:
        if process is not None:
            process.request_reload()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, reload)
    _allow_descriptors()
    if log_lines.are_wanted():
        log_lines.show_python_logging(name)
    try:
        process = make()
        if is_stop_requested:
            process.request_stop()
        faulthandler.register(signal.SIGUSR1)
        gc.freeze()
        status, reason = process.run(), ""
    except Exception as error:  # noqa: BLE001 - this is where every end gets its number
        status, reason = status_of(error), f"{type(error).__name__}: {error}"
        _say_failure(name, error, status)
    if process is not None:
        process.record_end(status, reason)
    return int(status)


def _allow_descriptors() -> None:
    """Raise the soft limit of descriptors, often 1,024, to the hard one: each of four listeners may accept 1,024
    connections.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A hard limit above what the system allows at most stays as it is.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _say_failure(name: str, error: Exception, status: ExitStatus) -> None:
    is_bug = status == ExitStatus.INTERNAL_ERROR
    if log_lines.are_wanted():
        log_lines.show_failure(name, error, int(status), traceback.format_exc() if is_bug else "")
        return
    if is_bug:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        print(f"{name}: {error} (exit status {int(status)})", file=sys.stderr)


def enter_folder(folder: str) -> None:
    """Create the folder of the node if it is missing, and make it the working directory."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)


def read_json_object(path: str) -> Mapping[str, object]:
    """The object in a JSON file. Raises `UsageError`."""
    try:
        with open(path, encoding="utf-8") as stream:
            return parse_json_object(stream.read(), path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid JSON: {error}") from error


def parse_json_object(text: str, name: str) -> Mapping[str, object]:
    """Parse a JSON object. Raises `UsageError` for any other text; `name` is its source."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(values, Mapping):
        raise UsageError(f"{name} holds no JSON object")
    return values


def status_of(error: Exception) -> ExitStatus:
    """The exit status for an error which ended the process."""
    match error:
        case AlreadyRunning():
            return ExitStatus.ALREADY_RUNNING
        case ComponentLost():
            return ExitStatus.COMPONENT_LOST
        case ContradictionError():
            return ExitStatus.INTERNAL_ERROR
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
