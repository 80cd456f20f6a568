"""Writes the trace of a member: one line of JSON an event, in the file before `emit` returns.

A line is one `write` to a file opened for appending, so it survives SIGKILL, and the processes of a split member can
share one file. A trace that cannot be written must not end the member: the loss is counted, and said by the next
line that gets through.
"""

import os
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as _text

from upheaval_node.runtime import log_lines
from upheaval_node.runtime.log_lines import LoggedEvents
from upheaval_node.types import Now

TraceValue = int | str | bool | None
_CONSTANTS = {None: "null", True: "true", False: "false"}


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
        self._origin = _members(origin)
        self._own_names = frozenset(("ts", "epoch_ms", "event", "lost_events_before", *origin))
        self._lines = LoggedEvents(origin) if log_lines.are_wanted() else None
        self.lost_events = 0
        self._is_torn = False

    def emit(self, now: Now, event: str, **fields: TraceValue) -> None:
        """Fields with a name that every line has get `field_` before it."""
        if self._lines is not None:
            self._lines.show(event, now.epoch_ms, fields)
        if not self._own_names.isdisjoint(fields):
            fields = {f"field_{name}" if name in self._own_names else name: value for name, value in fields.items()}
        lost = f',"lost_events_before":{self.lost_events}' if self.lost_events else ""
        head = f'{{"ts":{now.ns},"epoch_ms":{now.epoch_ms}{self._origin},"event":{_text(event)}'
        line = f"{head}{lost}{_members(fields)}}}\n".encode()
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
        """Close the file; `emit` must not be called any more."""
        os.close(self._fd)


def _members(values: Mapping[str, TraceValue]) -> str:
    """Members of a JSON object, each with a comma before it. Written out, because a member traces every message."""
    return "".join([f",{_text(name)}:{_value(value)}" for name, value in values.items()])


def _value(value: TraceValue) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    return str(int(value))
