"""Toxics: what a proxy does to one direction of its connections. Names and attributes are those of Toxiproxy.

Values only; `proxy` carries them out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

UPSTREAM: Final = "upstream"
DOWNSTREAM: Final = "downstream"
STREAMS: Final = (UPSTREAM, DOWNSTREAM)

# Attributes by type; all are numbers, 0 when they are not given.
TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "timeout": ("timeout",),
    "reset_peer": ("timeout",),
    "latency": ("latency", "jitter"),
    "bandwidth": ("rate",),
}


class ToxicError(Exception):
    """A toxic that does not exist or has wrong attributes."""


@dataclass(frozen=True, slots=True)
class Toxic:
    """`timeout`: nothing passes, and `timeout` ms after the last byte (0: never) the connection ends. `reset_peer`: RST
    after `timeout` ms. `latency`: `latency` plus or minus `jitter` ms. `bandwidth`: `rate` kB a second."""

    name: str
    type: str
    stream: str = DOWNSTREAM
    toxicity: float = 1.0
    attributes: Mapping[str, int] = field(default_factory=dict)

    def get(self, attribute: str) -> int:
        """An attribute; 0 where it was not given."""
        return self.attributes.get(attribute, 0)

    def to_fields(self) -> dict[str, object]:
        """As Toxiproxy's API shows a toxic, with every attribute of its type."""
        return {
            "name": self.name,
            "type": self.type,
            "stream": self.stream,
            "toxicity": self.toxicity,
            "attributes": {name: self.get(name) for name in TYPES[self.type]},
        }


def toxic_from_fields(fields: Mapping[str, object], known: Toxic | None = None) -> Toxic:
    """The toxic that a JSON object states; what it leaves out is as in `known`. Raises `ToxicError`."""
    kind = known.type if known else fields.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        raise ToxicError(f"invalid toxic type {kind!r}: this proxy has {', '.join(TYPES)}")
    stream = known.stream if known else fields.get("stream") or DOWNSTREAM
    if stream not in STREAMS or not isinstance(stream, str):
        raise ToxicError(f"stream was invalid, can be either upstream or downstream, not {stream!r}")
    toxicity = fields.get("toxicity", known.toxicity if known else 1.0)
    if not isinstance(toxicity, int | float) or not 0 <= toxicity <= 1:
        raise ToxicError(f"toxicity must be between 0 and 1, not {toxicity!r}")
    given = fields.get("attributes") or {}
    if not isinstance(given, Mapping):
        raise ToxicError("attributes must be an object")
    attributes = dict(known.attributes) if known else {}
    for name, value in given.items():
        if name not in TYPES[kind]:
            raise ToxicError(f"a {kind} toxic has no attribute {name!r}: use {', '.join(TYPES[kind])}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ToxicError(f"attribute {name!r} must be a number that is not negative, not {value!r}")
        attributes[name] = value
    name = known.name if known else fields.get("name") or f"{kind}_{stream}"
    return Toxic(str(name), kind, stream, float(toxicity), attributes)
