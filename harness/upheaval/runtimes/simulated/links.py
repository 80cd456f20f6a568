"""The links between the hosts of a simulation: their latency, and the faults that affect them.

This module knows no connections.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from upheaval.runtimes.simulated.world import World
from upheaval_node.types import NEVER_NS, US, S

LOCAL_LATENCY_NS: Final = 15 * US
USED_NS: Final = S
"""The time without a delivery after which a link counts as unused."""


class Breakable(Protocol):
    """One end of a connection."""

    @property
    def is_broken(self) -> bool:
        """Whether the connection is over at this end."""


class LinkTraffic:
    """Observes the bytes sent along a link from now on, and their delivery. Implements
    `upheaval_chaos.target.Traffic`.
    """

    def __init__(self, link: "Link", now_ns: int, ends: Sequence[Breakable]) -> None:
        self.sent = self.came_out = 0
        self.fastest_ns: int | None = None
        self.began_ns = now_ns
        self._was_used = now_ns - link.delivered_ns <= USED_NS
        self._is_alone = True
        self._link = link
        self._ends = ends
        for part in filter(None, (link, link.whole, *link.channels)):
            for other in part.watches:
                other._is_alone = self._is_alone = False
        link.watches.append(self)

    @property
    def was_used(self) -> bool:
        """Whether the link delivered bytes shortly before the watch, and no other watch overlaps with it on this link
        or a part of it: a watch accompanies a fault.
        """
        return self._was_used and self._is_alone

    @property
    def connections(self) -> int:
        """The number of connections of the link when the watch began."""
        return len(self._ends)

    @property
    def connections_left(self) -> int:
        """The number of those connections that still live."""
        return sum(not end.is_broken for end in self._ends)

    def count(self, length: int, sent_ns: int, now_ns: int) -> None:
        """Count delivered bytes."""
        if sent_ns > self.began_ns:
            self.came_out += length
            took_ns = now_ns - sent_ns
            self.fastest_ns = took_ns if self.fastest_ns is None else min(self.fastest_ns, took_ns)

    def end(self) -> None:
        """End the watch."""
        self._link.watches.remove(self)


class Link:
    """One direction between two hosts, or one channel of it: the connections to one port.

    A fault of the whole link also affects each of its channels.
    """

    __slots__ = (
        "bytes_per_second",
        "channels",
        "cut_since_ns",
        "delivered_bytes",
        "delivered_ns",
        "draw_chunk",
        "draw_latency",
        "extra_latency_ns",
        "free_at_ns",
        "jitter_ns",
        "latency_ns",
        "name",
        "refuses",
        "silence_ns",
        "watches",
        "whole",
    )

    def __init__(self, world: World, name: str, latency_ns: int, jitter_ns: int, whole: "Link | None" = None) -> None:
        self.name = name
        # Latencies and chunk sizes account for most draws of a run.
        self.draw_latency: Callable[[], float] = world.stream(f"latency/{name}").random
        self.draw_chunk: Callable[[], float] = world.stream(f"chunks/{name}").random
        self.latency_ns = latency_ns
        self.jitter_ns = jitter_ns
        self.whole = whole
        self.channels: list[Link] = []
        if whole is not None:
            whole.channels.append(self)
        self.bytes_per_second: int | None = None
        self.extra_latency_ns = 0
        self.cut_since_ns: int | None = None
        self.free_at_ns = 0
        # Whether new connections are answered with a reset.
        self.refuses = False
        # If set, bytes vanish, and a connection ends after that long a silence.
        self.silence_ns: int | None = None
        # Bytes delivered at the far end.
        self.delivered_bytes = 0
        self.delivered_ns = -NEVER_NS
        self.watches: list[LinkTraffic] = []

    @property
    def is_cut(self) -> bool:
        """Whether this link, or the whole link of this channel, is a black hole."""
        return self.cut_since_ns is not None or (self.whole is not None and self.whole.cut_since_ns is not None)

    @property
    def is_refusing(self) -> bool:
        """Whether new connections are answered with a reset."""
        return self.refuses or (self.whole is not None and self.whole.refuses)

    @property
    def timeout_ns(self) -> int | None:
        """The silence after which its connections end; None for never."""
        return self.silence_ns if self.silence_ns is not None or self.whole is None else self.whole.silence_ns

    def delay(self, delay_ns: Callable[[], int]) -> None:
        """Deliver each message later, by what `delay_ns` returns for it."""
        draw, jitter_ns = self.draw_latency, max(self.jitter_ns, 1)
        self.jitter_ns = jitter_ns
        self.draw_latency = lambda: draw() + delay_ns() / jitter_ns

    def belongs_to(self, link: "Link") -> bool:
        """Whether it is that link or a channel of it."""
        return self is link or self.whole is link

    def push(self, length: int) -> None:
        """Count bytes as sent."""
        for link in (self,) if self.whole is None else (self, self.whole):
            for watch in link.watches:
                watch.sent += length

    def count(self, length: int, sent_ns: int, now_ns: int) -> None:
        """Count bytes as delivered."""
        for link in (self,) if self.whole is None else (self, self.whole):
            link.delivered_bytes += length
            link.delivered_ns = now_ns
            for watch in link.watches:
                watch.count(length, sent_ns, now_ns)


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """The ranges from which the links of a run are drawn."""

    latency_min_ns: int = 30 * US
    latency_max_ns: int = 250 * US
    jitter_max_ns: int = 120 * US


class Links:
    """All links of one world. Each is drawn at its first use."""

    def __init__(self, world: World, profile: LinkProfile) -> None:
        self._world = world
        self._profile = profile
        self._links: dict[tuple[str, str], Link] = {}
        self._channels: dict[tuple[str, str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        """The link from one host to another."""
        key = (source, target)
        if key not in self._links:
            latency_ns, jitter_ns = (LOCAL_LATENCY_NS,) * 2 if source == target else self._draw(source, target)
            self._links[key] = Link(self._world, f"{source}/{target}", latency_ns, jitter_ns)
        return self._links[key]

    def _draw(self, source: str, target: str) -> tuple[int, int]:
        draw, profile = self._world.stream(f"link/{source}/{target}"), self._profile
        latency_ns = draw.randint(profile.latency_min_ns, profile.latency_max_ns)
        return latency_ns, draw.randint(0, profile.jitter_max_ns)

    def channel(self, source: str, target: str, port: str) -> Link:
        """The channel from one host to another for connections to this port, whichever of the two dialled."""
        whole = self.link(source, target)
        if source == target or not port:
            return whole
        key = (source, target, port)
        if key not in self._channels:
            self._channels[key] = Link(self._world, f"{whole.name}/{port}", whole.latency_ns, whole.jitter_ns, whole)
        return self._channels[key]
