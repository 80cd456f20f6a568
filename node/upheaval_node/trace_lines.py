"""A line of a trace: one JSON object, written out by hand, because a member traces every message of the consensus.

Fields that every line has come first. Knows nothing of events and of where lines go.
"""

from json.encoder import encode_basestring_ascii as _text
from typing import Final

from upheaval_node.types import Now

TraceValue = int | str | bool | None

_names: dict[str, str] = {}
"""What stands before the value of each field; there are as many as the node has names for fields."""


class LineWriter:
    """Lines of one process of a member, of which `origin` tells in each."""

    def __init__(self, origin: dict[str, TraceValue]) -> None:
        self._origin: Final = fields_text(origin)
        self._own_names: Final = frozenset(("ts", "epoch_ms", "event", "lost_events_before", *origin))

    def own_fields(self, fields: dict[str, TraceValue]) -> dict[str, TraceValue]:
        """Fields with a name that every line has get `field_` before it."""
        if self._own_names.isdisjoint(fields):
            return fields
        return {f"field_{name}" if name in self._own_names else name: value for name, value in fields.items()}

    def line(self, now: Now, event: str, fields: dict[str, TraceValue], lost_events: int = 0) -> str:
        """Without its end. `fields` are those of `own_fields`."""
        lost = f',"lost_events_before":{lost_events}' if lost_events else ""
        head = f'{{"ts":{now.ns},"epoch_ms":{now.epoch_ms}{self._origin},"event":{_text(event)}'
        return f"{head}{lost}{fields_text(fields)}}}"


def fields_text(values: dict[str, TraceValue]) -> str:
    """Members of a JSON object, each with a comma before it."""
    parts: list[str] = []
    for name, value in values.items():
        shown = _names.get(name)
        if shown is None:
            shown = _names[name] = f",{_text(name)}:"
        parts.append(shown)
        if isinstance(value, str):
            parts.append(_text(value))
        elif value is None:
            parts.append("null")
        elif isinstance(value, bool):
            parts.append("true" if value else "false")
        else:
            parts.append(str(int(value)))
    return "".join(parts)
