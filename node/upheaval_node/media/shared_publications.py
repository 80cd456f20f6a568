"""Publications that several users share, by channel and stream id (Aeron: `Aeron.addPublication`).

Messages to all sessions of one client go to one place, so they share one stream. The stream ends when its last user
closes. The module does not know its users.
"""

from collections.abc import Callable
from typing import Protocol

from upheaval_node.media.api import CLOSED, Publication
from upheaval_node.ports import Buffer


class PublicationSource(Protocol):
    """Where the streams come from: an `api.Media`."""

    def add_publication(self, channel: str, stream_id: int) -> Publication:
        """Raises `UsageError` for an unusable channel."""


class _Stream:
    """A publication and its number of users."""

    def __init__(self, publication: Publication) -> None:
        self.publication = publication
        self.users = 1


class SharedPublications:
    """The publications of one media, each shared; on channels that `are_shared` refuses, each user gets its own."""

    def __init__(self, media: PublicationSource, are_shared: Callable[[str], bool] = lambda _: True) -> None:
        self._media = media
        self._are_shared = are_shared
        self._streams: dict[tuple[str, int], _Stream] = {}

    def add_publication(self, channel: str, stream_id: int) -> "SharedPublication":
        """The existing stream unless it has ended, else a new one. Raises `UsageError` for an unusable channel."""
        key = (channel, stream_id)
        if not self._are_shared(channel):
            return SharedPublication(self, key, _Stream(self._media.add_publication(channel, stream_id)))
        stream = self._streams.get(key)
        if stream is None or stream.publication.is_closed:
            stream = self._streams[key] = _Stream(self._media.add_publication(channel, stream_id))
        else:
            stream.users += 1
        return SharedPublication(self, key, stream)

    @property
    def connected(self) -> tuple[bool, ...]:
        """The streams that have a receiver, in the order in which they were added."""
        return tuple(stream.publication.is_connected for stream in self._streams.values())

    def release(self, key: tuple[str, int], stream: _Stream) -> None:
        """Remove one user. The last one ends the stream."""
        stream.users -= 1
        if stream.users == 0:
            if self._streams.get(key) is stream:
                del self._streams[key]
            stream.publication.close()


class SharedPublication:
    """One user's end of a stream."""

    def __init__(self, owner: SharedPublications, key: tuple[str, int], stream: _Stream) -> None:
        self._owner = owner
        self._key = key
        self._stream: _Stream | None = stream

    @property
    def is_connected(self) -> bool:
        """Whether the stream has a receiver; never once closed here."""
        return self._stream is not None and self._stream.publication.is_connected

    @property
    def is_closed(self) -> bool:
        """Closed here, or ended by the driver: `offer` returns CLOSED."""
        return self._stream is None or self._stream.publication.is_closed

    def offer(self, *parts: Buffer) -> int:
        """As `api.Publication.offer`. Positions are those of the stream, which other users advance as well."""
        return CLOSED if self._stream is None else self._stream.publication.offer(*parts)

    def close(self) -> None:
        """Closing twice does nothing. The stream continues for its other users."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._owner.release(self._key, stream)
