"""Datagrams that passed some proxies, kept until a reader asks for them, possibly from elsewhere.

It is an observer beside the injector, like every `Watch`: it changes nothing. Memory is bounded: a datagram without
room is not kept, and the proxies then have carried more than was seen.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from upheaval_chaos.any_proxy import AnyProxy
from upheaval_chaos.toxic_links import CONSENSUS
from upheaval_chaos.toxics import UPSTREAM

KEPT_MAX: Final = 16 << 20
"""The memory limit in bytes; far more than passes between two requests."""
_ENTRY_LENGTH: Final = 300
"""The minimum overhead of an entry in bytes, in addition to its datagram."""
ANSWER_MAX: Final = 2048
"""The entries in one answer, limited so that making it does not delay datagrams. A reader that gets this many asks
again.
"""

Entry = tuple[int, str, bool, str]
"""The time, the proxy, whether it was sent (or else received), and the datagram in hexadecimal digits."""


class SeenDatagrams:
    """The kept datagrams of the consensus proxies."""

    def __init__(self, proxies: Mapping[str, AnyProxy]) -> None:
        self._proxies = proxies
        self._kept: deque[tuple[int, str, bool, bytes]] = deque()
        self._length = 0

    def watch_of(self, name: str) -> "_SeenProxy | None":
        """See `datagram_ways.WatchOf`."""
        return _SeenProxy(self, name) if name.endswith(f"-{CONSENSUS}") else None

    def add(self, ns: int, name: str, datagram: bytes, *, is_sent: bool) -> None:
        """Add the next datagram, if there is room."""
        length = len(datagram) + _ENTRY_LENGTH
        if self._length + length <= KEPT_MAX:
            self._length += length
            self._kept.append((ns, name, is_sent, datagram))

    def take(self, now_ns: int) -> Mapping[str, object]:
        """The datagrams seen since the last call, in order, up to `now`, and the bytes that each proxy carried to its
        upstream.

        `now` is the time of the first entry without room in the answer, if there is one.
        """
        oldest = [self._kept.popleft() for _ in range(min(len(self._kept), ANSWER_MAX))]
        self._length -= sum(len(datagram) + _ENTRY_LENGTH for *_, datagram in oldest)
        seen: list[Entry] = [(ns, name, is_sent, datagram.hex()) for ns, name, is_sent, datagram in oldest]
        until_ns = self._kept[0][0] if self._kept else now_ns
        return {"now": until_ns, "seen": seen, "carried": carried_by(self._proxies)}


def carried_by(proxies: Mapping[str, AnyProxy]) -> Mapping[str, tuple[int, int]]:
    """The bytes that each proxy, by name, received for its upstream and sent to it."""
    return {name: (proxy.traffic[UPSTREAM].received, proxy.traffic[UPSTREAM].sent) for name, proxy in proxies.items()}


@dataclass(frozen=True, slots=True)
class _SeenProxy:
    """Implements `datagram_ways.Watch`."""

    seen: SeenDatagrams
    name: str

    def on_received(self, datagram: bytes, ns: int) -> None:
        self.seen.add(ns, self.name, datagram, is_sent=False)

    def on_sent(self, datagram: bytes, ns: int) -> None:
        self.seen.add(ns, self.name, datagram, is_sent=True)
