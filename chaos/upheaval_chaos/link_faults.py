"""Faults of links between members, proved by bytes that do or do not come out at the far end.

Every link that was named is tried, and for one-way faults the way back too: it has to deliver still.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from upheaval.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import COMES_BACK_S, SETTLES_S, TAKES_EFFECT_S, Members, Proof, proof_of
from upheaval_chaos.target import Answer, Link, Ping, Target

SILENCE_S: Final = 0.5
PING_TIMEOUT_S: Final = 3.0
MS: Final = 1_000_000


class LinkFaultKind(StrEnum):
    BLACKHOLE = "blackhole"
    RESET = "reset"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class LinkFault:
    """Something done to the links from some members to others, or to both directions."""

    kind: LinkFaultKind
    sources: Members
    targets: Members
    both_ways: bool = False
    latency_ms: int = 0
    bytes_per_second: int = 0

    def __post_init__(self) -> None:
        if self.kind is LinkFaultKind.RESET and not self.both_ways:
            raise UsageError("a reset ends both directions of a connection: write it with <->")
        if self.kind is LinkFaultKind.SLOW and self.latency_ms <= 0 and self.bytes_per_second <= 0:
            raise UsageError("slow needs latency-ms or bytes-per-second")
        if self.kind is not LinkFaultKind.SLOW and (self.latency_ms or self.bytes_per_second):
            raise UsageError(f"{self.kind} has neither latency-ms nor bytes-per-second: these belong to slow")

    def inject(self, target: Target) -> "LinkInjection":
        pairs = [(a, b) for a in self.sources.select(target) for b in self.targets.select(target) if a != b]
        links = dict.fromkeys(Link(a, b) for a, b in pairs)
        if self.both_ways:
            links.update(dict.fromkeys(Link(b, a) for a, b in pairs))
        if not links:
            raise UsageError(f"{self.sources} and {self.targets} have no link between them")
        return LinkInjection(target, self, list(links))


class LinkInjection:
    """A fault of links that was put in. Implements `Injection`."""

    def __init__(self, target: Target, fault: LinkFault, links: Sequence[Link]) -> None:
        self._target = target
        self._fault = fault
        self._links = links
        self.what = fault.kind.value
        self.where = "links " + ", ".join(str(link) for link in links)
        self.member_ids = list(dict.fromkeys(link.source for link in links))
        self._usual = {link: target.ping(link, PING_TIMEOUT_S) for link in links}
        silent = [link for link, ping in self._usual.items() if ping.answer is not Answer.ANSWERED]
        if silent:
            raise UnknownOutcome(f"link {silent[0]} does not work as it is: nothing could be proved on it")
        self._usual_rates = {link: self._measure_rate(link) for link in links} if fault.bytes_per_second else {}
        match fault.kind:
            case LinkFaultKind.BLACKHOLE:
                target.cut(links)
            case LinkFaultKind.RESET:
                target.reset(links)
            case LinkFaultKind.SLOW:
                target.slow(links, fault.latency_ms * MS, fault.bytes_per_second)

    def prove(self) -> Proof:
        if self._fault.kind is LinkFaultKind.SLOW:
            return proof_of(self._look_slow)
        return proof_of(self._look_cut)

    def heal(self) -> None:
        self._target.heal(self._links)

    def prove_healed(self) -> Proof:
        return proof_of(self._look_healed)

    def _look_cut(self) -> str:
        """Nothing comes out of the links that are cut, although it is tried; the ways back deliver."""
        target = self._target
        target.let_pass(SETTLES_S)
        before = {link: target.delivered(link) for link in self._links}
        wanted = Answer.RESET if self._fault.kind is LinkFaultKind.RESET else Answer.SILENT
        for link in self._links:
            ping = target.ping(link, SILENCE_S)
            if ping.answer is not wanted:
                raise UnknownOutcome(f"a connection along {link} was {ping.answer}, not {wanted}")
        leaks = {link: target.delivered(link) - count for link, count in before.items()}
        for link, leaked in leaks.items():
            if leaked:
                raise UnknownOutcome(f"link {link} delivered {leaked} bytes while it was meant to be cut")
        text = f"0 bytes came out of {len(self._links)} links, {len(self._links)} new connections were {wanted}"
        backs = [link.reverse for link in self._links if link.reverse not in leaks]
        for back in backs:
            self._require_delivery(back)
        return text + (f"; {', '.join(map(str, backs))} still delivers" if backs else "")

    def _look_slow(self) -> str:
        """An answer along each link takes longer by the latency, or bytes come out no faster than the limit."""
        shown = []
        for link in self._links:
            if self._fault.latency_ms:
                shown.append(self._late(link))
            if self._fault.bytes_per_second:
                shown.append(self._throttled(link))
        return "; ".join(shown)

    def _late(self, link: Link) -> str:
        usual_ns, added_ns = self._usual[link].round_trip_ns, self._fault.latency_ms * MS
        ping = self._ping_within(link, PING_TIMEOUT_S + 2 * self._fault.latency_ms / 1000)
        if ping.round_trip_ns < added_ns:
            raise UnknownOutcome(f"link {link} answers in {ping.round_trip_ns / MS:.1f} ms: it is not slow")
        return f"{link} answered in {ping.round_trip_ns / MS:.1f} ms, before in {usual_ns / MS:.1f} ms"

    def _throttled(self, link: Link) -> str:
        """Measured over a second of the load that is there, on the busiest stream of the link."""
        limit, usual = self._fault.bytes_per_second, self._usual_rates[link]
        self._target.let_pass(SETTLES_S)
        rate = self._measure_rate(link)
        if rate > limit * 1.25:
            raise UnknownOutcome(f"link {link} delivers {rate:.0f} bytes a second, over the limit of {limit}")
        if usual < limit * 1.5:
            raise UnknownOutcome(f"link {link} carried {usual:.0f} bytes a second: a limit of {limit} does not show")
        return f"{link} delivered {rate:.0f} bytes a second, before {usual:.0f}"

    def _measure_rate(self, link: Link) -> float:
        before, begin_ns = self._target.delivered_by_stream(link), self._target.now_ns()
        self._target.let_pass(1.0)
        after, took_ns = self._target.delivered_by_stream(link), self._target.now_ns() - begin_ns
        return max(count - before.get(stream, 0) for stream, count in after.items()) * 1000 * MS / took_ns

    def _look_healed(self) -> str:
        round_trips = []
        for link in self._links:
            self._require_delivery(link)
            round_trips.append(self._answered_soon(link))
        return f"{len(self._links)} links deliver and answer, the slowest in {max(round_trips) / MS:.1f} ms"

    def _answered_soon(self, link: Link) -> int:
        """The round trip of a connection that is answered, and sooner than the latency that was healed."""
        limit_ns = (self._fault.latency_ms or 1e6) * MS
        last = Ping(Answer.SILENT)

        def is_answered() -> bool:
            nonlocal last
            last = self._target.ping(link, PING_TIMEOUT_S)
            return last.answer is Answer.ANSWERED and last.round_trip_ns < limit_ns

        self._target.wait_until(is_answered, COMES_BACK_S, f"answer along {link}")
        return last.round_trip_ns

    def _ping_within(self, link: Link, timeout_s: float) -> Ping:
        ping = self._target.ping(link, timeout_s)
        if ping.answer is not Answer.ANSWERED:
            raise UnknownOutcome(f"a connection along {link} was {ping.answer}")
        return ping

    def _require_delivery(self, link: Link) -> None:
        before = self._target.delivered(link)

        def delivers() -> bool:
            self._target.ping(link, SILENCE_S)
            return self._target.delivered(link) > before

        self._target.wait_until(delivers, TAKES_EFFECT_S, f"bytes out of link {link}")
