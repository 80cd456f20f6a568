"""The cluster of a campaign as a tape, and back: the alternatives of each choice, the simplest first.

The simplest settings are those of the `test` profile, as in a scenario's cluster. A plan with no other settings can
therefore be written as a scenario.
"""

from collections.abc import Iterator
from typing import Final

from upheaval.campaign.swarm import FAULT_NEEDS, FaultDraw, Moment, PlannedFault, Swarm, kinds_for, plan_fault
from upheaval.campaign.tape import Fields, Span, TapeReader
from upheaval.campaign.variations import (
    CHECKSUM,
    DISCONNECTS_MS,
    LONE_FACTOR,
    SECOND_SERVICE,
    SMALL_MTUS,
    TEXT_LENGTHS,
    Companion,
    Damage,
    Variation,
    Variations,
)
from upheaval.cluster.companion_control import KILL, START, STOP
from upheaval.records import BACKUP, SOURCES, STANDBY, AdminCommand, CompanionConfig, Json
from upheaval.runtimes.simulated.delivery import DEPTHS, DeliveryOrder
from upheaval.scenario import STATES, AskFor, KeepCompanion, Step
from upheaval.workload import LEDGER_SERVICE, TIMERS_SERVICE, WORKBENCH_SERVICE
from upheaval.workload.other_clients import OtherClient
from upheaval_chaos.target import CHANNELS
from upheaval_node.settings import KIB
from upheaval_node.types import MS, S

LONGEST_S: Final = 3600
"""The longest load, in seconds, that a tape may have."""
SHORTEST_S: Final = 4
GRAIN_NS: Final = 100 * MS
"""The smallest step by which moments and durations are simplified."""
WIDEST_MS: Final = 1000
"""The largest spread of deliveries that a tape may have."""
_END_NS: Final = LONGEST_S * S
_SKEW_MS: Final = 5000
_LATEST_MS: Final = 5000
_ANY: Final = -1
"""The member of a moment that any member may make."""
_SIMPLEST_KINDS: Final = (
    "pause",
    "kill-leader",
    "kill",
    "slow",
    "channel-cut",
    "one-way",
    "isolate-leader",
    "isolate",
    "clients-cut-off",
    "reset",
    "die-in-change",
    "power-cut",
    "power-cut-all",
    "power-lost-in-change",
    "clock-jump",
    "disk-slow",
    "disk-full",
)


def tape_of(swarm: Swarm) -> Span:
    """All choices that make that cluster, its load and its faults, without its seed and a user's code."""
    return read_swarm(_fields(swarm), swarm.seed)[1]


