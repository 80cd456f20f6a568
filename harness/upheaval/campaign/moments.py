"""Faults at moments: they begin, and some of them heal, when a member enters a state that is drawn.

A state of an election lasts some milliseconds, and few faults at drawn times begin within one. Many rules of consensus
matter only there: a member that has cut its log dies before it has as much again, or a former leader returns while the
others vote.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from random import Random
from typing import Final

from upheaval.campaign.chains import draw_fault, kind_by_weight
from upheaval.campaign.swarm import (
    LONGEST_WAIT_NS,
    RESTART_NS,
    SLOW,
    Moment,
    PlannedFault,
    Swarm,
    kinds_for,
    plan_fault,
)
from upheaval.scenario import STATES
from upheaval.workload import TIMERS_SERVICE
from upheaval_node.types import MS, S

_FIRST: Final = {
    "isolate-leader": 4,
    "isolate": 1,
    "pause": 1,
    "one-way": 1,
    "power-cut": 1,
    "kill-leader": 1,
}
"""How often the first fault of a chain is of a kind, in relation to the others."""
_NEXT: Final = {
    "kill": 4,
    "kill-leader": 3,
    "power-cut": 2,
    "isolate-leader": 2,
    "isolate": 3,
    "pause": 1,
    "one-way": 1,
    "power-cut-all": 1,
}
_HITS_IT: Final = 0.6
"""The share of faults that hit the member that has entered the state."""
_JOINING: Final = ("leader-init", "leader-ready", "follower-log-await", "follower-ready", "closed")
"""The states in which a term begins, and a log is joined."""
_OFTEN: Final = 3
"""How often such a state is drawn, in relation to the others."""
_FAULTS_MAX: Final = 3
"""The most faults of a chain."""
_LEAST_NS: Final = 100 * MS
_AFTER_TIMEOUT_NS: Final = 2 * S
"""How much longer than a heartbeat time-out a fault lasts at most. A shorter one than that time-out leaves a leader in
its term; after a longer one it returns to the log of another.
"""
_OVERLAPS: Final = 0.4
"""The share of chains whose next fault awaits its moment from the begin of the first one, not from its heal."""
_HEALS_AT_MOMENT: Final = 0.5
"""The share of first faults that heal when a member enters a state. These last no longer than a heartbeat time-out
before they wait for it.
"""
_SLOW: Final = 0.4
"""The share of chains in which the links of a member are slow meanwhile: what one member has appended, others then do
not have for long.
"""
_SLOW_NS: Final = (S, 4 * S)
_VOTING: Final = ("init", "canvass", "nominate", "candidate-ballot", "follower-ballot")
"""The states of a vote. A fault that heals in one of them brings another log or leader into that vote."""
_AFTER_MS: Final = (0, 0, 1, 1, 2, 10, 50, 200)
"""How long after the state is entered a fault begins."""
_PAUSE_NS: Final = (2 * S, 4 * S)
"""The time between two chains."""
_END_NS: Final = 8 * S
"""The part of the load at its end in which no fault lasts."""
_SNAPSHOTS_NS: Final = 10 * S
"""The least time between two snapshots: see `chains`."""
_SLOW_BEFORE_END_NS: Final = S
"""How long before the cluster is asked to end all its links are slow: it then ends with messages of services that are
not in its log yet.
"""
_SLOW_AT_END_NS: Final = 3 * S
_ENDS: Final = 0.4
"""The share of clusters without a drawn end that are shut down and start again."""
_ENDS_AT_NS: Final = (10 * S, 35 * S)
_SKEW_MS: Final = 5000
"""The largest skew of a clock where timers are set: a timer that a leader has fired is not yet due for the next one."""


def draw_moments(swarm: Swarm) -> Swarm:
    """The same cluster with faults at moments, if it has several members.

    More clusters are shut down, and all links of a cluster that is ended are slow then. One that sets timers has skewed
    clocks and snapshots. One whose bytes are damaged has small segments and no snapshots, so that starts read all of
    its log.
    """
    if swarm.members == 1:
        return swarm
    swarm = _with_ending(swarm)
    interval_ns = swarm.snapshot_interval_ns and max(swarm.snapshot_interval_ns, _SNAPSHOTS_NS)
    faults = tuple(sorted(_faults(swarm), key=lambda planned: planned.start_ns))
    drawn = replace(swarm, faults=faults, snapshot_interval_ns=interval_ns)
    if swarm.service == TIMERS_SERVICE:
        random = Random(f"swarm/{swarm.seed}/moments/skews")
        skews_ms = tuple(random.randint(-_SKEW_MS, _SKEW_MS) for _ in swarm.skews_ms)
        drawn = replace(drawn, skews_ms=skews_ms, snapshot_interval_ns=_SNAPSHOTS_NS)
    if swarm.variations.damages:
        return replace(drawn, segment_length=swarm.term_length, snapshot_interval_ns=0)
    return drawn


def _with_ending(swarm: Swarm) -> Swarm:
    random = Random(f"swarm/{swarm.seed}/moments/ending")
    if swarm.ending or random.random() >= _ENDS:
        return swarm
    return replace(swarm, ending="shutdown", ending_ns=random.randint(*_ENDS_AT_NS))


def _faults(swarm: Swarm) -> Iterator[PlannedFault]:
    random = Random(f"swarm/{swarm.seed}/moments")
    possible = kinds_for(swarm.members, swarm.sync_level)
    if swarm.ending:
        drawn = draw_fault(swarm, random, _SLOW_AT_END_NS)
        for member_id in range(swarm.members):
            yield plan_fault(SLOW, swarm.ending_ns - _SLOW_BEFORE_END_NS, replace(drawn, member=member_id))
    time_ns = 2 * S
    is_first = True
    while True:
        kind = "isolate-leader" if is_first else kind_by_weight(random, _FIRST, possible)
        until = _moment(swarm, random, _VOTING) if random.random() < _HEALS_AT_MOMENT else None
        longest_ns = swarm.heartbeat_timeout_ns + _AFTER_TIMEOUT_NS
        lasts_ns = random.randint(_LEAST_NS, longest_ns if until is None else swarm.heartbeat_timeout_ns)
        drawn = draw_fault(swarm, random, lasts_ns)
        first = plan_fault(kind, time_ns, drawn, until=until)
        chain = [first]
        if random.random() < _SLOW:
            slow_ns = time_ns + random.randrange(swarm.heartbeat_timeout_ns)
            chain.append(plan_fault(SLOW, slow_ns, draw_fault(swarm, random, random.randint(*_SLOW_NS))))
        start_ns = first.start_ns if random.random() < _OVERLAPS else first.end_ns
        for _ in range(random.randint(1, _FAULTS_MAX - 1)):
            moment = replace(_moment(swarm, random, _JOINING), is_victim=random.random() < _HITS_IT)
            kind = kind_by_weight(random, _NEXT, possible)
            drawn = draw_fault(swarm, random, random.randint(_LEAST_NS, longest_ns))
            chain.append(plan_fault(kind, start_ns, drawn, moment))
            start_ns += LONGEST_WAIT_NS
        end_ns = max(planned.end_ns for planned in chain)
        if swarm.ending and time_ns < swarm.ending_ns + RESTART_NS and end_ns > swarm.ending_ns - _SLOW_AT_END_NS:
            # No fault hits a cluster that is down, and one without a leader is not ended.
            time_ns = swarm.ending_ns + RESTART_NS
            continue
        if end_ns > swarm.seconds * S - _END_NS:
            return
        yield from chain
        is_first = False
        time_ns = end_ns + random.randint(*_PAUSE_NS)


def _moment(swarm: Swarm, random: Random, often: Collection[str]) -> Moment:
    member = random.randrange(swarm.members) if random.random() < 0.7 else None
    state = random.choices(STATES, [_OFTEN if state in often else 1 for state in STATES])[0]
    return Moment(state, member, random.choice(_AFTER_MS))
