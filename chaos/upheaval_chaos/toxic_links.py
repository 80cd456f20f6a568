"""Links as streams of proxies, and link faults as toxics.

Each directed pair of ends has a proxy for each leg of a channel, through which its source dials its target. The bytes
from A to B travel upstream through the proxies by which A dials B, and downstream through those by which B dials A.
This module knows Toxiproxy's API, but neither clusters nor the places of proxies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval_chaos.errors import Conflict, UsageError
from upheaval_chaos.target import (
    CHANNELS,
    CLIENTS,
    FRAMES,
    INGRESS,
    MESSAGES,
    DatagramEffect,
    DatagramFaultKind,
    Datagrams,
    Dialler,
    Link,
    LinkEffect,
    LinkFaultKind,
    Means,
)
from upheaval_chaos.toxics import DOWNSTREAM, UPSTREAM
from upheaval_chaos.toxiproxy import ToxiproxyApi

_KILO: Final = 1000

STREAM_LEGS: Final[Mapping[str, Sequence[str]]] = {channel: (channel,) for channel in (*CHANNELS, INGRESS)}
"""The dialled legs of each channel for streams: answers come on the connection of the request."""
CONSENSUS: Final = "consensus"
REPLICATION: Final = "replication"
"""The leg on which a member that uses datagrams receives an archive's answers and replicated data."""
EGRESS: Final = ("egress-1", "egress-2", "egress-3")
"""The legs on which clients of such a system receive answers, one per client program."""
DATAGRAM_LEGS: Final[Mapping[str, Sequence[str]]] = {
    **STREAM_LEGS,
    "archive": ("archive", REPLICATION),
    INGRESS: (INGRESS, *EGRESS),
}
"""The dialled legs for datagrams: the answering end dials, too."""


@dataclass(frozen=True, slots=True, order=True)
class ProxyPlace:
    """One proxy: its dialling end, its target, and the leg of a channel."""

    source: int
    target: int
    channel: str

    @property
    def name(self) -> str:
        """The proxy's name in Toxiproxy, such as `0-to-1-log` or `clients-to-2-ingress`."""
        source, target = ("clients" if end == CLIENTS else str(end) for end in (self.source, self.target))
        return f"{source}-to-{target}-{self.channel}"


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """One direction of a proxy."""

    proxy: ProxyPlace
    direction: str

    def __str__(self) -> str:
        return f"{self.proxy.name} {self.direction}"


def all_proxies(members: int, legs: Mapping[str, Sequence[str]] = STREAM_LEGS) -> Iterator[ProxyPlace]:
    """All proxies that a cluster needs so that every link goes through a proxy."""
    ends = (CLIENTS, *range(members))
    for link in (Link(source, target) for target in ends for source in ends if source != target):
        yield from (stream.proxy for stream in streams_of(link, legs) if stream.direction == UPSTREAM)


