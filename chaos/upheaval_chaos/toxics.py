"""Toxics: effects of a proxy on one direction of its traffic. Names and attributes are Toxiproxy's.

Values only; `proxy` applies them to connections, `datagram_proxy` to datagrams.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

UPSTREAM: Final = "upstream"
DOWNSTREAM: Final = "downstream"
STREAMS: Final = (UPSTREAM, DOWNSTREAM)

TYPES: Final[Mapping[str, Sequence[str]]] = {
    "timeout": ("timeout",),
    "reset_peer": ("timeout",),
    "latency": ("latency", "jitter"),
    "bandwidth": ("rate",),
}
"""The toxics of connections: attributes by type. All are numbers, 0 by default."""
_OF_SOME: Final = ("frame_type", "stream_id")
DATAGRAM_TYPES: Final[Mapping[str, Sequence[str]]] = {
    "timeout": ("timeout", *_OF_SOME),
    "latency": ("latency", "jitter", *_OF_SOME),
    "bandwidth": ("rate", *_OF_SOME),
    "duplicate": _OF_SOME,
    "omit": ("template_id",),
}
"""The toxics of datagrams. Each affects the share of datagrams given by `toxicity`, restricted to an Aeron frame type
(data and padding count as one) and a stream if these are not 0. `omit` affects that share of a template's messages.
"""


class ToxicError(Exception):
    """A toxic that does not exist or has wrong attributes."""


@dataclass(frozen=True, slots=True)
class Toxic:
    """`timeout`: nothing passes, and `timeout` ms after the last byte (0: never) the connection ends. `reset_peer`: RST
    after `timeout` ms. `latency`: `latency` plus or minus `jitter` ms. `bandwidth`: `rate` kB a second. `duplicate`: a
    datagram comes twice. `omit`: padding takes the place of messages.
    """

    name: str
    type: str
    stream: str = DOWNSTREAM
    toxicity: float = 1.0
    attributes: Mapping[str, int] = field(default_factory=dict)

    def get(self, attribute: str) -> int:
        """An attribute, 0 by default."""
        return self.attributes.get(attribute, 0)

    def to_fields(self) -> dict[str, object]:
        """The toxic in the form of Toxiproxy's API, with every attribute of its type."""
        return {
            "name": self.name,
            "type": self.type,
            "stream": self.stream,
            "toxicity": self.toxicity,
            "attributes": dict(self.attributes),
        }


def toxic_from_fields(
    fields: Mapping[str, object], known: Toxic | None = None, types: Mapping[str, Sequence[str]] = TYPES
) -> Toxic:
    """The toxic in a JSON object, of one of these types; missing fields are taken from `known`. Raises `ToxicError`."""
    kind = known.type if known else fields.get("type")
    if not isinstance(kind, str) or kind not in types:
        raise ToxicError(f"invalid toxic type {kind!r}: this proxy has {', '.join(types)}")
    stream = known.stream if known else fields.get("stream") or DOWNSTREAM
    if stream not in STREAMS or not isinstance(stream, str):
        raise ToxicError(f"stream was invalid, can be either upstream or downstream, not {stream!r}")
    toxicity = fields.get("toxicity", known.toxicity if known else 1.0)
    if not isinstance(toxicity, int | float) or not 0 <= toxicity <= 1:
        raise ToxicError(f"toxicity must be between 0 and 1, not {toxicity!r}")
    given = fields.get("attributes") or {}
    if not isinstance(given, Mapping):
        raise ToxicError("attributes must be an object")
    attributes = dict(known.attributes) if known else dict.fromkeys(types[kind], 0)
    for name, value in given.items():
        if name not in types[kind]:
            raise ToxicError(f"a {kind} toxic has no attribute {name!r}: use {', '.join(types[kind])}")
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ToxicError(f"attribute {name!r} must be a number that is not negative, not {value!r}")
        attributes[name] = value
    name = known.name if known else fields.get("name") or f"{kind}_{stream}"
    return Toxic(str(name), kind, stream, float(toxicity), attributes)
