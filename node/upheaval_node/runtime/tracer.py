"""Writes the trace of a member: one line of JSON an event, in the file before `emit` returns.

A line is one `write` to a file opened for appending, so it survives SIGKILL, and the processes of a split member can
share one file. A trace that cannot be written must not end the member: the loss is counted, and reported by
the next line that is written.
"""

import os

from upheaval_node.runtime import log_lines
from upheaval_node.runtime.log_lines import LoggedEvents
from upheaval_node.trace_lines import LineWriter, TraceValue
from upheaval_node.types import Now


class FileTracer:
    """Implements `ports.Tracer`."""

    def __init__(self, path: str, *, member_id: int, component: str, run_id: str = "") -> None:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        origin: dict[str, TraceValue] = {"member": member_id, "component": component, "pid": os.getpid()}
        if run_id:
            origin["run"] = run_id
        self._writer = LineWriter(origin)
        self._lines = LoggedEvents(origin) if log_lines.are_wanted() else None
        self.lost_events = 0
        self._is_torn = False

    def emit(self, now: Now, event: str, **fields: TraceValue) -> None:
        """A field with the name of one that every line has gets the prefix `field_`."""
        if self._lines is not None:
            self._lines.show(event, now.epoch_ms, fields)
        line = f"{self._writer.line(now, event, fields, self.lost_events)}\n".encode()
        if self._is_torn:
            line = b"\n" + line
        try:
            written = os.write(self._fd, line)
        except OSError:
            self.lost_events += 1
            return
        self._is_torn = written < len(line)
        self.lost_events = self.lost_events + 1 if self._is_torn else 0

    def close(self) -> None:
        """Close the file. `emit` must not be called any more."""
        os.close(self._fd)
