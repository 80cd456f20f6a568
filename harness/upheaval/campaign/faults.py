"""Does the faults of a swarm to a simulated cluster, and looks whether each of them took effect.

What cannot take effect (the member is dead already, nothing was connected) is no fault and is not written down: in a
drawn schedule that happens, and a promise about it would only count what was lucky.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from upheaval.campaign.swarm import CHANNELS, SwarmFault
from upheaval.runtimes.simulated import faults as plain
from upheaval.runtimes.simulated.cluster import INGRESS_PORT, SimulatedCluster, SimulatedMember, host_of
from upheaval.runtimes.simulated.faults import FaultKind, PlannedFault
from upheaval_node.types import MS

SLOW_DISK_NS: Final = 40 * MS
_PLAIN: Final = frozenset(kind.value for kind in FaultKind)
_OF_LIVE_MEMBERS: Final = frozenset({"kill", "power_cut", "pause", "die_in_change", "power_lost_in_change"})


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that lasts. `heal` ends it and returns what was seen of both, or None when it had no effect."""

    where: str
    members: tuple[int, ...]
    heal: Callable[[], tuple[str, str] | None]


def inject(cluster: SimulatedCluster, fault: SwarmFault) -> Injected | None:
    """Do it; None when there is nothing to do it to."""
    member = cluster.members[fault.member]
    if fault.kind in _OF_LIVE_MEMBERS and not member.alive:
        return None
    if fault.kind in _PLAIN:
        return _plain(cluster, fault)
    match fault.kind:
        case "die_in_change":
            return _die(cluster, member, fault, power_cut=False)
        case "power_lost_in_change":
            return _die(cluster, member, fault, power_cut=True)
        case "disk_full":
            return _full(cluster, member)
        case "disk_slow":
            return _slow_disk(member)
        case "channel_cut":
            return _cut_channel(cluster, fault)
        case _:
            raise AssertionError(fault.kind)


def _plain(cluster: SimulatedCluster, fault: SwarmFault) -> Injected | None:
    planned = PlannedFault(FaultKind(fault.kind), fault.start_ns, fault.duration_ns, fault.member, fault.other)
    if fault.kind == "kill_leader" and cluster.leader() is None:
        return None
    where, members, proof, heal = plain.inject(cluster, planned)
    if proof.startswith("0 "):
        heal()
        return None
    return Injected(where, members, lambda: (proof, heal()))


def _die(cluster: SimulatedCluster, member: SimulatedMember, fault: SwarmFault, *, power_cut: bool) -> Injected:
    """The member dies in the middle of a change of its files, and starts again."""
    member.disk.end_process_at(fault.depth, lambda: member.end(power_cut=power_cut))

    def heal() -> tuple[str, str] | None:
        if member.disk.disarm():
            return None
        is_dead = not member.alive
        cluster.start(member.member_id)
        how = "its host lost power" if power_cut else "it was killed"
        return (f"{how} in a change of its files", "started again") if is_dead else None

    return Injected(f"member {member.member_id}", (member.member_id,), heal)


def _full(cluster: SimulatedCluster, member: SimulatedMember) -> Injected:
    disk = member.disk
    disk.is_full, before = True, disk.refused

    def heal() -> tuple[str, str] | None:
        disk.is_full = False
        refused = disk.refused - before
        cluster.start(member.member_id)
        return (f"{refused} changes found no room on its disk", "there is room again") if refused else None

    return Injected(f"member {member.member_id}", (member.member_id,), heal)


def _slow_disk(member: SimulatedMember) -> Injected:
    disk = member.disk
    disk.extra_latency_ns = SLOW_DISK_NS

    def heal() -> tuple[str, str] | None:
        disk.extra_latency_ns = 0
        slowed = sum(took_ns > SLOW_DISK_NS for _, took_ns in disk.syncs)
        return (f"{slowed} syncs took {SLOW_DISK_NS // MS} ms longer", "no longer") if slowed else None

    return Injected(f"member {member.member_id}", (member.member_id,), heal)


def _cut_channel(cluster: SimulatedCluster, fault: SwarmFault) -> Injected:
    """One direction of one channel between two members."""
    source, target = host_of(fault.member), host_of(fault.other)
    port = str(INGRESS_PORT + 1 + CHANNELS.index(fault.channel))
    cluster.fabric.cut(source, target, port)
    link = cluster.fabric.channel(source, target, port)

    def heal() -> tuple[str, str] | None:
        was_cut = link.cut_since_ns is not None
        cluster.fabric.heal(source, target, port)
        return ("what is sent on it did not arrive", "healed") if was_cut else None

    return Injected(f"{fault.channel} from {fault.member} to {fault.other}", (fault.member, fault.other), heal)
