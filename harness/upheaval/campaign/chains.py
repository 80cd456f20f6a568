"""Faults in chains: while one of them heals, the next ones begin.

Faults that come one by one meet a cluster that has recovered. Many rules of consensus matter only within a chain: a
leader that was cut off returns with entries that no other member has, while the leader after it dies.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from upheaval.campaign.swarm import DEPTHS, FaultDraw, PlannedFault, Swarm, kinds_for, plan_fault
from upheaval_chaos.target import CHANNELS
from upheaval_node.types import MS, S

_FIRST: Final = {"isolate-leader": 3, "kill-leader": 1, "pause": 1, "one-way": 1, "power-cut": 1}
"""How often the first fault of a chain is of a kind, in relation to the others."""
_NEXT: Final = {
    "kill-leader": 3,
    "kill": 3,
    "power-cut": 2,
    "isolate-leader": 1,
    "pause": 1,
    "one-way": 1,
    "power-cut-all": 1,
    "die-in-change": 1,
    "power-lost-in-change": 1,
}
_FAULTS_MAX: Final = 3
"""The most faults of a chain."""
_AFTER_TIMEOUT_NS: Final = (100 * MS, 3 * S)
"""How much longer than a heartbeat time-out the first fault lasts: the others elect a leader meanwhile."""
_NEXT_BEGINS_NS: Final = (-800 * MS, 1200 * MS)
"""When the next faults begin, after the first one heals."""
_NEXT_LASTS_NS: Final = (300 * MS, 4 * S)
_PAUSE_NS: Final = (2 * S, 5 * S)
"""The time between two chains."""
_SNAPSHOTS_NS: Final = 10 * S
"""The least time between two snapshots."""
_END_NS: Final = 8 * S
"""The part of the load at its end in which no fault lasts."""


def draw_chains(swarm: Swarm) -> Swarm:
    """The same cluster with its faults in chains, if it has several members. The first chain begins with a leader that
    is cut off.

    Snapshots are at least 10 s apart: each restarts the time-outs of all sessions (as in Aeron), and chains make
    clients lose so many that a cluster which takes one in every time-out would stay full.
    """
    if swarm.members == 1:
        return swarm
    interval_ns = swarm.snapshot_interval_ns and max(swarm.snapshot_interval_ns, _SNAPSHOTS_NS)
    faults = tuple(sorted(_faults(swarm), key=lambda planned: planned.start_ns))
    return replace(swarm, faults=faults, snapshot_interval_ns=interval_ns)


def _faults(swarm: Swarm) -> Iterator[PlannedFault]:
    random = Random(f"swarm/{swarm.seed}/chains")
    possible = kinds_for(swarm.members, swarm.sync_level)
    time_ns = 2 * S
    is_first = True
    while True:
        kind = "isolate-leader" if is_first else kind_by_weight(random, _FIRST, possible)
        lasts_ns = swarm.heartbeat_timeout_ns + random.randint(*_AFTER_TIMEOUT_NS)
        first = plan_fault(kind, time_ns, draw_fault(swarm, random, lasts_ns))
        chain = [first]
        for _ in range(random.randint(1, _FAULTS_MAX - 1)):
            begin_ns = first.end_ns + random.randint(*_NEXT_BEGINS_NS)
            kind = kind_by_weight(random, _NEXT, possible)
            chain.append(plan_fault(kind, begin_ns, draw_fault(swarm, random, random.randint(*_NEXT_LASTS_NS))))
        end_ns = max(planned.end_ns for planned in chain)
        if end_ns > swarm.seconds * S - _END_NS:
            return
        yield from chain
        is_first = False
        time_ns = end_ns + random.randint(*_PAUSE_NS)


def kind_by_weight(random: Random, weights: Mapping[str, int], possible: Collection[str]) -> str:
    """One of the possible kinds, as often as its weight says."""
    kinds = [kind for kind in weights if kind in possible]
    return random.choices(kinds, [weights[kind] for kind in kinds])[0]


def draw_fault(swarm: Swarm, random: Random, duration_ns: int) -> FaultDraw:
    """The draws for a fault of any kind in a cluster of several members."""
    member = random.randrange(swarm.members)
    other = (member + random.randrange(1, swarm.members)) % swarm.members
    return FaultDraw(swarm.members, duration_ns, member, other, random.randrange(DEPTHS), random.choice(CHANNELS))
