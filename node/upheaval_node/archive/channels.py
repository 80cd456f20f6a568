"""Channels as the archive handles them: the stripped form that is stored, and keys that identify recordings."""

from typing import Final

from upheaval_node.errors import UsageError
from upheaval_node.protocol import channel as uri
from upheaval_node.protocol.channel import Channel

# The parameters that are kept of a client's channel (Aeron archive: stripped channel).
_KEPT: Final = frozenset(
    {
        "endpoint",
        "interface",
        "control",
        "control-mode",
        "tags",
        "rejoin",
        "group",
        "tether",
        "fc",
        "gtag",
        "cc",
        "so-rcvbuf",
        "so-sndbuf",
        "rcv-wnd",
        "session-id",
        "alias",
        "response-correlation-id",
        "response-endpoint",
        "ttl",
        "stream-id",
    }
)
_KEY_PARAMS: Final = ("endpoint", "interface", "control", "session-id", "tags")


def parse(text: str) -> Channel:
    """Parse a client's channel. Raises `UsageError` for a bad one and for a spy prefix, which only the archive adds."""
    channel = Channel.parse(text)
    if channel.is_spy:
        raise UsageError(f"channel {text!r} is a spy's")
    return channel


def strip(channel: Channel) -> Channel:
    """Keep only the parameters that say where a stream comes from or goes to."""
    return Channel(channel.media, {key: value for key, value in channel.params.items() if key in _KEPT})


def recording_key(stream_id: int, channel: Channel) -> str:
    """A key that is equal for channels that record the same streams (Aeron archive: start recording)."""
    params = "|".join(f"{key}={channel.params[key]}" for key in _KEY_PARAMS if key in channel.params)
    return f"{stream_id}:{channel.media}?{params}"


def control_response(text: str, term_length: int) -> str:
    """The response channel of a control session, with the archive's term length if the client's channel has none."""
    channel = parse(text)
    stripped = strip(channel)
    return str(
        stripped.with_(
            {
                uri.TERM_LENGTH: channel.get(uri.TERM_LENGTH) or term_length,
                uri.MTU: channel.get(uri.MTU),
            }
        )
    )
