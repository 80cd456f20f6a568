"""Faults of a simulated run: drawn from the seed as plain values, and done to a cluster handle one after the other.

What is done, and what shows that it took effect, is in the cluster's own methods; this module knows only their names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final, Protocol, assert_never

from upheaval_node.types import MS, S

LONGEST_FAULT_NS: Final = 4 * S
LONGEST_PAUSE_BETWEEN_NS: Final = 2_500 * MS


Link = tuple[str, str]
"""Source and target host of one direction."""


class FaultKind(StrEnum):
    KILL = "kill"
    KILL_LEADER = "kill_leader"
    POWER_CUT = "power_cut"
    POWER_CUT_ALL = "power_cut_all"
    PAUSE = "pause"
    ISOLATE = "isolate"
    ISOLATE_LEADER = "isolate_leader"
    ONE_WAY = "one_way"
    CLIENTS_CUT_OFF = "clients_cut_off"
    RESET = "reset"
    SLOW = "slow"
    CLOCK_JUMP = "clock_jump"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault of a schedule. Members are drawn; a fault of the leader finds its target when it begins."""

    kind: FaultKind
    start_ns: int
    duration_ns: int
    member: int
    other: int


class Target(Protocol):
    """What a cluster lets faults do to it."""

    @property
    def member_ids(self) -> list[int]: ...

    def leader(self) -> int | None: ...

    def kill(self, member_id: int) -> None: ...

    def power_cut(self, member_ids: list[int]) -> None: ...

    def start(self, member_id: int) -> None: ...

    def pause(self, member_id: int) -> None: ...

    def resume(self, member_id: int) -> None: ...

    def links_of(self, member_id: int) -> list[Link]: ...

    def client_links_of(self, member_id: int) -> list[Link]: ...

    def link(self, member_id: int, other: int) -> Link: ...

    def cut_links(self, links: list[Link]) -> None: ...

    def heal_links(self, links: list[Link]) -> None: ...

    def reset_connections(self, member_id: int) -> int: ...

    def slow_down(self, member_id: int, latency_ns: int) -> None: ...

    def jump_clock(self, member_id: int, milliseconds: int) -> None: ...


def draw_schedule(
    random: Random, *, members: int, count: int, sync_level: int, overlapping: bool
) -> list[PlannedFault]:
    """A schedule of `count` faults in the order of their times, which are relative to its start.

    Faults come one after the other, or begin while others last if they are `overlapping`. At sync level 0 nobody loses
    power: what survives is then the disk's choice and not a promise.
    """
    kinds = [kind for kind in FaultKind if sync_level > 0 or kind not in (FaultKind.POWER_CUT, FaultKind.POWER_CUT_ALL)]
    schedule: list[PlannedFault] = []
    time_ns = 0
    for _ in range(count):
        time_ns += random.randint(200 * MS, LONGEST_PAUSE_BETWEEN_NS)
        duration_ns = random.randint(50 * MS, LONGEST_FAULT_NS)
        member = random.randrange(members)
        other = (member + random.randrange(1, members)) % members if members > 1 else member
        schedule.append(PlannedFault(random.choice(kinds), time_ns, duration_ns, member, other))
        time_ns += 0 if overlapping else duration_ns
    return schedule


Injection = tuple[str, tuple[int, ...], str, Callable[[], str]]


def inject(cluster: Target, fault: PlannedFault) -> Injection:
    """Do it; returns where, to which members, the proof that it took effect, and what heals it and proves that."""
    leader = cluster.leader()
    at = leader if leader is not None and fault.kind in _OF_THE_LEADER else fault.member
    match fault.kind:
        case FaultKind.KILL | FaultKind.KILL_LEADER:
            cluster.kill(at)
            return f"member {at}", (at,), "its process is dead", lambda: _start(cluster, [at])
        case FaultKind.POWER_CUT:
            cluster.power_cut([at])
            return f"member {at}", (at,), "its host is off", lambda: _start(cluster, [at])
        case FaultKind.POWER_CUT_ALL:
            cluster.power_cut(cluster.member_ids)
            return (
                "all members",
                tuple(cluster.member_ids),
                "their hosts are off",
                lambda: _start(cluster, cluster.member_ids),
            )
        case FaultKind.PAUSE:
            cluster.pause(at)
            return f"member {at}", (at,), "its process is stopped", lambda: _resume(cluster, at)
        case FaultKind.ISOLATE | FaultKind.ISOLATE_LEADER:
            return _cut(cluster, f"member {at}", (at,), cluster.links_of(at))
        case FaultKind.CLIENTS_CUT_OFF:
            return _cut(cluster, f"clients of member {at}", (at,), cluster.client_links_of(at))
        case FaultKind.ONE_WAY:
            return _cut(cluster, f"link {at} to {fault.other}", (at, fault.other), [cluster.link(at, fault.other)])
        case FaultKind.RESET:
            count = cluster.reset_connections(at)
            return f"member {at}", (at,), f"{count} connections reset", lambda: "nothing to heal"
        case FaultKind.SLOW:
            cluster.slow_down(at, fault.duration_ns // 20)
            return (
                f"member {at}",
                (at,),
                f"{fault.duration_ns // 20} ns more on its links",
                lambda: _speed_up(cluster, at),
            )
        case FaultKind.CLOCK_JUMP:
            jump_ms = (fault.duration_ns // MS - LONGEST_FAULT_NS // MS // 2) * 10
            cluster.jump_clock(at, jump_ms)
            return f"member {at}", (at,), f"its wall clock moved by {jump_ms} ms", lambda: _set_clock(cluster, at)
        case _ as unreachable:
            assert_never(unreachable)


_OF_THE_LEADER: Final = frozenset({FaultKind.KILL_LEADER, FaultKind.ISOLATE_LEADER, FaultKind.CLIENTS_CUT_OFF})


def _start(cluster: Target, member_ids: list[int]) -> str:
    for member_id in member_ids:
        cluster.start(member_id)
    return "started again"


def _resume(cluster: Target, member_id: int) -> str:
    cluster.resume(member_id)
    return "continued"


def _cut(cluster: Target, where: str, members: tuple[int, ...], links: list[Link]) -> Injection:
    cluster.cut_links(links)

    def heal() -> str:
        cluster.heal_links(links)
        return "healed"

    return where, members, f"{len(links)} links are cut", heal


def _speed_up(cluster: Target, member_id: int) -> str:
    cluster.slow_down(member_id, 0)
    return "links are as before"


def _set_clock(cluster: Target, member_id: int) -> str:
    cluster.jump_clock(member_id, 0)
    return "its wall clock is right"
