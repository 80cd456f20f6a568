"""Schedules of campaigns on processes or in containers: a scenario's text, drawn from the seed.

The text alone is enough to run the schedule again, change it or share it. Values only; this module runs nothing.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

from upheaval.scenario import Scenario, parse_scenario
from upheaval.workload import LEDGER_SERVICE, TIMERS_SERVICE, WORKBENCH_SERVICE
from upheaval_chaos.target import CHANNELS

ROUNDS_MAX: Final = 4
SHORTEST_MS, LONGEST_MS = 200, 5000
"""The range of a fault's duration in ms, without the time for its evidence."""
SILENT_CLIENTS: Final = 4
CALM_S: Final = 14
"""The quiet time at the end: longer than the session time-out of every profile, so that abandoned sessions are
closed.
"""

_MEMBER_FAULTS: Final = ("kill", "kill", "stop", "pause", "restart")
_LED: Final = ("leader", "leader", "follower", "followers")
"""Victims that exist only in a cluster with a leader."""
_VICTIMS: Final = (*_LED, "running", "member-0")
_STREAM_FAULTS: Final = ("isolate", "one-way", "channel", "clients", "slow", "reset")
_DATAGRAM_FAULTS: Final = ("isolate", "one-way", "channel", "clients", "slow", "lose", "duplicate", "disorder")


def draw_schedule(seed: int, system: str, *, has_streams: bool) -> Scenario:
    """The scenario of a seed, for members that use streams or datagrams. It is always the same, as long as this module
    does not change.
    """
    name = f"campaign-{seed}"
    text = "\n".join(_lines(seed, Random(f"schedule/{seed}"), has_streams=has_streams)) + "\n"
    return parse_scenario(text, name=name, where=name).on_system(system)


def _lines(seed: int, random: Random, *, has_streams: bool) -> Iterator[str]:
    members = random.choices((3, 5), (9, 1))[0]
    service = random.choices((WORKBENCH_SERVICE, LEDGER_SERVICE, TIMERS_SERVICE), (5, 2, 2))[0]
    yield f"title Seed {seed} of a campaign"
    yield f"cluster members={members} sync-level={random.randrange(3)} service={service}"
    rate, slots = random.choice((100, 200, 400)), random.choice((4, 8, 16))
    yield f"workload rate={rate} slots={slots} keys={random.randint(2, 8)} silent={SILENT_CLIENTS}"
    yield "wait operations 50"
    rounds = random.randint(2, ROUNDS_MAX)
    ending_after = random.randrange(rounds) if random.random() < 0.3 else -1
    for number in range(rounds):
        yield from _round(number, random, members, has_streams=has_streams)
        yield "wait leader"
        yield f"wait operations {random.randint(20, 200)}"
        has_snapshot, is_ended = random.random() < 0.4, number == ending_after
        if has_snapshot or is_ended:
            # A member that does not follow receives neither command.
            yield "start"
        if has_snapshot:
            yield "snapshot"
        if is_ended:
            yield random.choice(("shutdown", "abort"))
            yield "start"
    yield "wait operations 50"
    yield f"wait seconds {CALM_S}"


def kind_of(name: str) -> str:
    """The kind of a fault with that name in a drawn scenario."""
    return name.rpartition("-")[0]


def _round(number: int, random: Random, members: int, *, has_streams: bool) -> Iterator[str]:
    """One fault of links or of members, or a fault of members during a fault of links: a dead member answers
    no probe.
    """
    has_link_fault, has_member_fault = random.choices(((True, False), (False, True), (True, True)), (4, 4, 3))[0]
    link = random.choice(_STREAM_FAULTS if has_streams else _DATAGRAM_FAULTS)
    if has_link_fault:
        yield f"inject {link}-{number} {_link_fault(link, random, members)}"
        yield _lasting(random)
    if has_member_fault:
        kind, victim = random.choice(_MEMBER_FAULTS), random.choice(_VICTIMS)
        if victim in _LED:
            yield "wait leader"
        yield f"inject {kind}-{number} {kind} {victim}"
        yield _lasting(random)
        yield f"heal {kind}-{number}"
    if has_link_fault:
        if has_member_fault:
            yield _lasting(random)
        yield f"heal {link}-{number}"


def _lasting(random: Random) -> str:
    return f"wait moment after-ms={random.randint(SHORTEST_MS, LONGEST_MS)}"


def _link_fault(kind: str, random: Random, members: int) -> str:
    one, other = random.sample(range(members), 2)
    alone = random.choice(("leader <-> followers", f"member-{one} <-> {_all_but(one, members)}"))
    match kind:
        case "isolate":
            return f"blackhole {alone}"
        case "one-way":
            return f"blackhole member-{one} -> member-{other}"
        case "channel":
            return f"blackhole member-{one} -> member-{other} channel={random.choice(CHANNELS)}"
        case "clients":
            return "blackhole leader <-> clients"
        case "slow":
            return f"slow {alone} latency-ms={random.randint(5, 200)}"
        case "reset":
            return f"reset {alone}"
        case "disorder":
            # A smaller value has no effect on datagrams that a busy machine sends further apart.
            return f"disorder {alone} jitter-ms={random.randint(5, 50)}"
        case _:
            return f"{kind} {alone} percent={random.randint(2, 60)}"


def _all_but(one: int, members: int) -> str:
    return ",".join(f"member-{member_id}" for member_id in range(members) if member_id != one)
