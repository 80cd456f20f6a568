"""Optional properties of a campaign's cluster, drawn independently from the rest of its seed.

Without variations, a seed makes the same cluster as before variations existed. Values only; this module runs nothing.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from random import Random
from typing import Final

from upheaval.cluster.companion_control import KILL, START, STOP
from upheaval.records import BACKUP, SOURCES, STANDBY, AdminCommand, CompanionConfig, Json
from upheaval.scenario import AskFor, KeepCompanion, Step
from upheaval.workload import SILENT_SERVICES, WORKBENCH_SERVICE
from upheaval.workload.other_clients import OtherClient
from upheaval_node.settings import MemberSettings
from upheaval_node.types import MS, S

CHECKSUM: Final = "CRC-32"
LONE_FACTOR: Final = 4
SECOND_SERVICE: Final = SILENT_SERVICES[0]
SMALL_MTUS: Final = (96, 128)
"""MTUs with which every opened session, and most requests and answers, need several frames."""
TEXT_LENGTHS: Final = (1500, 3000, 6000)
"""Lengths that need two or more frames with Aeron's MTU. The longest message of the shortest term has 8 KiB."""
DISCONNECTS_MS: Final = (20, 50, 200, 500)
"""Heartbeat time-outs are a second or longer."""


class Variation(StrEnum):
    """The kinds of variations, by the names that a campaign shows."""

    SEVERAL_SERVICES = "several-services"
    SMALL_MTU = "small-mtu"
    LONG_TEXTS = "long-texts"
    CHECKSUMS = "checksums"
    BACKUP = BACKUP
    STANDBY = STANDBY
    RESTORE = "restore"
    CREDENTIALS = "credentials"
    LEADER_DISCONNECT = "leader-disconnect"
    OTHER_CLIENTS = "other-clients"


@dataclass(frozen=True, slots=True)
class Companion:
    """A companion and its steps, each with its time in nanoseconds after the start of the load."""

    config: CompanionConfig
    steps: tuple[tuple[int, Step], ...]
    is_restored: bool
    """Whether another cluster is restored from its files at the end."""

    @property
    def starts(self) -> int:
        """The number of its starts."""
        return sum(isinstance(step, KeepCompanion) and step.action == START for _, step in self.steps)

    def to_fields(self) -> dict[str, Json]:
        """The fields of a JSON line."""
        return {"name": self.config.name, "source": self.config.source, "starts": self.starts}


@dataclass(frozen=True, slots=True)
class Damage:
    """Wrong bytes in a member's log: when after the start of the load, for how long, and where in its log."""

    start_ns: int
    duration_ns: int
    member: int
    percent: int


@dataclass(frozen=True, slots=True)
class Variations:
    """The variations of one seed, by default none. Lengths are in bytes."""

    more_services: tuple[str, ...] = ()
    mtu: int = 0
    text_length: int = 0
    checksum: str = ""
    companion: Companion | None = None
    damages: tuple[Damage, ...] = ()
    has_credentials: bool = False
    """Whether the cluster accepts only clients with the right credentials, while a stranger tries wrong ones."""
    load_factor: int = 1
    """The factor on the rate of its load. A lone member serves no client while it is down."""
    leader_disconnect_ms: int = 0
    """How long a follower waits without its connection from the leader; 0: as long as without heartbeats."""
    other_clients: tuple[OtherClient, ...] = ()
    """The kinds of clients beside those of the load."""

    def drawn(self) -> Iterator[Variation]:
        """The kinds that were drawn."""
        if self.more_services:
            yield Variation.SEVERAL_SERVICES
        if self.mtu:
            yield Variation.SMALL_MTU
        if self.text_length:
            yield Variation.LONG_TEXTS
        if self.checksum:
            yield Variation.CHECKSUMS
        if self.companion is not None:
            yield Variation(self.companion.config.kind)
            if self.companion.is_restored:
                yield Variation.RESTORE
        if self.has_credentials:
            yield Variation.CREDENTIALS
        if self.leader_disconnect_ms:
            yield Variation.LEADER_DISCONNECT
        if self.other_clients:
            yield Variation.OTHER_CLIENTS

    def apply(self, settings: MemberSettings) -> MemberSettings:
        """The settings of a member with these variations, except the number of services."""
        media, archive, cluster = settings.media, settings.archive, settings.cluster
        if self.mtu:
            media, cluster = replace(media, mtu=self.mtu), replace(cluster, log_mtu=self.mtu)
        if self.checksum:
            archive = replace(archive, record_checksum=self.checksum, replay_checksum=self.checksum)
        if self.leader_disconnect_ms:
            timeouts = replace(cluster.timeouts, leader_disconnect_ns=self.leader_disconnect_ms * MS)
            cluster = replace(cluster, timeouts=timeouts)
        return replace(settings, media=media, archive=archive, cluster=cluster)

    def to_fields(self) -> dict[str, Json]:
        """The fields of a JSON line."""
        companion = None if self.companion is None else self.companion.to_fields()
        lists: dict[str, Json] = {
            "more_services": list(self.more_services),
            "other_clients": list(self.other_clients),
            "damages": [f"member {damage.member} at {damage.start_ns / S:.3f} s" for damage in self.damages],
        }
        return {**asdict(self), **lists, "companion": companion}


