"""Link faults, proved by whether bytes arrive at the far end.

Every affected link is tried with connections in both directions: along the link, so that the request travels it, and
against it, so that the answer does. For one-way faults the way back has to deliver still. A fault that must not take
the time for that is observed in the usual traffic of its links.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import (
    COMES_BACK_S,
    SETTLES_S,
    TAKES_EFFECT_S,
    Who,
    exactly,
    possible_ends,
    proof_of,
    require_some_leader,
    roster_of,
)
from upheaval_chaos.pings import channel_of_ping
from upheaval_chaos.record import Proof
from upheaval_chaos.target import (
    CHANNELS,
    CLIENTS,
    INGRESS,
    Answer,
    Dialler,
    Link,
    LinkEffect,
    LinkFaultKind as LinkFaultKind,
    Means,
    Ping,
    Target,
    Traffic,
)
from upheaval_node.suggestions import did_you_mean
from upheaval_node.types import MS, S

BEGIN: Final = "put a fault in and look at it later"
SILENCE_S: Final = 0.5
PING_TIMEOUT_S: Final = 3.0
USUAL_PINGS: Final = 5
"""How many pings it takes at most to see how fast a link is without the fault: one alone may meet a busy machine."""
ROADS_TRIES: Final = 2
BULK_S: Final = 1.0
BULK_LENGTH_MAX: Final = 256 * 1024
_HELD_BACK_S: Final = 0.1
LONGEST_MS: Final = 60_000
"""The longest latency or time-out in ms."""
# The outcomes of a working connection: the target received the request and answers, or ends it without an answer.
_WORKS: Final = (Answer.ANSWERED, Answer.ENDED)
_ENDS: Final = (Answer.ENDED, Answer.REFUSED, Answer.RESET)


@dataclass(frozen=True, slots=True)
class LinkFault:
    """A fault of the links from some ends to others, or of both directions."""

    kind: LinkFaultKind
    sources: Who
    targets: Who
    both_ways: bool = False
    latency_ms: int = 0
    bytes_per_second: int = 0
    timeout_ms: int = 0
    channel: str = ""
    means: Means = Means.PROXY
    dialler: Dialler = Dialler.ANY

    def __post_init__(self) -> None:
        kind = self.kind
        if kind in (LinkFaultKind.RESET, LinkFaultKind.TIMEOUT) and not self.both_ways:
            raise UsageError(f"a {kind} ends both directions of a connection: write it with <->")
        if kind is LinkFaultKind.SLOW and self.latency_ms <= 0 and self.bytes_per_second <= 0:
            raise UsageError("slow needs latency-ms or bytes-per-second")
        if kind is not LinkFaultKind.SLOW and (self.latency_ms or self.bytes_per_second):
            raise UsageError(f"{kind} has neither latency-ms nor bytes-per-second: these belong to slow")
        if (kind is LinkFaultKind.TIMEOUT) != (self.timeout_ms > 0):
            raise UsageError("timeout needs timeout-ms" if not self.timeout_ms else f"{kind} has no timeout-ms")
        require_channel(self.channel)
        if self.means is Means.PACKETS and kind not in (LinkFaultKind.BLACKHOLE, LinkFaultKind.RESET):
            raise UsageError(f"packet filters do not support {kind}: leave out by=packets")
        if self.means is Means.PACKETS and not self.both_ways:
            raise UsageError("a connection needs packets both ways, so filters cut both: write it with <->")
        if self.dialler and (not self.both_ways or self.bytes_per_second):
            raise UsageError("dialled-by is about whole connections: write it with <->, and without bytes-per-second")
        for name, value in (("latency-ms", self.latency_ms), ("timeout-ms", self.timeout_ms)):
            if value > LONGEST_MS:
                raise UsageError(f"{name} is at most {LONGEST_MS}, not {value}")

    @property
    def statement(self) -> str:
        """The fault and its target in the language of scenarios."""
        options = {
            "latency-ms": self.latency_ms,
            "bytes-per-second": self.bytes_per_second,
            "timeout-ms": self.timeout_ms,
            "channel": self.channel,
            "dialled-by": self.dialler,
            "by": "" if self.means is Means.PROXY else self.means,
        }
        return statement_between(self, options)

    def require_possible(self, members: int) -> None:
        """The links must exist, whichever member leads."""
        require_some_leader(members, lambda roster: _links(self, *possible_ends(self.sources, self.targets, roster)))

    @property
    def effect(self) -> LinkEffect:
        """The effect on each link."""
        return LinkEffect(self.kind, self.latency_ms, self.bytes_per_second, self.timeout_ms, self.means)

    def aim(self, target: Target, *, tries: bool = True) -> "LinkInjection":
        """Aim at the links between the ends that are selected now. With `tries`, the links are tried in their current
        state.
        """
        roster = roster_of(target)
        return LinkInjection(target, self, self.sources.select(roster), self.targets.select(roster), tries=tries)


class BetweenEnds(Protocol):
    """A fault of the links from some ends to others, or both ways, on one channel or all."""

    @property
    def kind(self) -> str:
        """Its name in scenarios."""

    @property
    def sources(self) -> Who:
        """The senders of the affected bytes."""

    @property
    def targets(self) -> Who:
        """The receivers of the affected bytes."""

    @property
    def both_ways(self) -> bool:
        """Whether the reverse links are affected, too."""

    @property
    def channel(self) -> str:
        """The affected channel; empty for all."""

    @property
    def dialler(self) -> Dialler:
        """Whether only the sources' or only the targets' connections are affected."""


def require_channel(channel: str) -> None:
    """Raises `UsageError` for an unknown channel; empty means all."""
    known = (*CHANNELS, INGRESS)
    if channel and channel not in known:
        raise UsageError(f"there is no channel {channel!r}: use {', '.join(known)}{did_you_mean(channel, known)}")


def links_between(fault: BetweenEnds, sources: Sequence[int], targets: Sequence[int]) -> list[Link]:
    """The links between the ends. Raises `UsageError` when there are none, or when the channel does not fit clients."""
    pairs = [(a, b) for a in sources for b in targets if a != b]
    if fault.channel:
        for pair in pairs:
            if (CLIENTS in pair) != (fault.channel == INGRESS):
                raise UsageError(
                    f"channel {INGRESS} is that between clients and members, the others are between members"
                )
    # Links of clients have only one channel, which needs no name.
    channel = "" if fault.channel == INGRESS else fault.channel
    there = [Link(a, b, channel, fault.dialler) for a, b in pairs]
    ways = [(link, link.reverse) for link in there]
    links = dict.fromkeys(link for both in ways for link in both[: 2 if fault.both_ways else 1])
    if not links:
        raise UsageError(f"{fault.sources} and {fault.targets} have no link between them")
    return list(links)


def links_now(find: Callable[[], list[Link]]) -> list[Link]:
    """The links of a fault that is possible. Raises `UnknownOutcome` when there are none now, because of who leads."""
    try:
        return find()
    except UsageError as error:
        raise UnknownOutcome(f"{error} now") from None


def _links(fault: LinkFault, sources: Sequence[int], targets: Sequence[int]) -> list[Link]:
    """The links of the fault. Raises `UsageError` when there are none, or when they do not support it."""
    links = links_between(fault, sources, targets)
    if fault.bytes_per_second and any(link.target == CLIENTS for link in links):
        raise UsageError("a limit of bytes-per-second towards clients cannot be proved: no member dials clients")
    if fault.means is Means.PACKETS and any(link.is_of_clients for link in links):
        raise UsageError("packet filters act between members only: leave out by=packets for clients")
    if fault.dialler and any(link.is_of_clients for link in links):
        raise UsageError("members dial each other, and clients dial members: leave out dialled-by for clients")
    return links


def victims_of(sources: Sequence[int], targets: Sequence[int]) -> list[int]:
    """The members that the name of a fault between these ends means."""
    return [end for end in sources if end != CLIENTS] or [end for end in targets if end != CLIENTS]


def statement_between(fault: BetweenEnds, options: Mapping[str, object]) -> str:
    """A fault of links in the language of scenarios, with the options that were given."""
    words = [fault.kind, str(fault.sources), "<->" if fault.both_ways else "->", str(fault.targets)]
    return " ".join(words + [f"{name}={value}" for name, value in options.items() if value])


class LinkInjection:
    """An injected link fault. Implements `Injection`."""

    is_exclusive = False
    keeps_down = False
    starts = False

    def __init__(
        self, target: Target, fault: LinkFault, sources: Sequence[int], targets: Sequence[int], *, tries: bool
    ) -> None:
        fault.require_possible(len(target.member_ids))
        links = links_now(lambda: _links(fault, sources, targets))
        self._target = target
        self._fault = fault
        self.links = links
        self.what = fault.kind.value
        self.component = None
        self.where = "links " + ", ".join(str(link) for link in links)
        self.statement = replace(fault, sources=exactly(sources), targets=exactly(targets)).statement
        ends = dict.fromkeys(end for link in links for end in (link.source, link.target) if end != CLIENTS)
        firsts = [end for end in (*sources, *targets) if end in ends]
        self.member_ids = list(dict.fromkeys([*firsts, *ends]))
        self.victims = victims_of(sources, targets)
        tried = links if tries else []
        self._usual = {road: ping for link in tried for road, ping in self._try_roads(link).items()}
        self._usual_bulk = {link: self._try_bulk(link) for link in tried} if fault.bytes_per_second else {}
        self._traffic = {} if tries else {link: target.hosts(BEGIN).watch(link) for link in links}
        self._receivers = {link: self._receiver(link) for link in self._traffic}

    def ends_at_start(self) -> bool:
        """False: links stay as they are."""
        return False

    def act(self) -> None:
        """Impose the effect on every link."""
        self._target.impose(self.links, self._fault.effect)

    def prove(self) -> Proof:
        """Traffic on the links is late, ends or does not arrive, and the ways back work as usual."""
        match self._fault.kind:
            case LinkFaultKind.SLOW:
                return proof_of(self._look_slow)
            case LinkFaultKind.TIMEOUT:
                return proof_of(self._look_ended)
            case _:
                return proof_of(self._look_cut)

    def heal(self) -> None:
        """Remove the effect from every link."""
        for traffic in self._traffic.values():
            traffic.end()
        self._target.lift(self.links, self._fault.effect)

    def prove_healed(self) -> Proof:
        """Traffic on the links arrives as before."""
        return proof_of(self._look_healed)

    # --- usual traffic ---

    def seen(self) -> Proof | None:
        """The proof from the usual traffic since the fault began. A delivery on any link contradicts the fault; only a
        link that nothing else can have stopped proves it.
        """
        try:
            seen = {link: self._seen_of(link, traffic) for link, traffic in self._traffic.items()}
        except UnknownOutcome as error:
            return Proof(False, str(error))
        shown = [text for link, text in seen.items() if text and self._delivers_without_fault(link)]
        return Proof(True, "; ".join(shown)) if shown else None

    def _delivers_without_fault(self, link: Link) -> bool:
        """Whether the link delivered until the fault, has no other fault, and its receiver was alive all the time."""
        return self._traffic[link].was_used and self._receiver(link) == self._receivers[link] != frozenset()

    def _receiver(self, link: Link) -> frozenset[str]:
        clients = frozenset([str(link)])
        return clients if link.target == CLIENTS else self._target.node(link.target).incarnation()

    def _seen_of(self, link: Link, traffic: Traffic) -> str:
        """The evidence of one link; empty without any."""
        kind = self._fault.kind
        if kind is LinkFaultKind.SLOW:
            fastest_ns, added_ns = traffic.fastest_ns, self._fault.latency_ms * MS
            if fastest_ns is None or not added_ns:
                return ""
            if fastest_ns < added_ns:
                raise UnknownOutcome(f"link {link} took {fastest_ns / MS:.1f} ms: it is not slow")
            return f"{link} took {fastest_ns / MS:.1f} ms at least"
        if traffic.came_out:
            raise UnknownOutcome(f"link {link} delivered {traffic.came_out} bytes while it was meant to be cut")
        if kind is not LinkFaultKind.RESET:
            return f"0 of {traffic.sent} bytes sent along {link} came out" if traffic.sent else ""
        if traffic.connections_left:
            raise UnknownOutcome(f"{traffic.connections_left} connections of link {link} were not reset")
        return f"{traffic.connections} connections of {link} are gone, nothing came out" if traffic.connections else ""

    def seen_healed(self) -> None:
        """None: usual traffic may not use a link at all, so each link is tried at the end of the run."""

    # --- connections ---

    def _try_roads(self, link: Link) -> dict[Link, Ping]:
        """The working connections that use the link, as dialled links, with their answers. Raises `UnknownOutcome`
        without any.
        """
        enough_ns = self._fault.latency_ms * MS / 2
        for _ in range(ROADS_TRIES):
            pings = {road: self._usual_ping(road, enough_ns) for road in link.roads}
            if working := {road: ping for road, ping in pings.items() if ping.answer in _WORKS}:
                return working
        raise UnknownOutcome(f"link {link} does not work as it is: nothing could be proved on it")

    def _usual_ping(self, road: Link, enough_ns: float, length: int = 0) -> Ping:
        """The fastest of a few pings with the same answer; the first one that is fast enough ends them, 0 for any."""
        usual = self._target.ping(road, PING_TIMEOUT_S, length)
        for _ in range(USUAL_PINGS - 1):
            if usual.answer not in _WORKS or not enough_ns or usual.round_trip_ns < enough_ns:
                break
            ping = self._target.ping(road, PING_TIMEOUT_S, length)
            if ping.answer is usual.answer:
                usual = min(usual, ping, key=lambda one: one.round_trip_ns)
        return usual

    def _roads(self, link: Link) -> list[Link]:
        return [road for road in link.roads if road in self._usual]

    def _roads_to_try(self, link: Link) -> list[Link]:
        """A link that was only watched is tried if the fault needs more evidence than a delivery."""
        if not self._traffic or self._fault.kind is not LinkFaultKind.SLOW:
            return self._roads(link)
        return link.roads[:1]

    # --- the fault took effect ---

    def _look_cut(self) -> str:
        """Nothing arrives on the cut links although connections try; the ways back deliver."""
        wanted = Answer.RESET if self._fault.kind is LinkFaultKind.RESET else Answer.SILENT
        before = self._begin_silence()
        tried = dict.fromkeys(road for link in self.links for road in self._roads(link))
        for road in tried:
            ping = self._target.ping(road, SILENCE_S)
            if ping.answer is not wanted:
                raise UnknownOutcome(f"a connection along {road} was {ping.answer}, not {wanted}")
        self._require_silence(before)
        text = f"0 bytes came out of {len(self.links)} links, {len(tried)} new connections were {wanted}"
        return text + self._show_ways_back()

    def _look_ended(self) -> str:
        """Nothing arrives on the links; a connection along them ends after the time-out, and not before."""
        timeout_ns = self._fault.timeout_ms * MS
        before = self._begin_silence()
        shown = []
        for road in dict.fromkeys(road for link in self.links for road in self._roads(link)):
            ping = self._target.ping(road, PING_TIMEOUT_S + timeout_ns / S)
            if ping.answer not in _ENDS or ping.round_trip_ns < timeout_ns:
                took = f"{ping.answer} after {ping.round_trip_ns / MS:.1f} ms"
                raise UnknownOutcome(
                    f"expected a connection along {road} to end after {self._fault.timeout_ms} ms, got {took}"
                )
            shown.append(f"{road} ended after {ping.round_trip_ns / MS:.1f} ms")
        self._require_silence(before)
        return f"0 bytes came out of {len(self.links)} links; {'; '.join(shown)}"

    def _begin_silence(self) -> Mapping[Link, Mapping[str, int]]:
        self._target.let_pass(SETTLES_S)
        return {link: self._target.delivered_by_stream(link) for link in self.links}

    def _require_silence(self, before: Mapping[Link, Mapping[str, int]]) -> None:
        for link, counts in before.items():
            if leaked := self._delivered_since(counts, link):
                raise UnknownOutcome(f"link {link} delivered {leaked} bytes while it was meant to be cut")

    def _show_ways_back(self) -> str:
        uncut = [road for link in self.links for road in (link.reverse, link.spared)]
        backs = [link for link in dict.fromkeys(uncut) if link not in self.links]
        for back in backs:
            self._require_delivery(back)
        return f"; {', '.join(map(str, backs))} still delivers" if backs else ""

    def _look_slow(self) -> str:
        """An answer along each link takes longer by the latency, or bulk data takes as long as the bandwidth limit
        implies.
        """
        shown = []
        for link in self.links:
            if self._fault.latency_ms:
                shown.append(self._late(link))
            if self._fault.bytes_per_second:
                shown.append(self._throttled(link))
        return "; ".join(shown)

    def _late(self, link: Link) -> str:
        added_ns = self._fault.latency_ms * MS
        road = self._roads(link)[0]
        usual = self._usual[road]
        watch = self._watch(link)
        ping = self._target.ping(road, PING_TIMEOUT_S + 2 * self._fault.latency_ms / 1000)
        if watch is None:
            self._require_held_back(road)
        else:
            watch.end()
            self._require_late(link, watch)
        if ping.answer is not usual.answer:
            raise UnknownOutcome(f"a connection along {road} was {ping.answer}, before {usual.answer}")
        took = f"{link} answered in {ping.round_trip_ns / MS:.1f} ms, before in {usual.round_trip_ns / MS:.1f} ms"
        # The end of a connection may come back at once: only an answer is late both ways.
        ways = 2 if link.reverse in self.links and ping.answer is Answer.ANSWERED else 1
        if ping.round_trip_ns < ways * added_ns:
            raise UnknownOutcome(f"{took}: it is not slow" + " both ways" * (ways - 1))
        if usual.round_trip_ns >= added_ns:
            raise UnknownOutcome(f"{took}: a latency of {self._fault.latency_ms} ms does not show")
        return took

    def _watch(self, link: Link) -> Traffic | None:
        """The traffic on the link from now on; None where no host watches links."""
        try:
            return self._target.hosts(BEGIN).watch(link)
        except UsageError:
            return None

    def _require_late(self, link: Link, traffic: Traffic) -> None:
        fastest_ns = traffic.fastest_ns
        if fastest_ns is not None and fastest_ns < self._fault.latency_ms * MS:
            raise UnknownOutcome(f"link {link} took {fastest_ns / MS:.1f} ms: it is not slow")

    def _require_held_back(self, road: Link) -> None:
        """More bytes than usual traffic has in that time do not come out before the latency. A round trip does not
        tell which of its ways is slow.
        """
        if road not in self.links or self._fault.bytes_per_second or channel_of_ping(road.channels) != CHANNELS[0]:
            return
        stream = replace(road, channel=CHANNELS[0], dialler=Dialler.SOURCE)
        within_ns = self._fault.latency_ms * MS
        for _ in range(USUAL_PINGS):
            begin_ns, before = self._target.now_ns(), self._target.delivered_by_stream(stream)
            self._target.ping(road, min(within_ns / 4 / S, _HELD_BACK_S), BULK_LENGTH_MAX)
            came_out, took_ns = self._delivered_since(before, stream), self._target.now_ns() - begin_ns
            if took_ns < within_ns:
                break
            # What it sent comes out later, and is not to count in the next try.
            self._target.let_pass(2 * within_ns / S)
        else:
            # A busy machine looks too late.
            return
        if came_out >= BULK_LENGTH_MAX // 2:
            raise UnknownOutcome(f"{came_out} bytes came out of {stream} in {took_ns / MS:.1f} ms: it is not slow")

    def _throttled(self, link: Link) -> str:
        """One second's worth of bytes takes that long, on a connection of its own."""
        length, usual, least_ns = self._bulk_length, self._usual_bulk[link], self._least_bulk_ns
        ping = self._target.ping(link, PING_TIMEOUT_S + BULK_S, length)
        if ping.answer not in _WORKS:
            raise UnknownOutcome(f"a connection along {link} was {ping.answer}")
        took = f"{length} bytes along {link} took {ping.round_trip_ns / MS:.0f} ms"
        took += f", before {usual.round_trip_ns / MS:.0f} ms"
        if ping.round_trip_ns < least_ns:
            raise UnknownOutcome(f"{took}: that is over {self._fault.bytes_per_second} bytes a second")
        if usual.round_trip_ns > 0.75 * least_ns:
            raise UnknownOutcome(f"{took}: a limit of {self._fault.bytes_per_second} bytes a second does not show")
        return took

    @property
    def _bulk_length(self) -> int:
        return min(int(self._fault.bytes_per_second * BULK_S), BULK_LENGTH_MAX)

    @property
    def _least_bulk_ns(self) -> float:
        """The shortest time in which that many bytes pass a limited link."""
        return 0.8 * self._bulk_length * 1000 * MS / self._fault.bytes_per_second

    def _try_bulk(self, link: Link) -> Ping:
        if link not in self._usual:
            raise UnknownOutcome(f"no member dials along {link}: a limit could not be proved on it")
        return self._usual_ping(link, self._least_bulk_ns / 2, self._bulk_length)

    # --- the fault was healed ---

    def _look_healed(self) -> str:
        round_trips: list[int] = []
        for link in self.links:
            self._require_delivery(link)
            round_trips.extend(self._works_again(road) for road in self._roads_to_try(link))
        for link in self._usual_bulk:
            self._require_full_speed(link)
        slowest = f" and answer, the slowest in {max(round_trips) / MS:.1f} ms" if round_trips else ""
        return f"{len(self.links)} links deliver{slowest}"

    def _works_again(self, road: Link) -> int:
        """The round trip of a connection is as usual, and shorter than the latency that was healed."""
        limit_ns = (self._fault.latency_ms or self._fault.timeout_ms or 1e6) * MS
        last = Ping(Answer.SILENT)

        def works() -> bool:
            nonlocal last
            last = self._target.ping(road, PING_TIMEOUT_S)
            usual = (self._usual[road].answer,) if road in self._usual else _WORKS
            return last.answer in usual and last.round_trip_ns < limit_ns

        self._target.wait_until(works, COMES_BACK_S, f"answer along {road}")
        return last.round_trip_ns

    def _require_full_speed(self, link: Link) -> None:
        """The bytes that the limit allows in a second arrive faster."""

        def is_fast() -> bool:
            ping = self._target.ping(link, PING_TIMEOUT_S + BULK_S, self._bulk_length)
            return ping.answer in _WORKS and ping.round_trip_ns < self._least_bulk_ns

        self._target.wait_until(is_fast, COMES_BACK_S, f"end of the limit of link {link}")

    def _require_delivery(self, link: Link) -> None:
        """Bytes arrive, from usual traffic or from a connection made for this."""
        before = self._target.delivered_by_stream(link)
        road = link.roads[0]

        def delivers() -> bool:
            nonlocal before
            if self._delivered_since(before, link):
                return True
            before = self._target.delivered_by_stream(link)
            self._target.ping(road, SILENCE_S)
            return self._delivered_since(before, link) > 0

        self._target.wait_until(delivers, TAKES_EFFECT_S, f"bytes out of link {link}")

    def _delivered_since(self, before: Mapping[str, int], link: Link) -> int:
        """The delivered bytes, stream by stream: the counts of a connection may be lost with it."""
        now = self._target.delivered_by_stream(link)
        return sum(max(count - before.get(stream, 0), 0) for stream, count in now.items())
