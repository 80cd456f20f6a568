"""What the clusters of a campaign are made of: all of it drawn from the seed, so that one number says everything.

Values only; this module runs nothing.
"""

from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Final

from upheaval.records import Json
from upheaval.workload import LEDGER_SERVICE, TIMERS_SERVICE, WORKBENCH_SERVICE, WorkloadSettings
from upheaval_node.settings import KIB, ClusterTimeouts, MemberSettings, profile_settings
from upheaval_node.types import MS, S

SECONDS: Final = 62
"""Of load on every cluster, in virtual time."""

KINDS: Final = (
    "kill",
    "kill_leader",
    "power_cut",
    "power_cut_all",
    "pause",
    "isolate",
    "isolate_leader",
    "one_way",
    "clients_cut_off",
    "reset",
    "slow",
    "clock_jump",
    "channel_cut",
    "die_in_change",
    "power_lost_in_change",
    "disk_full",
    "disk_slow",
)
LONGEST_FULL_NS: Final = S
"""A member whose disk is full tries again and again: more of that shows nothing new and takes long."""
LOSING_POWER: Final = frozenset({"power_cut", "power_cut_all", "power_lost_in_change"})
OF_SEVERAL: Final = frozenset({"isolate", "isolate_leader", "one_way", "reset", "slow", "channel_cut"})
CHANNELS: Final = ("consensus", "log", "catchup", "archive")
"""What members say to each other, in the order of their ports."""


@dataclass(frozen=True, slots=True)
class SwarmFault:
    """One fault: when it begins after the start of the load, how long it lasts, and whom it concerns.

    `depth` is how many changes of files a member that dies in one still makes; `channel` is the one that is cut.
    """

    kind: str
    start_ns: int
    duration_ns: int
    member: int
    other: int
    depth: int
    channel: str


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
    term_length: int
    segment_length: int
    time_unit: str
    snapshot_interval_ns: int
    """0: no snapshots are asked for."""
    rate: int
    keys: int
    skews_ms: tuple[int, ...]
    """How far the wall clock of each member is off from the start."""
    faults: tuple[SwarmFault, ...]
    ending: str = ""
    """How the whole cluster is ended and started again in the middle: `shutdown`, `abort`, or not at all."""
    ending_ns: int = 0
    """When that order is given, after the start of the load."""

    def settings(self) -> MemberSettings:
        """Of every member."""
        profile = profile_settings("test", sync_level=self.sync_level)
        timeouts = replace(
            profile.cluster.timeouts,
            startup_canvass_ns=2 * self.heartbeat_timeout_ns,
            election_ns=self.election_timeout_ns,
            election_status_interval_ns=self.status_interval_ns,
            leader_heartbeat_ns=self.heartbeat_timeout_ns,
            leader_heartbeat_interval_ns=self.heartbeat_interval_ns,
        )
        assert isinstance(timeouts, ClusterTimeouts)
        return replace(
            profile,
            archive=replace(profile.archive, segment_length=self.segment_length),
            cluster=replace(
                profile.cluster, timeouts=timeouts, log_term_length=self.term_length, time_unit=self.time_unit
            ),
        )

    def workload(self) -> WorkloadSettings:
        """The load, from the same seed."""
        return WorkloadSettings(seed=self.seed, keys=self.keys, slots=8, rate=self.rate, service=self.service)

    def to_fields(self) -> dict[str, Json]:
        """As a line of JSON holds it."""
        fields = asdict(self)
        fields["faults"] = [f"{each.kind} of {each.member}" for each in self.faults]
        fields["skews_ms"] = list(self.skews_ms)
        return fields


def draw_swarm(seed: int) -> Swarm:
    """The cluster of a seed: the same for ever, as long as this function stays as it is."""
    random = Random(f"swarm/{seed}")
    # Of its own, so that all else of a seed is what it was before clusters were ended.
    ending = Random(f"swarm/{seed}/ending")
    members = random.choices((1, 3, 5), (1, 7, 2))[0]
    sync_level = random.randrange(3)
    term_length = random.choice((64, 64, 128, 256)) * KIB
    interval_ns = random.choice((50, 100, 200)) * MS
    return Swarm(
        seed=seed,
        members=members,
        sync_level=sync_level,
        service=random.choices((WORKBENCH_SERVICE, LEDGER_SERVICE, TIMERS_SERVICE), (5, 2, 2))[0],
        heartbeat_interval_ns=interval_ns,
        heartbeat_timeout_ns=random.choice((1000, 1500, 2500)) * MS,
        election_timeout_ns=random.choice((300, 500, 1000)) * MS,
        status_interval_ns=random.choice((50, 100)) * MS,
        term_length=term_length,
        segment_length=term_length * random.choice((1, 2, 4)),
        time_unit=random.choices(("MILLIS", "MICROS", "NANOS"), (4, 1, 1))[0],
        snapshot_interval_ns=random.choice((0, 5, 10, 20)) * S,
        rate=random.choice((15, 20, 25)),
        keys=random.randint(2, 8),
        skews_ms=tuple(random.choice((0, 0, random.randint(-5000, 5000))) for _ in range(members)),
        faults=_draw_faults(random, members, sync_level),
        ending=ending.choices(("", "shutdown", "abort"), (6, 2, 2))[0],
        ending_ns=ending.randint(10 * S, (SECONDS - 25) * S),
    )


def _draw_faults(random: Random, members: int, sync_level: int) -> tuple[SwarmFault, ...]:
    """One after the other, or some while others last. At sync level 0 nobody loses power: that may lose what was
    acknowledged, and is no promise. The first fault of a lone member is one after which it starts anew."""
    kinds = [kind for kind in KINDS if sync_level > 0 or kind not in LOSING_POWER]
    if members == 1:
        kinds = [kind for kind in kinds if kind not in OF_SEVERAL]
    is_overlapping = random.random() < 0.4
    weights = [random.choice((0, 1, 1, 3)) for _ in kinds]
    if not any(weights):
        weights = [1 for _ in kinds]
    found: list[SwarmFault] = []
    time_ns = 2 * S
    while True:
        kind = "kill_leader" if not found else random.choices(kinds, weights)[0]
        duration_ns = random.randint(100 * MS, LONGEST_FULL_NS if kind == "disk_full" else 4 * S)
        if time_ns + duration_ns > (SECONDS - 8) * S:
            return tuple(found)
        member = random.randrange(members)
        other = (member + random.randrange(1, members)) % members if members > 1 else member
        fault = SwarmFault(kind, time_ns, duration_ns, member, other, random.randrange(60), random.choice(CHANNELS))
        found.append(fault)
        time_ns += random.randint(2 * S, 7 * S) + (0 if is_overlapping else duration_ns)
