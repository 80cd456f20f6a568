"""A line of a trace: one JSON object, written out by hand, because a member traces every message of the consensus.

Fields that every line has come first. Knows nothing of events and of where lines go.
"""

from json.encoder import encode_basestring_ascii as _text
from typing import Final

from upheaval_node.types import Now

TraceValue = int | str | bool | None


class LineWriter:
    """Lines of one process of a member. Each line has the fields of `origin`, which identify the process."""

    def __init__(self, origin: dict[str, TraceValue]) -> None:
        self._origin: Final = "".join(f",{_text(name)}:{_value(value)}" for name, value in origin.items())
        own_names = ("ts", "epoch_ms", "event", "lost_events_before", *origin)
        # The text before the value of each field: there are as many as the node has names for fields.
        self._names: Final = {name: f',"field_{name}":' for name in own_names}

    def line(self, now: Now, event: str, fields: dict[str, TraceValue], lost_events: int = 0) -> str:
        """Without its end. Fields with a name that every line has get `field_` before it."""
        parts = [f'{{"ts":{now.ns},"epoch_ms":{now.epoch_ms}{self._origin},"event":{_text(event)}']
        if lost_events:
            parts.append(f',"lost_events_before":{lost_events}')
        names = self._names
        for name, value in fields.items():
            shown = names.get(name)
            if shown is None:
                shown = names[name] = f",{_text(name)}:"
            parts.append(shown)
            parts.append(_value(value))
        parts.append("}")
        return "".join(parts)


def _value(value: TraceValue) -> str:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value))
