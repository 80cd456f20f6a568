"""What a client session asks of the media: streams to the members, and one that comes back.

`media.api.Media` has all of it; `session_group` gives each session its part of what many share.
"""

from typing import Protocol

from upheaval_node.media.api import MessageHandler
from upheaval_node.ports import Buffer


class IngressPublication(Protocol):
    """The stream to one member."""

    @property
    def is_connected(self) -> bool:
        """Whether the member receives it."""

    @property
    def is_closed(self) -> bool:
        """Whether it has ended: `offer` returns CLOSED."""

    def offer(self, *parts: Buffer) -> int:
        """A positive position, or a negative result of `media.api`."""

    def close(self) -> None:
        """Nothing more is offered."""


class EgressSubscription(Protocol):
    """The streams that come back."""

    @property
    def resolved_endpoint(self) -> str | None:
        """The address that was bound; None for none so far."""

    @property
    def error(self) -> str | None:
        """Why there is no address."""

    def poll(self, handler: MessageHandler, fragment_limit: int) -> int:
        """Deliver what came. The handler may raise `media.api.Abort` and `Break`."""

    def close(self) -> None:
        """Nothing more is read."""


class ClientMedia(Protocol):
    """Where a session has its streams from."""

    def next_correlation_id(self) -> int:
        """An id for a request, that no other has."""

    def add_publication(self, channel: str, stream_id: int) -> IngressPublication:
        """Raises `UsageError` for an unusable channel."""

    def add_subscription(self, channel: str, stream_id: int) -> EgressSubscription:
        """Raises `UsageError` for an unusable channel."""
