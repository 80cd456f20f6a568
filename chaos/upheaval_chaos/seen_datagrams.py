"""What passes some proxies, kept until a reader asks for it. The reader need not run where the proxies do.

An observer beside the injector, as every `Watch`: it changes nothing. Memory is bounded; what has no room is not kept,
and then the proxies have carried more than was seen.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from upheaval_chaos.any_proxy import AnyProxy
from upheaval_chaos.toxic_links import CONSENSUS
from upheaval_chaos.toxics import UPSTREAM

KEPT_MAX: Final = 16 << 20
"""Bytes of memory; far more than passes between two questions."""
_ENTRY_LENGTH: Final = 300
"""At least what one takes beside its datagram's bytes."""
ANSWER_MAX: Final = 2048
"""Entries in one answer, so that making it does not delay datagrams. Who got so many asks again at once."""

Entry = tuple[int, str, bool, str]
"""The time, the proxy, whether it went out (else it came in), and the datagram in hexadecimal digits."""


class SeenDatagrams:
    """Of the proxies of consensus messages."""

    def __init__(self, proxies: Mapping[str, AnyProxy]) -> None:
        self._proxies = proxies
        self._kept: deque[tuple[int, str, bool, bytes]] = deque()
        self._length = 0

    def watch_of(self, name: str) -> "_SeenProxy | None":
        """See `datagram_ways.WatchOf`."""
        return _SeenProxy(self, name) if name.endswith(f"-{CONSENSUS}") else None

    def add(self, ns: int, name: str, datagram: bytes, *, is_sent: bool) -> None:
        """The next one."""
        length = len(datagram) + _ENTRY_LENGTH
        if self._length + length <= KEPT_MAX:
            self._length += length
            self._kept.append((ns, name, is_sent, datagram))

    def take(self, now_ns: int) -> Mapping[str, object]:
        """What was seen since the last time, in order, until `now`, and all that each proxy carried to its upstream.

        `now` is the time of the first entry that the answer has no room for, if there is one.
        """
        kept = [self._kept.popleft() for _ in range(min(len(self._kept), ANSWER_MAX))]
        self._length -= sum(len(datagram) + _ENTRY_LENGTH for *_, datagram in kept)
        seen: list[Entry] = [(ns, name, is_sent, datagram.hex()) for ns, name, is_sent, datagram in kept]
        until_ns = self._kept[0][0] if self._kept else now_ns
        return {"now": until_ns, "seen": seen, "carried": carried_by(self._proxies)}


def carried_by(proxies: Mapping[str, AnyProxy]) -> Mapping[str, tuple[int, int]]:
    """By name, the bytes that each proxy has received on their way to the upstream, and sent there."""
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
