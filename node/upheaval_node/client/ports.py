"""The media as a client session needs it: streams to the members, and a stream back.

`media.api.Media` implements all of it; `session_group` gives each session its part of shared streams.
"""

from typing import Protocol

from upheaval_node.media.api import MessageHandler
from upheaval_node.ports import Buffer


class IngressPublication(Protocol):
    """The stream to one member."""

    @property
    def is_connected(self) -> bool:
        """Whether the member receives the stream."""

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended, so that `offer` returns CLOSED."""

    def offer(self, *parts: Buffer) -> int:
        """Send a message. Returns a positive position, or a negative result of `media.api`."""

    def close(self) -> None:
        """End the stream."""


class EgressSubscription(Protocol):
    """The streams back to the client."""

    @property
    def resolved_endpoint(self) -> str | None:
        """The bound address, None before that."""

    @property
    def error(self) -> str | None:
        """Why no address is bound."""

    def poll(self, handler: MessageHandler, fragment_limit: int) -> int:
        """Deliver messages. The handler may raise `media.api.Abort` and `Break`."""

    def close(self) -> None:
        """End the subscription."""


class ClientMedia(Protocol):
    """The source of a session's streams."""

    def next_correlation_id(self) -> int:
        """A unique id for a request."""

    def add_publication(self, channel: str, stream_id: int) -> IngressPublication:
        """Open a stream to a member. Raises `UsageError` for an unusable channel."""

    def add_subscription(self, channel: str, stream_id: int) -> EgressSubscription:
        """Open the streams back. Raises `UsageError` for an unusable channel."""