def streams_of(link: Link, legs: Mapping[str, Sequence[str]] = STREAM_LEGS) -> Iterator[Stream]:
    """All streams that carry the bytes of a link. Members dial clients only to answer by datagrams."""
    for leg in (leg for channel in link.channels for leg in legs[channel]):
        if (link.target == CLIENTS) == (leg in EGRESS) and link.dialler is not Dialler.TARGET:
            yield Stream(ProxyPlace(link.source, link.target, leg), UPSTREAM)
        if (link.source == CLIENTS) == (leg in EGRESS) and link.dialler is not Dialler.SOURCE:
            yield Stream(ProxyPlace(link.target, link.source, leg), DOWNSTREAM)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A toxic on a stream. A stream has at most one of each type."""

    stream: Stream
    kind: str
    attributes: Mapping[str, int]
    toxicity: float = 1.0


@dataclass(slots=True)
class _Held:
    wanted: _Wanted
    count: int = 0
    is_there: bool = False


class ToxicInjector:
    """Implements `target.LinkInjector`. A toxic that two faults need remains until both are healed."""

    def __init__(
        self, api_of: Callable[[ProxyPlace], ToxiproxyApi], legs: Mapping[str, Sequence[str]] = STREAM_LEGS
    ) -> None:
        self._api_of = api_of
        self._legs = legs
        self._held: dict[tuple[Stream, str], _Held] = {}

    @property
    def datagrams(self) -> Datagrams | None:
        """The same links, for faults of single datagrams; None for links of streams."""
        return None

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Raises `Conflict` when a toxic of the same type with other attributes exists already."""
        self._put(list(_toxics(self._streams(links), effect)))

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        """Ignores links without such a toxic."""
        self._take(_toxics(self._streams(links), effect))

    def disturb(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        """Raises `Conflict` when a toxic of the same type with other attributes exists already."""
        self._put([_datagram_toxic(stream, effect) for stream in self._streams(links)])

    def restore(self, links: Sequence[Link], effect: DatagramEffect) -> None:
        """Ignores links without such a toxic."""
        self._take(_datagram_toxic(stream, effect) for stream in self._streams(links))

    def _put(self, toxics: Sequence[_Wanted]) -> None:
        for wanted in toxics:
            held = self._held.get((wanted.stream, wanted.kind))
            if held is not None and held.wanted != wanted:
                raise Conflict(f"{wanted.stream} has a {wanted.kind} of another size already: heal that fault first")
        # Recorded first, so that `lift` also works after a partial failure.
        for wanted in toxics:
            self._held.setdefault((wanted.stream, wanted.kind), _Held(wanted)).count += 1
        for wanted in toxics:
            stream, held = wanted.stream, self._held[wanted.stream, wanted.kind]
            if not held.is_there:
                self._api_of(stream.proxy).add_toxic(
                    stream.proxy.name, wanted.kind, stream.direction, wanted.attributes, wanted.toxicity
                )
                held.is_there = True

    def _take(self, toxics: Iterable[_Wanted]) -> None:
        keys = [key for wanted in toxics if (key := (wanted.stream, wanted.kind)) in self._held]
        for key in keys:
            held, (stream, kind) = self._held[key], key
            if held.count == 1 and held.is_there:
                self._api_of(stream.proxy).remove_toxic(stream.proxy.name, kind, stream.direction)
                held.is_there = False
        # Counted down last, so that `lift` also works after a partial failure.
        for key in keys:
            self._held[key].count -= 1
            if not self._held[key].count:
                del self._held[key]

    def _streams(self, links: Sequence[Link]) -> Iterable[Stream]:
        return dict.fromkeys(stream for link in links for stream in streams_of(link, self._legs))


def _datagram_toxic(stream: Stream, effect: DatagramEffect) -> _Wanted:
    some = {"frame_type": FRAMES.get(effect.frames, 0), "stream_id": effect.stream_id}
    share = effect.percent / 100
    match effect.kind:
        case DatagramFaultKind.LOSE:
            return _Wanted(stream, "timeout", {"timeout": 0, **some}, share)
        case DatagramFaultKind.DUPLICATE:
            return _Wanted(stream, "duplicate", some, share)
        case DatagramFaultKind.OMIT:
            return _Wanted(stream, "omit", {"template_id": MESSAGES[effect.message].TEMPLATE_ID}, share)
        case DatagramFaultKind.DISORDER:
            half_ms = effect.jitter_ms // 2
            return _Wanted(stream, "latency", {"latency": effect.jitter_ms - half_ms, "jitter": half_ms, **some})


def _toxics(streams: Iterable[Stream], effect: LinkEffect) -> Iterator[_Wanted]:
    if effect.means is not Means.PROXY:
        raise UsageError("the links of this cluster go through proxies: leave out by=packets")
    if effect.bytes_per_second % _KILO:
        raise UsageError(f"bytes-per-second {effect.bytes_per_second}: proxies limit in steps of {_KILO}")
    for stream in streams:
        match effect.kind:
            case LinkFaultKind.BLACKHOLE:
                yield _Wanted(stream, "timeout", {"timeout": 0})
            case LinkFaultKind.TIMEOUT:
                yield _Wanted(stream, "timeout", {"timeout": effect.timeout_ms})
            case LinkFaultKind.RESET:
                yield _Wanted(stream, "reset_peer", {"timeout": 0})
            case LinkFaultKind.SLOW:
                if effect.latency_ms:
                    yield _Wanted(stream, "latency", {"latency": effect.latency_ms, "jitter": 0})
                if effect.bytes_per_second:
                    yield _Wanted(stream, "bandwidth", {"rate": effect.bytes_per_second // _KILO})
