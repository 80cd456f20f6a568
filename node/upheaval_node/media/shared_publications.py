"""Publications that several users have together, by channel and stream id (Aeron: `Aeron.addPublication`).

Messages to the sessions of one client go to one place, so they need one stream, however many sessions it has. The
stream ends when its last user closes. Nothing in here knows who the users are.
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
    """A publication and how many users it has."""

    def __init__(self, publication: Publication) -> None:
        self.publication = publication
        self.users = 1


class SharedPublications:
    """Each publication of one media, once; on channels that `are_shared` refuses, one for each user."""

    def __init__(self, media: PublicationSource, are_shared: Callable[[str], bool] = lambda _: True) -> None:
        self._media = media
        self._are_shared = are_shared
        self._streams: dict[tuple[str, int], _Stream] = {}

    def add_publication(self, channel: str, stream_id: int) -> "SharedPublication":
        """The stream that is there already, unless it has ended. Raises `UsageError` for an unusable channel."""
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
        """Which of the streams have a receiver, in the order in which they were added."""
        return tuple(each.publication.is_connected for each in self._streams.values())

    def release(self, key: tuple[str, int], stream: _Stream) -> None:
        """One user less; the last one ends the stream."""
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
        """As `api.Publication.offer`: a position of the stream, which others move on as well, or a result code."""
        return CLOSED if self._stream is None else self._stream.publication.offer(*parts)

    def close(self) -> None:
        """Closing twice does nothing; the stream goes on for its other users."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._owner.release(self._key, stream)
