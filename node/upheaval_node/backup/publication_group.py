"""The publication to one of several members at a time: a cursor over their endpoints.

Source: Aeron Cluster, publication group. Knows no message.
"""

from collections.abc import Callable, Sequence
from random import Random

from upheaval_node.media.api import Publication
from upheaval_node.types import NULL_VALUE


class PublicationGroup:
    """`add` opens the publication to an endpoint. At most one endpoint is excluded: `next` skips it."""

    def __init__(self, endpoints: Sequence[str], add: Callable[[str], Publication]) -> None:
        self._endpoints = list(endpoints)
        self._add = add
        self._cursor = NULL_VALUE
        self._excluded = NULL_VALUE
        self._current: Publication | None = None

    @property
    def endpoints(self) -> Sequence[str]:
        """All endpoints in the order in which they are tried."""
        return self._endpoints

    @property
    def current(self) -> Publication | None:
        """The publication that the last `next` opened; None before that and after `close_current`."""
        return self._current

    @property
    def current_endpoint(self) -> str | None:
        """The endpoint of the current publication, or None."""
        return None if self._current is None else self._endpoints[self._cursor]

    def shuffle(self, random: Random) -> None:
        """Shuffle the endpoints, before the first `next`."""
        random.shuffle(self._endpoints)

    def next(self) -> Publication:
        """Close the current publication and open the next endpoint's. A single endpoint is used even if it is excluded.

        Raises what `add` raises; the next call then continues after that endpoint.
        """
        self.close_current()
        count = len(self._endpoints)
        self._cursor = (self._cursor + 1) % count
        if self._cursor == self._excluded and count > 1:
            self._cursor = (self._cursor + 1) % count
        self._current = self._add(self._endpoints[self._cursor])
        return self._current

    def exclude_current(self) -> None:
        """Skip the endpoint of the last `next` until another one is excluded."""
        self._excluded = self._cursor

    def clear_exclusion(self) -> None:
        """Skip no endpoint any more."""
        self._excluded = NULL_VALUE

    def close_current(self) -> None:
        """Close the current publication; the next one is to the endpoint after it."""
        current, self._current = self._current, None
        if current is not None:
            current.close()
