"""Channel URIs: `[aeron-spy:]aeron:<media>[?<key>=<value>[|<key>=<value>]*]` (Aeron channel URI grammar).

Only the text, and what of it a client may decide: the user of a channel decides what a key means. Channels
also come from peers (a client's response channel); there the caller turns the `UsageError` of a bad URI into an answer
to that peer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from upheaval_node.errors import UsageError
from upheaval_node.types import MS, US, S

ENDPOINT: Final = "endpoint"
CONTROL: Final = "control"
CONTROL_MODE: Final = "control-mode"
CONTROL_MODE_MANUAL: Final = "manual"
CONTROL_MODE_RESPONSE: Final = "response"
RESPONSE_CORRELATION_ID: Final = "response-correlation-id"
SESSION_ID: Final = "session-id"
INITIAL_TERM_ID: Final = "init-term-id"
TERM_ID: Final = "term-id"
TERM_OFFSET: Final = "term-offset"
TERM_LENGTH: Final = "term-length"
MTU: Final = "mtu"
EOS: Final = "eos"
ALIAS: Final = "alias"
LINGER: Final = "linger"
REJOIN: Final = "rejoin"

MEDIA: Final = frozenset({"ipc", "tcp", "udp"})

# Aeron's limit for the text of a channel.
MAX_LENGTH: Final = 4095

MAX_CLIENT_LENGTH: Final = 1024
"""Characters of a client's channel: with the longest principal, the session's open event still fits a small log."""

_SPY_PREFIX: Final = "aeron-spy:"
_PREFIX: Final = "aeron:"
_SIZE: Final = re.compile(r"([0-9]{1,18})([kmg]?)", re.ASCII | re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_DURATION: Final = re.compile(r"([0-9]{1,18})(ns|us|ms|s|)", re.ASCII)
_DURATION_UNITS: Final = {"": 1, "ns": 1, "us": US, "ms": MS, "s": S}
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_OF_CLIENTS: Final = (ENDPOINT, CONTROL, CONTROL_MODE, RESPONSE_CORRELATION_ID, ALIAS)
# What separates keys and values; a part that holds one of them could not be parsed back.
_RESERVED: Final = frozenset("|?")


@dataclass(frozen=True, slots=True)
class Channel:
    """A parsed channel. `params` keeps the order in which keys were first given; a later value of a key wins."""

    media: str
    params: Mapping[str, str] = field(default_factory=dict, hash=False)
    is_spy: bool = False

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Raises `UsageError` for anything that does not follow the grammar."""
        if len(uri) > MAX_LENGTH:
            raise UsageError(f"channel of {len(uri)} characters")
        is_spy = uri.startswith(_SPY_PREFIX)
        rest = uri.removeprefix(_SPY_PREFIX)
        if not rest.startswith(_PREFIX):
            raise UsageError(f"channel {uri!r} does not start with aeron:")
        media, separator, query = rest.removeprefix(_PREFIX).partition("?")
        if media not in MEDIA:
            raise UsageError(f"channel {uri!r} has unknown media {media!r}")
        params: dict[str, str] = {}
        # Like Aeron's parser, which reads a bare "aeron:udp?" as a channel without parameters.
        if separator and query:
            for part in query.split("|"):
                key, equals, value = part.partition("=")
                if not key or not equals:
                    raise UsageError(f"channel {uri!r} has a malformed parameter: expected key=value, got {part!r}")
                params[key] = value
        return cls(media, params, is_spy)

    def __str__(self) -> str:
        text = f"{_SPY_PREFIX if self.is_spy else ''}{_PREFIX}{self.media}"
        if self.params:
            text += "?" + "|".join(f"{key}={value}" for key, value in self.params.items())
        return text

    @property
    def endpoint(self) -> str | None:
        """The `endpoint` parameter, `host:port`, if there is one."""
        return self.params.get(ENDPOINT)

    def get(self, key: str) -> str | None:
        """The value of a parameter as it was written, or None."""
        return self.params.get(key)

    def get_int(self, key: str, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int | None:
        """An integer parameter. Raises `UsageError` when it is none or not between `low` and `high`."""
        value = self.params.get(key)
        if value is None:
            return None
        if not _INTEGER.fullmatch(value) or not low <= int(value) <= high:
            raise UsageError(f"{key}: expected an integer between {low} and {high}, got {value}")
        return int(value)

    def get_int32(self, key: str) -> int | None:
        """A 32-bit integer parameter. Raises `UsageError` for anything else."""
        return self.get_int(key, -(1 << 31), (1 << 31) - 1)

    def get_size(self, key: str) -> int | None:
        """A length in bytes, as `65536` or `64k` (1024-based). Raises `UsageError`."""
        value = self.params.get(key)
        if value is None:
            return None
        match = _SIZE.fullmatch(value)
        if match is None:
            raise UsageError(f"{key}: expected a size such as 64k, got {value}")
        return int(match[1]) * _SIZE_UNITS[match[2].lower()]

    def get_duration_ns(self, key: str) -> int | None:
        """A duration, as `5s` or `100ms`; a bare number is nanoseconds. Raises `UsageError`."""
        value = self.params.get(key)
        if value is None:
            return None
        match = _DURATION.fullmatch(value)
        if match is None:
            raise UsageError(f"{key}: expected a duration such as 5s, got {value}")
        return int(match[1]) * _DURATION_UNITS[match[2]]

    def get_bool(self, key: str, *, default: bool) -> bool:
        """Only the literal `true` counts as true (Aeron)."""
        value = self.params.get(key)
        return default if value is None else value == "true"

    def with_(self, params: Mapping[str, str | int | None] | None = None, **named: str | int | None) -> Self:
        """A copy with parameters set, or removed where the value is None. `_` in a keyword means `-`."""
        changed = dict(self.params)
        updates = {**(params or {}), **{key.replace("_", "-"): value for key, value in named.items()}}
        for key, value in updates.items():
            if not key or "=" in key or _RESERVED & set(key) or _RESERVED & set(str(value)):
                raise UsageError(f"{key}={value} cannot be part of a channel")
            if value is None:
                changed.pop(key, None)
            else:
                changed[key] = str(value)
        return type(self)(self.media, changed, self.is_spy)

    def as_spy(self) -> Self:
        """The channel by which a subscriber of the same driver listens in."""
        return type(self)(self.media, self.params, True)


def client_channel(response_channel: str) -> str:
    """The channel to a client, cut down to what the client may decide. Raises `UsageError` for one of no use.

    A client must not make a member write into its own local streams, so `aeron:ipc` and spies are refused. Module and
    services ask here, so that a channel which one accepts is good for the other.
    """
    channel = Channel.parse(response_channel)
    if channel.is_spy or channel.media == "ipc":
        raise UsageError(f"expected a channel to a client, got {response_channel!r}")
    if channel.get(CONTROL_MODE) not in (None, CONTROL_MODE_RESPONSE):
        raise UsageError(f"{response_channel!r} has a control mode that is not for clients")
    params = {key: value for key in _OF_CLIENTS if (value := channel.get(key)) is not None}
    text = str(Channel(channel.media, params))
    if len(text) > MAX_CLIENT_LENGTH:
        raise UsageError(f"a channel of {len(text)} characters")
    return text


def is_response_channel(channel: str) -> bool:
    """Whether messages come back on the connections that their receiver dials (`control-mode=response`)."""
    return Channel.parse(channel).get(CONTROL_MODE) == CONTROL_MODE_RESPONSE


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host keeps no brackets. Raises `UsageError`."""
    host, colon, port = endpoint.rpartition(":")
    if not colon or not host or not _PORT.fullmatch(port) or int(port) > 65535:
        raise UsageError(f"expected host:port, got {endpoint!r}")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise UsageError(f"IPv6 address in {endpoint!r} needs brackets")
    return host, int(port)
