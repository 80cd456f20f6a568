"""The clusters of a campaign, drawn entirely from the seed, so that one number determines everything.

Values only; this module runs nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields as dataclass_fields, replace
from random import Random
from typing import Final, Self

from upheaval.campaign.variations import NO_VARIATIONS, Variations, draw_variations
from upheaval.records import AdminCommand, Json
from upheaval.runtimes.simulated.delivery import DEPTHS as CHANGES, DeliveryOrder
from upheaval.runtimes.simulated.gate import Gate, make_gate
from upheaval.scenario import (
    SNAPSHOT_STATE,
    AskFor,
    Begin,
    End,
    OwnCode,
    Scenario,
    Step,
    WaitCompanion,
    WaitLeader,
    WaitMoment,
    WaitOperations,
    WaitSeconds,
    WaitState,
    WaitTime,
)
from upheaval.system import ClusterSpec
from upheaval.workload import LEDGER_SERVICE, TIMERS_SERVICE, WORKBENCH_SERVICE, WorkloadSettings
from upheaval_chaos.faults import Fault, Group, MemberFault, MemberFaultKind, Members, Selector, Who
from upheaval_chaos.host_faults import LEAST_JUMP_MS, HostFault, HostFaultKind
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import CHANNELS, LinkFaultKind
from upheaval_node.cluster.rules import OWN
from upheaval_node.settings import KIB, ClusterTimeouts, MemberSettings, profile_settings
from upheaval_node.types import MS, S

SECONDS: Final = 62
"""The load on every cluster, in seconds of virtual time."""

RESTART_NS: Final = 9 * S
"""The time from an admin command to end until the members start again: longer than the time-outs of a termination."""
LONGEST_FULL_NS: Final = S
"""The longest full disk: the member tries again and again, and a longer fault shows nothing new but takes long."""
SLOW_DISK_MS: Final = 40
SESSIONS_S: Final = (4, 5)
"""Session time-outs: longer than a client is silent between keep-alives, but short enough for short seeds."""
CALM_NS: Final = 1500 * MS
"""The quiet time at the end, on top of 1.1 session time-outs: a client that left without a word before it must have
lost its session.
"""
SILENT: Final = 4
"""The number of clients that leave without a word, the last one in the quiet time."""


ENTERED: Final = "entered"
"""The name of the member that has entered the awaited state."""


@dataclass(frozen=True, slots=True)
class FaultDraw:
    """The draws for a fault of any kind; `FAULT_NEEDS` says which of them a kind uses."""

    members: int
    """The number of members in the cluster."""
    duration_ns: int
    member: int = 0
    other: int = 0
    depth: int = 0
    channel: str = CHANNELS[0]
    is_entered: bool = False
    """Whether it hits the member that has entered the awaited state, in place of the drawn one."""

    @property
    def one(self) -> Members:
        """The drawn member, or the one that has entered the state."""
        return Members(Selector.VICTIM, other_than=ENTERED) if self.is_entered else _one(self.member)

    @property
    def rest(self) -> Who:
        """All members except that one."""
        return Members(Selector.ALL, other_than=ENTERED) if self.is_entered else _several(self.others)

    @property
    def others(self) -> tuple[int, ...]:
        """All members except the drawn one."""
        return tuple(number for number in range(self.members) if number != self.member)


def _cut(sources: Who, targets: Who, *, both_ways: bool, channel: str = "") -> Fault:
    return LinkFault(LinkFaultKind.BLACKHOLE, sources, targets, both_ways, channel=channel)


def _one(member_id: int) -> Members:
    return Members(member_id=member_id)


def _several(member_ids: Iterable[int]) -> Group:
    return Group(tuple(map(_one, member_ids)))


def _jump(draw: FaultDraw) -> Fault:
    """A clock jump of up to 20 seconds, ahead or back."""
    jump_ms = (draw.duration_ns // MS - 2000) * 10
    amount = jump_ms if abs(jump_ms) >= LEAST_JUMP_MS else LEAST_JUMP_MS
    return HostFault(HostFaultKind.CLOCK_JUMP, _one(draw.member), amount)


def _slow(draw: FaultDraw) -> Fault:
    latency_ms = max(draw.duration_ns // 20 // MS, 1)
    return LinkFault(
        LinkFaultKind.SLOW, _one(draw.member), _several(draw.others), both_ways=True, latency_ms=latency_ms
    )


_LEADER: Final = Members(Selector.LEADER)
SLOW: Final = "slow"
_FAULTS: Final[Mapping[str, Callable[[FaultDraw], Fault]]] = {
    "kill": lambda d: MemberFault(MemberFaultKind.KILL, d.one),
    "kill-leader": lambda _: MemberFault(MemberFaultKind.KILL, _LEADER),
    "power-cut": lambda d: HostFault(HostFaultKind.POWER_CUT, d.one),
    "power-cut-all": lambda _: HostFault(HostFaultKind.POWER_CUT, Members(Selector.ALL)),
    "pause": lambda d: MemberFault(MemberFaultKind.PAUSE, d.one),
    "isolate": lambda d: _cut(d.one, d.rest, both_ways=True),
    "isolate-leader": lambda _: _cut(_LEADER, Members(Selector.FOLLOWERS), both_ways=True),
    "one-way": lambda d: _cut(_one(d.member), _one(d.other), both_ways=False),
    "clients-cut-off": lambda _: _cut(_LEADER, Members(Selector.CLIENTS), both_ways=True),
    "reset": lambda d: LinkFault(LinkFaultKind.RESET, _one(d.member), _several(d.others), both_ways=True),
    SLOW: _slow,
    "clock-jump": _jump,
    "channel-cut": lambda d: _cut(_one(d.member), _one(d.other), both_ways=False, channel=d.channel),
    "die-in-change": lambda d: HostFault(HostFaultKind.DIE_IN_CHANGE, _one(d.member), d.depth),
    "power-lost-in-change": lambda d: HostFault(HostFaultKind.POWER_LOST_IN_CHANGE, _one(d.member), d.depth),
    "disk-full": lambda d: HostFault(HostFaultKind.DISK_FULL, _one(d.member)),
    "disk-slow": lambda d: HostFault(HostFaultKind.DISK_SLOW, _one(d.member), SLOW_DISK_MS),
}
KINDS: Final = tuple(_FAULTS)
FAULT_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(KINDS, ("member",)),
    **dict.fromkeys(("kill-leader", "power-cut-all", "isolate-leader", "clients-cut-off"), ()),
    "one-way": ("member", "other"),
    "channel-cut": ("member", "other", "channel"),
    "die-in-change": ("member", "depth"),
    "power-lost-in-change": ("member", "depth"),
}
OF_ENTERED: Final = frozenset({"kill", "power-cut", "pause", "isolate"})
"""The kinds that may hit the member that has entered the awaited state."""
DEPTHS: Final = 60
"""The number of complete file changes before the one in which a process dies."""
WRONG_BYTES: Final = "wrong-bytes"
"""Drawn separately, for clusters whose recordings have checksums and are synced."""
LOSING_POWER: Final = frozenset({"power-cut", "power-cut-all", "power-lost-in-change"})
OF_SEVERAL: Final = frozenset({"isolate", "isolate-leader", "one-way", "reset", "slow", "channel-cut"})


LONGEST_WAIT_NS: Final = 2 * S
"""How long a fault waits at most for its moment; without it, it begins or heals then."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment at which a member has entered a state, one of `upheaval.scenario.STATES`, and some time after it."""

    state: str
    member: int | None = None
    """None: any member."""
    after_ms: int = 0
    is_victim: bool = False
    """Whether the fault hits the member that has entered the state, if it is of a kind in `OF_ENTERED`."""

    @property
    def who(self) -> Members | None:
        """The member, as steps and statements have it."""
        return None if self.member is None else _one(self.member)

    def steps(self) -> Iterator[Step]:
        """The waits until that moment. A snapshot begins when it is asked for."""
        if self.state == SNAPSHOT_STATE:
            yield AskFor(AdminCommand.SNAPSHOT)
        yield WaitState(self.state, self.who, LONGEST_WAIT_NS, ENTERED)
        if self.after_ms:
            yield WaitMoment(0, self.after_ms)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault: when it begins after the start of the load, and how long it lasts. With a moment it waits for that."""

    kind: str
    start_ns: int
    duration_ns: int
    fault: Fault
    drawn: FaultDraw | None = field(default=None, compare=False, repr=False)
    """The draws that made the fault."""
    moment: Moment | None = None
    """When it begins after `start_ns`."""
    until: Moment | None = None
    """When it heals after its duration."""

    @property
    def heal_ns(self) -> int:
        """When it heals, or when the wait for that moment begins."""
        return self.start_ns + self.duration_ns + (LONGEST_WAIT_NS if self.moment is not None else 0)

    @property
    def end_ns(self) -> int:
        """When it has healed at the latest."""
        return self.heal_ns + (LONGEST_WAIT_NS if self.until is not None else 0)


def plan_fault(
    kind: str, start_ns: int, drawn: FaultDraw, moment: Moment | None = None, until: Moment | None = None
) -> PlannedFault:
    """A fault of one of `KINDS`, which begins at the moment and heals at `until`, if they are given."""
    is_entered = moment is not None and moment.is_victim and kind in OF_ENTERED
    fault = _FAULTS[kind](replace(drawn, is_entered=is_entered))
    return PlannedFault(kind, start_ns, drawn.duration_ns, fault, drawn, moment, until)


def kinds_for(members: int, sync_level: int) -> tuple[str, ...]:
    """The kinds of faults that such a cluster may have.

    At sync level 0 no member loses power: acknowledged operations may be lost then, and no promise forbids that.
    """
    kinds = [kind for kind in KINDS if sync_level > 0 or kind not in LOSING_POWER]
    return tuple(kind for kind in kinds if members > 1 or kind not in OF_SEVERAL)


@dataclass(frozen=True, slots=True)
class Swarm:
    """One cluster of a campaign, its load and its faults. Durations are in nanoseconds, lengths in bytes."""

    seed: int
    members: int
    sync_level: int
    service: str
    heartbeat_interval_ns: int
    heartbeat_timeout_ns: int
    election_timeout_ns: int
    status_interval_ns: int
    session_timeout_ns: int
    term_length: int
    segment_length: int
    time_unit: str
    snapshot_interval_ns: int
    """0: no snapshots are requested."""
    rate: int
    keys: int
    skews_ms: tuple[int, ...]
    """The initial skew of each member's wall clock."""
    faults: tuple[PlannedFault, ...]
    ending: str = ""
    """How the whole cluster is ended and restarted in the middle: `shutdown`, `abort`, or not at all."""
    ending_ns: int = 0
    """When that command is given, after the start of the load."""
    seconds: int = SECONDS
    """The duration of the load."""
    silent: int = SILENT
    """The number of clients that leave without a word."""
    variations: Variations = NO_VARIATIONS
    delivery: DeliveryOrder | None = None
    """The order of deliveries between members; by their latencies alone unless a search sets it."""
    compatibility: str = OWN
    """Whose rules the members follow where ours differ from Aeron's; not drawn."""
    own: OwnCode | None = None
    """The user's service and clients, in place of the drawn ones."""

    @property
    def shown_faults(self) -> list[str]:
        """A few words about each fault, in order."""
        return [
            f"{fault.kind} at {fault.start_ns / S:.3f} s" + (f", {fault.moment.state}" if fault.moment else "")
            for fault in self.faults
        ]

    def plain(self) -> Self:
        """The same cluster without variations."""
        return replace(self, variations=NO_VARIATIONS)

    def run_by(self, own: OwnCode) -> Self:
        """The same cluster with that service and its clients."""
        return replace(self, service=own.service, own=own)

    def settings(self) -> MemberSettings:
        """The settings of every member."""
        profile = profile_settings("test", sync_level=self.sync_level)
        timeouts = replace(
            profile.cluster.timeouts,
            startup_canvass_ns=2 * self.heartbeat_timeout_ns,
            election_ns=self.election_timeout_ns,
            election_status_interval_ns=self.status_interval_ns,
            leader_heartbeat_ns=self.heartbeat_timeout_ns,
            leader_heartbeat_interval_ns=self.heartbeat_interval_ns,
            session_ns=self.session_timeout_ns,
        )
        assert isinstance(timeouts, ClusterTimeouts)
        plain = replace(
            profile,
            archive=replace(profile.archive, segment_length=self.segment_length),
            cluster=replace(
                profile.cluster,
                timeouts=timeouts,
                log_term_length=self.term_length,
                time_unit=self.time_unit,
                compatibility=self.compatibility,
            ),
        )
        return self.variations.apply(plain)

    def gate(self) -> Gate | None:
        """The access control, the same at every call; None when everyone may connect."""
        return make_gate(self.seed) if self.variations.has_credentials else None

    def workload(self) -> WorkloadSettings:
        """The load, from the same seed."""
        return WorkloadSettings(
            seed=self.seed,
            keys=self.keys,
            slots=8,
            rate=self.rate * self.variations.load_factor,
            service=self.service,
            text_length=self.variations.text_length,
            silent=self.silent,
            silent_every_ns=self._quiet_ns // max(self.silent - 1, 1),
        )

    def to_fields(self) -> dict[str, Json]:
        """The fields of a JSON line."""
        fields: dict[str, Json] = {one.name: getattr(self, one.name) for one in dataclass_fields(self)}
        fields["faults"] = list(self.shown_faults)
        fields["skews_ms"] = list(self.skews_ms)
        fields["variations"] = self.variations.to_fields()
        del fields["own"]
        del fields["delivery"]
        if self.delivery is not None:
            fields["delivery"] = {"depth": self.delivery.depth, "spread_ms": self.delivery.spread_ns // MS}
        own = OwnCode("") if self.own is None else self.own
        return {**fields, "own_service": own.service, "user": own.user, "model": own.model}

    @property
    def _calm_ns(self) -> int:
        return self.session_timeout_ns * 11 // 10 + CALM_NS

    @property
    def _quiet_ns(self) -> int:
        """The begin of the quiet time, after the start of the load."""
        return (self.seconds - 2) * S

    def restored(self) -> Scenario:
        """The scenario of a cluster that begins with the files of another cluster of this kind: it serves and is
        judged.
        """
        steps = (WaitOperations(RESTORED_OPERATIONS), AskFor(AdminCommand.SNAPSHOT), WaitSeconds(1))
        return replace(self.scenario(), name=f"campaign-{self.seed}-restored", steps=steps)

    def named_faults(self) -> Iterator[tuple[str, PlannedFault]]:
        """Each fault with its name in the scenario."""
        damages = (
            PlannedFault(
                WRONG_BYTES,
                damage.start_ns,
                damage.duration_ns,
                HostFault(HostFaultKind.WRONG_BYTES, _one(damage.member), damage.percent),
            )
            for damage in self.variations.damages
        )
        for number, planned in enumerate((*self.faults, *damages)):
            yield f"{planned.kind}-{number}", planned

    def scenario(self) -> Scenario:
        """The whole scenario of the cluster, in order of time."""
        events: list[tuple[int, Step]] = []
        for name, planned in self.named_faults():
            events += [(planned.start_ns, step) for step in _at(planned.moment, Begin(name, planned.fault))]
            events += [(planned.heal_ns, step) for step in _at(planned.until, End(name))]
        quiet_ns = self._quiet_ns
        if self.snapshot_interval_ns:
            times_ns = range(self.snapshot_interval_ns, quiet_ns, self.snapshot_interval_ns)
            events += [(time_ns, AskFor(AdminCommand.SNAPSHOT)) for time_ns in times_ns]
        if self.ending:
            events += [
                (self.ending_ns, AskFor(AdminCommand(self.ending))),
                (self.ending_ns + RESTART_NS, AskFor(AdminCommand.START)),
            ]
        companion = self.variations.companion
        last: tuple[Step, ...] = (WaitLeader(), WaitSeconds(self._calm_ns / S))
        if companion is not None:
            events += companion.steps
            last = (*last, WaitCompanion(companion.config.name))
        events.append((quiet_ns, AskFor(AdminCommand.START)))
        events.sort(key=lambda event: event[0])
        steps = [step for time_ns, event in events for step in (WaitTime(time_ns), event)]
        return Scenario(
            f"campaign-{self.seed}",
            f"Seed {self.seed} of a campaign",
            "",
            ClusterSpec(
                members=self.members,
                sync_level=self.sync_level,
                service=self.service,
                more_services=self.variations.more_services,
                compatibility=self.compatibility,
            ),
            self.workload(),
            (*steps, *last),
            # Snapshots are drawn.
            witnesses=False,
        ).run_by(self.own)


def _at(moment: Moment | None, step: Step) -> Iterator[Step]:
    """A step with the waits for its moment."""
    if moment is not None:
        yield from moment.steps()
    yield step


SPREADS: Final = (64, 16, 8)
"""The part of an election time-out by which the channel of the lowest priority delivers later than that of the highest.
"""
RESTORED_OPERATIONS: Final = 100
"""The number of operations that a restored cluster has to acknowledge."""


def draw_swarm(seed: int, seconds: int = SECONDS, own: OwnCode | None = None) -> Swarm:
    """The cluster of a seed, always the same as long as this function does not change."""
    swarm = _draw_swarm(seed, seconds)
    return swarm if own is None else swarm.plain().run_by(own)


def draw_delivery(swarm: Swarm) -> Swarm:
    """The same cluster with an order of deliveries, if it has several members.

    An answer is late by at most four times the spread, so a ballot still ends within its time-out. Slow links are left
    out: their proof compares latencies, which the order changes.
    """
    if swarm.members == 1:
        return swarm
    random = Random(f"swarm/{swarm.seed}/delivery")
    spread_ms = swarm.election_timeout_ns // MS // random.choice(SPREADS)
    order = DeliveryOrder(random.choice(CHANGES), spread_ms * MS)
    return replace(swarm, delivery=order, faults=tuple(fault for fault in swarm.faults if fault.kind != SLOW))


def _draw_swarm(seed: int, seconds: int) -> Swarm:
    random = Random(f"swarm/{seed}")
    # A separate generator, so that the rest of a seed stays as it was before clusters were ended.
    ending = Random(f"swarm/{seed}/ending")
    session_timeout_ns = Random(f"swarm/{seed}/session").choice(SESSIONS_S) * S
    members = random.choices((1, 3, 5), (1, 7, 2))[0]
    sync_level = random.randrange(3)
    term_length = random.choice((64, 64, 128, 256)) * KIB
    interval_ns = random.choice((50, 100, 200)) * MS
    how_ended = ending.choices(("", "shutdown", "abort"), (6, 2, 2))[0]
    swarm = Swarm(
        seed=seed,
        members=members,
        sync_level=sync_level,
        service=random.choices((WORKBENCH_SERVICE, LEDGER_SERVICE, TIMERS_SERVICE), (5, 2, 2))[0],
        heartbeat_interval_ns=interval_ns,
        heartbeat_timeout_ns=random.choice((1000, 1500, 2500)) * MS,
        election_timeout_ns=random.choice((300, 500, 1000)) * MS,
        status_interval_ns=random.choice((50, 100)) * MS,
        session_timeout_ns=session_timeout_ns,
        term_length=term_length,
        segment_length=term_length * random.choice((1, 2, 4)),
        time_unit=random.choices(("MILLIS", "MICROS", "NANOS"), (4, 1, 1))[0],
        snapshot_interval_ns=random.choice((0, 5, 10, 20)) * S,
        rate=random.choice((15, 20, 25)),
        keys=random.randint(2, 8),
        skews_ms=tuple(random.choice((0, 0, random.randint(-5000, 5000))) for _ in range(members)),
        faults=_draw_faults(random, members, sync_level, seconds),
        ending=how_ended,
        ending_ns=ending.randint(10 * S, max(seconds - 25, 10) * S) if how_ended else 0,
        seconds=seconds,
    )
    return replace(swarm, variations=draw_variations(seed, members, sync_level, swarm.service, seconds))


def _draw_faults(random: Random, members: int, sync_level: int, seconds: int) -> tuple[PlannedFault, ...]:
    """Faults one after the other, or some of them overlapping. The first fault of a lone member makes it restart."""
    kinds = kinds_for(members, sync_level)
    is_overlapping = random.random() < 0.4
    weights = [random.choice((0, 1, 1, 3)) for _ in kinds]
    if not any(weights):
        weights = [1 for _ in kinds]
    faults: list[PlannedFault] = []
    time_ns = 2 * S
    while True:
        kind = "kill-leader" if not faults else random.choices(kinds, weights)[0]
        duration_ns = random.randint(100 * MS, LONGEST_FULL_NS if kind == "disk-full" else 4 * S)
        if time_ns + duration_ns > (seconds - 8) * S:
            return tuple(faults)
        member = random.randrange(members)
        other = (member + random.randrange(1, members)) % members if members > 1 else member
        drawn = FaultDraw(members, duration_ns, member, other, random.randrange(DEPTHS), random.choice(CHANNELS))
        faults.append(plan_fault(kind, time_ns, drawn))
        time_ns += random.randint(2 * S, 7 * S) + (0 if is_overlapping else duration_ns)
