"""What a process reports on stderr, as one JSON object a line, where `UPHEAVAL_LOG=json` asks for that.

For people and log collectors: changes of state, errors (the first of each kind), starts and ends. The trace has
everything, this only what an operator looks at. A line that cannot be written is lost and ends nothing.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from upheaval_node.trace_kinds import TraceKind

VARIABLE: Final = "UPHEAVAL_LOG"
JSON: Final = "json"

INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"

OF_CONSENSUS: Final = frozenset(
    {
        TraceKind.ROLE,
        TraceKind.MODULE_STATE,
        TraceKind.ELECTION_STATE,
        TraceKind.LEADERSHIP_TERM,
        TraceKind.CLUSTER_END,
    }
)
OF_SERVICES: Final = frozenset(
    {TraceKind.SERVICE_STATE, TraceKind.SERVICE_ROLE, TraceKind.SERVICE_TERMINATE, TraceKind.SERVICE_RAISED}
)
OF_PROCESSES: Final = frozenset(
    {TraceKind.PROCESS_START, TraceKind.PROCESS_END, TraceKind.TERMINATED, TraceKind.LOOP_STALL, TraceKind.ERROR}
)
SHOWN: Final = OF_CONSENSUS | OF_SERVICES | OF_PROCESSES
"""The events of the trace that become lines."""


def are_wanted() -> bool:
    """Whether the environment asks for JSON lines on stderr."""
    return os.environ.get(VARIABLE) == JSON


def write_line(level: str, event: str, epoch_ms: int, fields: Mapping[str, object]) -> None:
    """One line, in one write: `time` (UTC), `level` and `event`, then the fields."""
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
    head = {"time": moment.replace("+00:00", "Z"), "level": level, "event": event}
    try:
        sys.stderr.write(json.dumps({**head, **fields, **head}, default=str) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        # A full disk, a pipe without a reader, a closed stream.
        return


class LoggedEvents:
    """Shows the events of one process. `origin` is part of every line."""

    def __init__(self, origin: Mapping[str, object]) -> None:
        self._origin = dict(origin)

    def show(self, event: str, epoch_ms: int, fields: Mapping[str, object]) -> None:
        """Write the event as a line if it is one that operators look at."""
        if event in SHOWN:
            origin = {**self._origin, "component": self._component(event, fields)}
            write_line(level_of(event, fields), event, epoch_ms, {**origin, **fields, **origin})

    def _component(self, event: str, fields: Mapping[str, object]) -> object:
        """The part of the process that the event belongs to, if one process runs several."""
        if event in OF_SERVICES:
            return f"service-{fields.get('service_id')}"
        if event in OF_CONSENSUS:
            return "consensus"
        kind = str(fields.get("kind", "")).split("-")
        if event == TraceKind.ERROR and kind[0] in ("service", "media"):
            return "-".join(kind[:2]) if kind[0] == "service" else kind[0]
        return self._origin.get("component")


class _JsonHandler(logging.Handler):
    """Formats lines of Python's own logging, which services of users may use."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = {"program": self._program, "logger": record.name, "text": record.getMessage()}
        if record.exc_info:
            fields["traceback"] = logging.Formatter().formatException(record.exc_info)
        write_line(record.levelname.lower(), "log", round(record.created * 1000), fields)


def show_python_logging(program: str) -> None:
    """Let lines that services write with `logging` become JSON lines as well."""
    logging.basicConfig(level=logging.INFO, handlers=[_JsonHandler(program)])


def show_failure(program: str, error: BaseException, status: int, trace: str) -> None:
    """Write the failure that ended a program. `trace` is the traceback of a bug, empty otherwise."""
    fields: dict[str, object] = {"program": program, "status": status, "text": str(error)}
    if trace:
        fields["traceback"] = trace
    write_line(ERROR, "failed", round(time.time() * 1000), fields)


def level_of(event: str, fields: Mapping[str, object]) -> str:
    """`info`, `warning` or `error`."""
    if (
        event in (TraceKind.ERROR, TraceKind.SERVICE_RAISED)
        or fields.get("expected") is False
        or (event == TraceKind.PROCESS_END and fields.get("status"))
    ):
        return ERROR
    return WARNING if event == TraceKind.LOOP_STALL else INFO
