"""The commands between a media client and its driver: small JSON objects in EXT frames. Text only, no behaviour."""

import json
from typing import Final

from upheaval_node.errors import PeerError
from upheaval_node.media.stream_buffer import StreamParams
from upheaval_node.protocol.frames import is_valid_mtu, is_valid_term_length

# From the client: who it is, first on each connection.
HELLO: Final = "hello"
PUBLISH: Final = "publish"
SUBSCRIBE: Final = "subscribe"
ADD_DESTINATION: Final = "add-destination"
REMOVE_DESTINATION: Final = "remove-destination"
REJECT: Final = "reject"
# From the driver.
CONNECTED: Final = "connected"
REFUSED: Final = "refused"
LISTENING: Final = "listening"
IMAGE: Final = "image"
TRANSPORTS: Final = "transports"
UNAVAILABLE: Final = "unavailable"

Value = int | str | bool | None


class Command:
    """A decoded command whose fields are checked when they are read."""

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields
        self.name = self.text("op")

    def text(self, key: str) -> str:
        """A text. Raises `PeerError` for anything else."""
        value = self._fields.get(key)
        if not isinstance(value, str):
            raise PeerError(f"command without text {key}")
        return value

    def optional_text(self, key: str) -> str | None:
        """A text, or None where the field is missing or null."""
        return None if self._fields.get(key) is None else self.text(key)

    def number(self, key: str) -> int:
        """A 64-bit integer. Raises `PeerError` for anything else."""
        value = self._fields.get(key)
        if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
            raise PeerError(f"command without number {key}")
        return value

    def int32(self, key: str) -> int:
        """A 32-bit integer. Raises `PeerError` for anything else."""
        value = self.number(key)
        if not -(1 << 31) <= value < 1 << 31:
            raise PeerError(f"{key} {value} is not an int32")
        return value

    def optional_number(self, key: str) -> int | None:
        """A 64-bit integer, or None where the field is missing or null."""
        return None if self._fields.get(key) is None else self.number(key)

    def stream(self) -> tuple[StreamParams, int]:
        """Parameters and position of a stream."""
        params = StreamParams(
            self.int32("session_id"),
            self.int32("stream_id"),
            self.int32("initial_term_id"),
            self.int32("term_length"),
            self.int32("mtu"),
        )
        position = self.number("position")
        if not is_valid_term_length(params.term_length) or not is_valid_mtu(params.mtu):
            raise PeerError(f"stream with impossible lengths {params}")
        if not 0 <= position < params.term_length << 31 or position & 31:
            raise PeerError(f"stream at position {position}")
        return params, position


def encode(name: str, **fields: Value) -> bytes:
    """The payload of an EXT frame; None as a value is null."""
    return json.dumps({"op": name, **fields}, separators=(",", ":")).encode()


def encode_stream(name: str, params: StreamParams, position: int, **fields: Value) -> bytes:
    """A command about a stream: its parameters, and where it begins, besides the given fields."""
    return encode(
        name,
        session_id=params.session_id,
        stream_id=params.stream_id,
        initial_term_id=params.initial_term_id,
        term_length=params.term_length,
        mtu=params.mtu,
        position=position,
        **fields,
    )


def decode(payload: bytes) -> Command:
    """Decode a command. Raises `PeerError` for anything else."""
    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise PeerError(f"command is not valid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise PeerError("command is not a JSON object")
    return Command(fields)