def _fields(swarm: Swarm) -> dict[str, Json]:
    return {
        "members": swarm.members,
        "sync-level": swarm.sync_level,
        "service": swarm.service,
        "heartbeat-interval-ms": swarm.heartbeat_interval_ns // MS,
        "heartbeat-timeout-ms": swarm.heartbeat_timeout_ns // MS,
        "election-timeout-ms": swarm.election_timeout_ns // MS,
        "status-interval-ms": swarm.status_interval_ns // MS,
        "session-timeout-s": swarm.session_timeout_ns // S,
        "term-kib": swarm.term_length // KIB,
        "terms-a-segment": swarm.segment_length // swarm.term_length,
        "time-unit": swarm.time_unit,
        "snapshot-interval-s": swarm.snapshot_interval_ns // S,
        "seconds": swarm.seconds,
        "rate": swarm.rate,
        "load-factor": swarm.variations.load_factor,
        "keys": swarm.keys,
        "silent": swarm.silent,
        **{f"skew-{member_id}-ms": skew_ms for member_id, skew_ms in enumerate(swarm.skews_ms)},
        "fault": [_fault_fields(planned) for planned in swarm.faults],
        "delivery": []
        if swarm.delivery is None
        else [{"depth": swarm.delivery.depth, "spread-ms": swarm.delivery.spread_ns // MS}],
        "ending": [{"how": swarm.ending, "at-ns": swarm.ending_ns}] if swarm.ending else [],
        **_variation_fields(swarm.variations),
    }


def _fault_fields(planned: PlannedFault) -> dict[str, Json]:
    drawn = planned.drawn
    assert drawn is not None
    needs = {need: getattr(drawn, need) for need in FAULT_NEEDS[planned.kind]}
    moments = {
        name: [_moment_fields(moment)]
        for name, moment in (("moment", planned.moment), ("until", planned.until))
        if moment is not None
    }
    fields: dict[str, Json] = {"kind": planned.kind, "start-ns": planned.start_ns, "duration-ns": planned.duration_ns}
    return {**fields, **needs, **moments}


def _moment_fields(moment: Moment) -> dict[str, Json]:
    member = _ANY if moment.member is None else moment.member
    return {
        "state": moment.state,
        "member": member,
        "after-ms": moment.after_ms,
        "victim": int(moment.is_victim),
    }


def _variation_fields(drawn: Variations) -> dict[str, Json]:
    spans: dict[str, Json] = {}
    if drawn.more_services:
        spans[Variation.SEVERAL_SERVICES] = [{}]
    if drawn.mtu:
        spans[Variation.SMALL_MTU] = [{"mtu": drawn.mtu}]
    if drawn.text_length:
        spans[Variation.LONG_TEXTS] = [{"length": drawn.text_length}]
    if drawn.checksum:
        damages: list[Json] = [
            {
                "start-ns": damage.start_ns,
                "duration-ns": damage.duration_ns,
                "member": damage.member,
                "percent": damage.percent,
            }
            for damage in drawn.damages
        ]
        spans[Variation.CHECKSUMS] = [{"damage": damages}]
    if drawn.has_credentials:
        spans[Variation.CREDENTIALS] = [{}]
    if drawn.leader_disconnect_ms:
        spans[Variation.LEADER_DISCONNECT] = [{"ms": drawn.leader_disconnect_ms}]
    if drawn.other_clients:
        spans[Variation.OTHER_CLIENTS] = [{kind: int(kind in drawn.other_clients) for kind in OtherClient}]
    if drawn.companion is not None:
        config = drawn.companion.config
        spans["companion"] = [
            {
                "kind": config.kind,
                "source": config.source,
                "restored": int(drawn.companion.is_restored),
                "life": list(_lives(drawn.companion)),
            }
        ]
    return spans


def _lives(companion: Companion) -> Iterator[Json]:
    """The periods from a start to an end, with the snapshots that fall into each."""
    life: dict[str, Json] = {}
    snapshots: list[Json] = []
    for time_ns, step in companion.steps:
        if isinstance(step, AskFor):
            snapshots.append({"at-ns": time_ns})
        elif isinstance(step, KeepCompanion) and step.action == START:
            life = {"start-ns": time_ns}
        elif isinstance(step, KeepCompanion):
            yield {**life, "snapshot": snapshots, "end": [{"at-ns": time_ns, "by": step.action}]}
            snapshots = []
    yield {**life, "snapshot": snapshots}


def read_swarm(tape: Fields, seed: int) -> tuple[Swarm, Span]:
    """The cluster that a tape makes with the timing of that seed, and the choices that were read."""
    reader = TapeReader(tape)
    members = reader.one_of("members", (3, 1, 5))
    sync_level = reader.one_of("sync-level", (1, 0, 2))
    service = reader.one_of("service", (WORKBENCH_SERVICE, LEDGER_SERVICE, TIMERS_SERVICE))
    seconds = reader.number("seconds", SHORTEST_S, LONGEST_S)
    term_length = reader.one_of("term-kib", (64, 128, 256)) * KIB
    ending = _read_ending(reader, seconds)
    swarm = Swarm(
        seed=seed,
        members=members,
        sync_level=sync_level,
        service=service,
        heartbeat_interval_ns=reader.one_of("heartbeat-interval-ms", (50, 100, 200)) * MS,
        heartbeat_timeout_ns=reader.one_of("heartbeat-timeout-ms", (1000, 1500, 2500)) * MS,
        election_timeout_ns=reader.one_of("election-timeout-ms", (500, 300, 1000)) * MS,
        status_interval_ns=reader.one_of("status-interval-ms", (50, 100)) * MS,
        session_timeout_ns=reader.one_of("session-timeout-s", (10, 4, 5)) * S,
        term_length=term_length,
        segment_length=term_length * reader.one_of("terms-a-segment", (16, 4, 2, 1)),
        time_unit=reader.one_of("time-unit", ("MILLIS", "MICROS", "NANOS")),
        snapshot_interval_ns=reader.one_of("snapshot-interval-s", (0, 20, 10, 5)) * S,
        rate=reader.number("rate", 1, 1000),
        keys=reader.number("keys", 1, 64),
        skews_ms=tuple(reader.number(f"skew-{number}-ms", -_SKEW_MS, _SKEW_MS, 0) for number in range(members)),
        faults=tuple(_read_faults(reader, members, sync_level, seconds)),
        ending=ending[0],
        ending_ns=ending[1],
        seconds=seconds,
        silent=reader.number("silent", 0, 64),
        variations=_read_variations(reader, members, sync_level, service, seconds),
        delivery=_read_delivery(reader) if members > 1 else None,
    )
    return swarm, reader.read


def _read_delivery(reader: TapeReader) -> DeliveryOrder | None:
    span = reader.optional("delivery")
    if span is None:
        return None
    return DeliveryOrder(span.one_of("depth", DEPTHS), span.number("spread-ms", 1, WIDEST_MS) * MS)


def _read_ending(reader: TapeReader, seconds: int) -> tuple[str, int]:
    for span in _begun(reader, "ending", "at-ns", seconds):
        return span.one_of("how", ("shutdown", "abort")), span.number("at-ns", 0, _END_NS, grain=GRAIN_NS)
    return "", 0


def _begun(reader: TapeReader, name: str, label: str, seconds: int) -> Iterator[TapeReader]:
    """The spans of that name whose time `label` is within the load. Others are removed from the tape."""
    for span in reader.spans(name):
        begin = TapeReader(span.fields).number(label, 0, _END_NS, grain=GRAIN_NS)
        if begin < (seconds - 2) * S:
            yield span
        else:
            reader.read.spans.remove(span.read)


def _read_faults(reader: TapeReader, members: int, sync_level: int, seconds: int) -> Iterator[PlannedFault]:
    allowed = kinds_for(members, sync_level)
    kinds = tuple(kind for kind in _SIMPLEST_KINDS if kind in allowed)
    for span in _begun(reader, "fault", "start-ns", seconds):
        kind = span.one_of("kind", kinds)
        start_ns, duration_ns = (
            span.number("start-ns", 0, _END_NS, grain=GRAIN_NS),
            span.number("duration-ns", 100 * MS, _END_NS, grain=GRAIN_NS),
        )
        needs = FAULT_NEEDS[kind]
        member = span.number("member", 0, members - 1) if "member" in needs else 0
        others = tuple(number for number in range(members) if number != member)
        drawn = FaultDraw(
            members,
            duration_ns,
            member,
            span.one_of("other", others) if "other" in needs else member,
            span.number("depth", 0, 1000) if "depth" in needs else 0,
            span.one_of("channel", CHANNELS) if "channel" in needs else CHANNELS[0],
        )
        moments = (_read_moment(span, name, members) for name in ("moment", "until"))
        yield plan_fault(kind, start_ns, drawn, *moments)


def _read_moment(reader: TapeReader, name: str, members: int) -> Moment | None:
    span = reader.optional(name)
    if span is None:
        return None
    state, member = span.one_of("state", STATES), span.number("member", _ANY, members - 1)
    after_ms, is_victim = span.number("after-ms", 0, _LATEST_MS), span.one_of("victim", (0, 1)) == 1
    return Moment(state, None if member == _ANY else member, after_ms, is_victim)


def _read_variations(reader: TapeReader, members: int, sync_level: int, service: str, seconds: int) -> Variations:
    services, mtu = reader.optional(Variation.SEVERAL_SERVICES), reader.optional(Variation.SMALL_MTU)
    texts = reader.optional(Variation.LONG_TEXTS) if service == WORKBENCH_SERVICE else None
    checksums, companion = reader.optional(Variation.CHECKSUMS), reader.optional("companion")
    credentials, disconnect = reader.optional(Variation.CREDENTIALS), reader.optional(Variation.LEADER_DISCONNECT)
    others = reader.optional(Variation.OTHER_CLIENTS)
    damages = () if checksums is None or not sync_level else tuple(_read_damages(checksums, members, seconds))
    return Variations(
        more_services=() if services is None else (SECOND_SERVICE,),
        mtu=0 if mtu is None else mtu.one_of("mtu", SMALL_MTUS[::-1]),
        text_length=0 if texts is None else texts.one_of("length", TEXT_LENGTHS),
        checksum="" if checksums is None else CHECKSUM,
        companion=None if companion is None else _read_companion(companion, members, seconds),
        damages=damages,
        has_credentials=credentials is not None,
        load_factor=reader.one_of("load-factor", (1, LONE_FACTOR)),
        leader_disconnect_ms=0 if disconnect is None else disconnect.one_of("ms", DISCONNECTS_MS),
        other_clients=()
        if others is None
        else tuple(kind for kind in OtherClient if others.one_of(kind.value, (0, 1)) == 1),
    )


def _read_damages(reader: TapeReader, members: int, seconds: int) -> Iterator[Damage]:
    for span in _begun(reader, "damage", "start-ns", seconds):
        yield Damage(
            span.number("start-ns", 0, _END_NS, grain=GRAIN_NS),
            span.number("duration-ns", 100 * MS, _END_NS, grain=GRAIN_NS),
            span.number("member", 0, members - 1),
            span.number("percent", 0, 100),
        )


def _read_companion(reader: TapeReader, members: int, seconds: int) -> Companion:
    """Read a companion. It runs at the end of the load, so its last life has no end."""
    kind = reader.one_of("kind", (BACKUP, STANDBY))
    source = reader.one_of("source", SOURCES if members > 1 else SOURCES[:2])
    name = f"{kind}-0"
    steps: list[tuple[int, Step]] = []
    lives = list(_begun(reader, "life", "start-ns", seconds)) or [TapeReader({})]
    for life in lives:
        steps.append((life.number("start-ns", 0, _END_NS, grain=GRAIN_NS), KeepCompanion(START, source, name)))
        end = life.optional("end") if life is not lives[-1] else None
        if kind == STANDBY:
            steps += [
                (snapshot.number("at-ns", 0, _END_NS, grain=GRAIN_NS), AskFor(AdminCommand.STANDBY_SNAPSHOT))
                for snapshot in life.spans("snapshot")
            ]
        if end is None:
            continue
        steps.append(
            (end.number("at-ns", 0, _END_NS, grain=GRAIN_NS), KeepCompanion(end.one_of("by", (KILL, STOP)), name=name))
        )
    is_restored = reader.one_of("restored", (0, 1)) == 1
    return Companion(CompanionConfig(name, source), tuple(steps), is_restored)