NO_VARIATIONS: Final = Variations()


def draw_variations(seed: int, members: int, sync_level: int, service: str, seconds: int) -> Variations:
    """Draw each kind from its own generator, so that a new kind does not change the others."""

    def draws(kind: Variation, share: float) -> Random | None:
        random = Random(f"swarm/{seed}/{kind}")
        return random if random.random() < share else None

    services = draws(Variation.SEVERAL_SERVICES, 0.3)
    mtu = draws(Variation.SMALL_MTU, 0.25)
    # Few other requests to the workbench are longer than a small frame.
    texts = draws(Variation.LONG_TEXTS, 0.4 if mtu is None else 0.8) if service == WORKBENCH_SERVICE else None
    checksums = draws(Variation.CHECKSUMS, 0.4)
    backup, standby = draws(Variation.BACKUP, 0.2), draws(Variation.STANDBY, 0.15)
    disconnect = draws(Variation.LEADER_DISCONNECT, 0.25)
    others = draws(Variation.OTHER_CLIENTS, 0.4)
    companion = None
    if backup is not None:
        companion = _draw_companion(backup, BACKUP, members, seconds)
    elif standby is not None:
        companion = _draw_companion(standby, STANDBY, members, seconds)
        whole = Random(f"swarm/{seed}/{Variation.STANDBY}/whole")
        if whole.random() < 0.6:
            companion = _with_one_life(whole, companion, seconds)
    return Variations(
        more_services=() if services is None else (SECOND_SERVICE,),
        mtu=0 if mtu is None else mtu.choice(SMALL_MTUS),
        text_length=0 if texts is None else texts.choice(TEXT_LENGTHS),
        checksum="" if checksums is None else CHECKSUM,
        companion=companion,
        damages=() if checksums is None or not sync_level else _draw_damages(checksums, members, seconds),
        has_credentials=draws(Variation.CREDENTIALS, 0.25) is not None,
        load_factor=LONE_FACTOR if members == 1 else 1,
        leader_disconnect_ms=0 if disconnect is None else disconnect.choice(DISCONNECTS_MS),
        other_clients=() if others is None else _draw_other_clients(others),
    )


def _draw_other_clients(random: Random) -> tuple[OtherClient, ...]:
    """Two of three times each kind, but at least one."""
    drawn = tuple(kind for kind in OtherClient if random.random() < 2 / 3)
    return drawn or (random.choice(list(OtherClient)),)


def _draw_companion(random: Random, kind: str, members: int, seconds: int) -> Companion:
    """A companion that starts early, is ended and restarted a few times, and runs at the end."""
    name = f"{kind}-0"
    source = random.choice(SOURCES if members > 1 else SOURCES[:2])
    time_ns = random.randint(S, 8 * S)
    steps: list[tuple[int, Step]] = [(time_ns, KeepCompanion(START, source, name))]
    while True:
        end_ns = time_ns + random.randint(4 * S, 14 * S)
        time_ns = end_ns + random.randint(S // 2, 4 * S)
        if time_ns > (seconds - 10) * S:
            break
        if kind == STANDBY and random.random() < 0.5:
            steps.append((end_ns - random.randint(0, 2 * S), AskFor(AdminCommand.STANDBY_SNAPSHOT)))
        steps.append((end_ns, KeepCompanion(random.choice((KILL, KILL, STOP)), name=name)))
        steps.append((time_ns, KeepCompanion(START, source, name)))
    return Companion(CompanionConfig(name, source), tuple(steps), is_restored=random.random() < 0.6)


def _with_one_life(random: Random, companion: Companion, seconds: int) -> Companion:
    """The companion without an end, and with one snapshot: so early that members must have heard of it at the end, but
    after the last snapshot of all members that is 20 s after another one.
    """
    begin_ns, start = companion.steps[0]
    asked_ns = max((seconds - 19) * S - random.randint(0, S), begin_ns + S)
    return replace(companion, steps=((begin_ns, start), (asked_ns, AskFor(AdminCommand.STANDBY_SNAPSHOT))))


def _draw_damages(random: Random, members: int, seconds: int) -> tuple[Damage, ...]:
    """Damages one after the other: the bytes of one disk are restored before those of the next are changed."""
    damages: list[Damage] = []
    time_ns = random.randint(5 * S, 15 * S)
    while time_ns < (seconds - 14) * S:
        duration_ns = random.randint(S // 2, 3 * S)
        damages.append(Damage(time_ns, duration_ns, random.randrange(members), random.randrange(101)))
        time_ns += duration_ns + random.randint(10 * S, 30 * S)
    return tuple(damages)
