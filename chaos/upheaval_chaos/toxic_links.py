"""Links as streams of proxies, and what is done to them as toxics.

Each directed pair of ends has a proxy for each channel, through which its source dials its target. The bytes of A reach
B upstream through the proxies by which A dials B, and downstream through those by which B dials A. This module knows
Toxiproxy's API; it knows no cluster and not where proxies are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval_chaos.errors import UsageError
from upheaval_chaos.target import CHANNELS, CLIENTS, INGRESS, Link, LinkEffect, LinkFaultKind, Means
from upheaval_chaos.toxics import DOWNSTREAM, UPSTREAM
from upheaval_chaos.toxiproxy import ToxiproxyApi

_KILO: Final = 1000


@dataclass(frozen=True, slots=True, order=True)
class ProxyPlace:
    """One proxy: who dials whom through it, on which channel."""

    source: int
    target: int
    channel: str

    @property
    def name(self) -> str:
        """How the proxy is called in Toxiproxy, as `0-to-1-log` or `clients-to-2-ingress`."""
        source = "clients" if self.source == CLIENTS else str(self.source)
        return f"{source}-to-{self.target}-{self.channel}"


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """One direction of a proxy."""

    proxy: ProxyPlace
    direction: str

    def __str__(self) -> str:
        return f"{self.proxy.name} {self.direction}"


def all_proxies(members: int) -> Iterator[ProxyPlace]:
    """What a cluster needs so that every link of it goes through a proxy."""
    for target in range(members):
        yield ProxyPlace(CLIENTS, target, INGRESS)
        for source in range(members):
            if source != target:
                for channel in CHANNELS:
                    yield ProxyPlace(source, target, channel)


def streams_of(link: Link) -> Iterator[Stream]:
    """Every stream that carries the bytes of a link. Nobody dials clients."""
    for channel in link.channels:
        if link.target != CLIENTS:
            yield Stream(ProxyPlace(link.source, link.target, channel), UPSTREAM)
        if link.source != CLIENTS:
            yield Stream(ProxyPlace(link.target, link.source, channel), DOWNSTREAM)


@dataclass(slots=True)
class _Held:
    attributes: Mapping[str, int]
    count: int = 0
    is_there: bool = False


class ToxicInjector:
    """Implements `target.LinkInjector`. A toxic that two faults want is there until both are gone."""

    def __init__(self, api_of: Callable[[ProxyPlace], ToxiproxyApi]) -> None:
        self._api_of = api_of
        self._held: dict[tuple[Stream, str], _Held] = {}

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Raises `UsageError` where a toxic of the same type and another size is there already."""
        wanted = list(_toxics(links, effect))
        for stream, kind, attributes in wanted:
            held = self._held.get((stream, kind))
            if held is not None and held.attributes != attributes:
                raise UsageError(f"{stream} has a {kind} of another size already: heal that fault first")
        # First of all, so that it can be lifted when only some of it could be imposed.
        for stream, kind, attributes in wanted:
            self._held.setdefault((stream, kind), _Held(attributes)).count += 1
        for stream, kind, attributes in wanted:
            held = self._held[stream, kind]
            if not held.is_there:
                self._api_of(stream.proxy).add_toxic(stream.proxy.name, kind, stream.direction, attributes)
                held.is_there = True

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Links that have no such toxic are passed over."""
        for stream, kind, _ in _toxics(links, effect):
            held = self._held.get((stream, kind))
            if held is None:
                continue
            held.count -= 1
            if not held.count:
                del self._held[stream, kind]
                if held.is_there:
                    self._api_of(stream.proxy).remove_toxic(stream.proxy.name, kind, stream.direction)


def _toxics(links: Sequence[Link], effect: LinkEffect) -> Iterator[tuple[Stream, str, Mapping[str, int]]]:
    if effect.means is not Means.PROXY:
        raise UsageError("the links of this cluster go through proxies: leave out by=packets")
    if effect.bytes_per_second % _KILO:
        raise UsageError(f"bytes-per-second {effect.bytes_per_second}: proxies limit in steps of {_KILO}")
    for stream in dict.fromkeys(stream for link in links for stream in streams_of(link)):
        match effect.kind:
            case LinkFaultKind.BLACKHOLE:
                yield stream, "timeout", {"timeout": 0}
            case LinkFaultKind.TIMEOUT:
                yield stream, "timeout", {"timeout": effect.timeout_ms}
            case LinkFaultKind.RESET:
                yield stream, "reset_peer", {"timeout": 0}
            case LinkFaultKind.SLOW:
                if effect.latency_ms:
                    yield stream, "latency", {"latency": effect.latency_ms, "jitter": 0}
                if effect.bytes_per_second:
                    yield stream, "bandwidth", {"rate": effect.bytes_per_second // _KILO}
