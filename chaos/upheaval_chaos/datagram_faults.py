"""Datagram faults, proved by probes that get lost, arrive twice, or arrive out of order.

Each leg of the links is tried with many numbered probes, which have the frame type and the stream of the fault. The
share of hit probes has to match the fault within the limits of chance. Before the fault and after it no probe is hit,
and no probe of another type ever is.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from upheaval_chaos.errors import UnknownOutcome, UsageError
from upheaval_chaos.faults import (
    COMES_BACK_S,
    SETTLES_S,
    Who,
    exactly,
    possible_ends,
    proof_of,
    require_some_leader,
    roster_of,
)
from upheaval_chaos.link_faults import links_between, links_now, require_channel, statement_between, victims_of
from upheaval_chaos.record import Proof
from upheaval_chaos.target import (
    CLIENTS,
    FRAMES,
    MESSAGES,
    DatagramEffect,
    DatagramFaultKind as DatagramFaultKind,
    Dialler,
    Link,
    Means,
    Target,
)
from upheaval_chaos.toxic_links import CONSENSUS
from upheaval_node.suggestions import did_you_mean

T = TypeVar("T")

LONGEST_JITTER_MS: Final = 1000
_PROBES_LEAST: Final = 200
_HITS_EXPECTED: Final = 60
"""The expected number of hit probes: large enough to make deviations by chance small in comparison."""
_CHANCE: Final = 5.0
"""Tolerated standard deviations: chance exceeds them in one look in a million."""
_DISORDER: Final = 0.1
"""The minimum share of probes that overtake another when the order is lost; far more of them do."""


@dataclass(frozen=True, slots=True)
class DatagramFault:
    """A fault of some of the datagrams from some ends to others, or both ways.

    It hits `percent` of them; `jitter_ms` applies to a loss of order. A frame type (of `FRAMES`) and a stream, if
    given, restrict it. Omission removes single messages called `message` (of `MESSAGES`).
    """

    kind: DatagramFaultKind
    sources: Who
    targets: Who
    both_ways: bool = False
    percent: int = 0
    jitter_ms: int = 0
    channel: str = ""
    frames: str = ""
    stream_id: int = 0
    message: str = ""

    def __post_init__(self) -> None:
        if self.kind is DatagramFaultKind.OMIT:
            self._require_message()
        elif self.message:
            raise UsageError(f"{self.kind} hits datagrams, whatever they hold: leave out message")
        elif self.kind is DatagramFaultKind.DISORDER:
            if self.percent or not 0 < self.jitter_ms <= LONGEST_JITTER_MS:
                raise UsageError(f"{self.kind} needs jitter-ms of 1 to {LONGEST_JITTER_MS}, and no percent")
        elif self.jitter_ms or not 0 < self.percent < 100:
            raise UsageError(f"{self.kind} needs percent of 1 to 99, and no jitter-ms: losing all is a blackhole")
        require_channel(self.channel)
        if self.frames and self.frames not in FRAMES:
            hint = did_you_mean(self.frames, FRAMES)
            raise UsageError(f"unknown frames {self.frames!r}: use {', '.join(FRAMES)}{hint}")

    def _require_message(self) -> None:
        """Checks the channel of the message, and the percentage."""
        if self.message not in MESSAGES:
            hint = did_you_mean(self.message, MESSAGES)
            raise UsageError(f"{self.kind} needs message of {', '.join(MESSAGES)}, got {self.message!r}{hint}")
        if self.jitter_ms or self.frames or self.stream_id or not 0 < self.percent <= 100:
            raise UsageError(f"{self.kind} needs message and percent of 1 to 100, and nothing else")
        if self.channel != CONSENSUS:
            raise UsageError(f"{self.kind} needs channel={CONSENSUS}, where such messages are")

    @property
    def means(self) -> Means:
        """The means of the fault."""
        return Means.PROXY

    @property
    def dialler(self) -> Dialler:
        """The affected connections: all."""
        return Dialler.ANY

    @property
    def effect(self) -> DatagramEffect:
        """The effect on each link."""
        return DatagramEffect(self.kind, self.percent, self.jitter_ms, self.frames, self.stream_id, self.message)

    @property
    def statement(self) -> str:
        """The fault and its target in the language of scenarios."""
        options = {
            "percent": self.percent,
            "jitter-ms": self.jitter_ms,
            "channel": self.channel,
            "frames": self.frames,
            "stream": self.stream_id,
            "message": self.message,
        }
        return statement_between(self, options)

    def require_possible(self, members: int) -> None:
        """The links must exist, whichever member leads."""
        require_some_leader(
            members, lambda roster: links_between(self, *possible_ends(self.sources, self.targets, roster))
        )

    def aim(self, target: Target, *, tries: bool = True) -> "DatagramInjection":  # noqa: ARG002 - probes only are seen
        """Aim at the links between the ends that are selected now. Raises `UsageError` when members send no datagrams,
        and `UnknownOutcome` when probes are hit without the fault.
        """
        roster = roster_of(target)
        sources, targets = self.sources.select(roster), self.targets.select(roster)
        self.require_possible(len(target.member_ids))
        links = links_now(lambda: links_between(self, sources, targets))
        named = replace(self, sources=exactly(sources), targets=exactly(targets))
        return DatagramInjection(target, self, links, named.statement, victims_of(sources, targets))


@dataclass(frozen=True, slots=True)
class _Seen:
    """The probes of one leg: how many were sent, were lost, arrived more than once, and arrived after a later one."""

    probes: int
    lost: int
    doubled: int
    late: int

    def hit(self, kind: DatagramFaultKind) -> int:
        """How many of the probes show a fault of that kind."""
        match kind:
            case DatagramFaultKind.LOSE | DatagramFaultKind.OMIT:
                return self.lost
            case DatagramFaultKind.DUPLICATE:
                return self.doubled
            case DatagramFaultKind.DISORDER:
                return self.late


def _seen(probes: int, came: Sequence[int]) -> _Seen:
    """Count the probes. `came` are their numbers in order of arrival."""
    late, latest = set[int](), -1
    for number in came:
        if number < latest:
            late.add(number)
        latest = max(latest, number)
    counts = Counter(came)
    return _Seen(probes, probes - len(counts), sum(count > 1 for count in counts.values()), len(late))


class DatagramInjection:
    """An injected datagram fault. Implements `Injection`."""

    is_exclusive = False
    keeps_down = False
    starts = False
    component = None

    def __init__(
        self, target: Target, fault: DatagramFault, links: Sequence[Link], statement: str, victims: Sequence[int]
    ) -> None:
        self._target = target
        self._datagrams = target.datagrams(fault.kind)
        self._fault = fault
        self.links = links
        self.what = fault.kind.value
        self.where = "links " + ", ".join(map(str, links))
        self.statement = statement
        self.victims = victims
        self.member_ids = list(
            dict.fromkeys(end for link in links for end in (link.source, link.target) if end != CLIENTS)
        )
        self._count = max(_PROBES_LEAST, _HITS_EXPECTED * 100 // fault.percent if fault.percent else 0)
        self._twice(lambda: self._require_unhit(self._look(fault.effect)))

    def ends_at_start(self) -> bool:
        """False: links stay as they are."""
        return False

    def act(self) -> None:
        """Impose the effect on every link."""
        self._datagrams.disturb(self.links, self._fault.effect)

    def prove(self) -> Proof:
        """On each leg, the share of hit probes matches the fault."""
        return proof_of(lambda: self._twice(self._look_hit))

    def seen(self) -> None:
        """None: usual traffic does not show what happened to it."""

    def heal(self) -> None:
        """Remove the effect from every link."""
        self._datagrams.restore(self.links, self._fault.effect)

    def prove_healed(self) -> Proof:
        """No probe is hit any more."""
        return proof_of(self._look_healed)

    def seen_healed(self) -> None:
        """None: usual traffic does not show that."""

    @staticmethod
    def _twice(look: Callable[[], T]) -> T:
        """Look twice if needed: a busy machine loses some probes, too."""
        try:
            return look()
        except UnknownOutcome:
            return look()

    def _look(self, effect: DatagramEffect) -> Mapping[tuple[Link, str], _Seen]:
        """The arrival of probes that match the effect, by link and leg."""
        return {
            (link, leg): _seen(self._count, came)
            for link in self.links
            for leg, came in self._datagrams.volley(link, self._count, effect).items()
        }

    def _look_hit(self) -> str:
        self._target.let_pass(SETTLES_S)
        effect = self._fault.effect
        legs = self._look(effect)
        for (link, leg), seen in legs.items():
            low, high = self._bounds(link)
            if not low <= seen.hit(effect.kind) <= high:
                raise UnknownOutcome(
                    f"{leg}: expected {low} to {high} of {seen.probes} probes to be hit, got {seen.hit(effect.kind)}"
                )
        hits = [seen.hit(effect.kind) for seen in legs.values()]
        text = f"of {self._count} probes on each of {len(legs)} legs {min(hits)} to {max(hits)} were hit"
        if self._fault.frames:
            other = next(name for name in FRAMES if name != self._fault.frames)
            self._require_unhit(self._look(replace(effect, frames=other)))
            text += f"; of frames {other} none"
        if self._fault.message:
            other = next(name for name in MESSAGES if name != self._fault.message)
            self._require_unhit(self._look(replace(effect, message=other)))
            text += f"; of messages {other} none"
        return text

    def _bounds(self, link: Link) -> tuple[int, int]:
        """The range for the number of hit probes. If both directions are affected, the answer to a probe can be hit as
        well.
        """
        count = self._count
        if self._fault.kind is DatagramFaultKind.DISORDER:
            return int(_DISORDER * count), count
        once = self._fault.percent / 100
        share = 1 - (1 - once) ** 2 if link.reverse in self.links else once
        chance = _CHANCE * (count * share * (1 - share)) ** 0.5
        return max(1, int(count * share - chance)), min(count, int(count * share + chance) + 1)

    def _require_unhit(self, legs: Mapping[tuple[Link, str], _Seen]) -> None:
        for (_, leg), seen in legs.items():
            if hit := seen.hit(self._fault.kind):
                raise UnknownOutcome(f"{leg}: {hit} of {seen.probes} probes were hit without this fault")

    def _look_healed(self) -> str:
        def is_over() -> bool:
            try:
                self._require_unhit(self._look(self._fault.effect))
            except UnknownOutcome:
                return False
            return True

        self._target.wait_until(is_over, COMES_BACK_S, f"end of {self._fault.kind}")
        return f"of {self._count} probes on each leg none was hit"
