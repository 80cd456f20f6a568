"""Writes the trace of a member: one line of JSON an event, in the file before `emit` returns.

A line is one `write` to a file opened for appending, so it survives SIGKILL, and the processes of a split member can
share one file. A trace that cannot be written must not end the member: the loss is counted, and said by the next
line that gets through.
"""

import json
import os

from upheaval_node.types import Now


class FileTracer:
    """Implements `ports.Tracer`."""

    def __init__(self, path: str, *, member_id: int, component: str, run_id: str = "") -> None:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._origin: dict[str, int | str] = {"member": member_id, "component": component, "pid": os.getpid()}
        if run_id:
            self._origin["run"] = run_id
        self.lost_events = 0
        self._is_torn = False

    def emit(self, now: Now, event: str, **fields: int | str | bool | None) -> None:
        record: dict[str, int | str | bool | None]
        record = {"ts": now.ns, "epoch_ms": now.epoch_ms, **self._origin, "event": event}
        if self.lost_events:
            record["lost_events_before"] = self.lost_events
        for name, value in fields.items():
            record[f"field_{name}" if name in record else name] = value
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
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
        os.close(self._fd)
