"""Listings of a control session: sends descriptors a few at a time, as fast as the response stream takes them."""

from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

# The number of records checked in one duty cycle (Aeron archive: listing).
MAX_SCANNED_PER_TURN: Final = 64

Item = TypeVar("Item")


class Listing(Generic[Item]):
    """Sends up to `count` of `entries` that `matches`; `unknown` is called at the end if there were fewer."""

    def __init__(
        self,
        entries: Iterator[Item],
        count: int,
        *,
        matches: Callable[[Item], bool],
        send: Callable[[Item], bool],
        unknown: Callable[[], None],
    ) -> None:
        self._entries = entries
        self._left = count
        self._matches = matches
        self._send = send
        self._unknown = unknown
        self._unsent: Item | None = None

    def do_work(self) -> tuple[int, bool]:
        """Send descriptors. Returns how many were sent, and whether the listing is complete."""
        sent = 0
        for _ in range(MAX_SCANNED_PER_TURN):
            if self._left <= 0:
                return sent, True
            entry = self._unsent or next(self._entries, None)
            if entry is None:
                self._unknown()
                return sent, True
            if self._matches(entry):
                if not self._send(entry):
                    self._unsent = entry
                    return sent, False
                self._unsent = None
                self._left -= 1
                sent += 1
        return sent, self._left <= 0
