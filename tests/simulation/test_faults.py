"""Drawn faults: what a schedule holds, and what a false injector makes of it."""

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from support.fault_cases import BEGUN, BEGUN_ROUNDS, CASES, WORKLOAD, all_kinds, fault_of
from support.saboteur import Sabotage, Saboteur
from upheaval.campaign.seed import SeedRun
from upheaval.campaign.seed_lines import Fate
from upheaval.campaign.swarm import KINDS, LOSING_POWER, draw_swarm
from upheaval.checkers.evidence.faults import faults_proved
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.runtimes.simulated import links as virtual
from upheaval.runtimes.simulated.cluster import host_of
from upheaval.runtimes.simulated.disk import SYNC_LATENCY_MIN_NS, Disk, Owner
from upheaval.runtimes.simulated.network import Fabric, StreamEnd
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.sockets import EndReason
from upheaval.scenario import Begin, parse_scenario
from upheaval_chaos import faults, host_faults, link_faults
from upheaval_chaos.datagram_faults import DatagramFaultKind
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.errors import EnvironmentFault, UnknownOutcome
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.host_faults import NOT_SIMULATED, HostFaultKind
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import LinkFaultKind
from upheaval_node.types import Now

SWARMS = [draw_swarm(seed) for seed in range(200)]


def test_one_seed_gives_one_schedule() -> None:
    assert draw_swarm(1).scenario() == draw_swarm(1).scenario()
    assert draw_swarm(1).scenario() != draw_swarm(2).scenario()


def test_some_schedules_let_faults_overlap_and_others_do_not() -> None:
    overlapping = [
        any(a.start_ns + a.duration_ns > b.start_ns for a, b in itertools.pairwise(swarm.faults)) for swarm in SWARMS
    ]
    assert 0.1 < sum(overlapping) / len(overlapping) < 0.6


def test_every_kind_is_drawn_and_power_is_only_cut_where_it_is_promised_to_be_survived() -> None:
    drawn = {
        is_synced: {fault.kind for swarm in SWARMS if (swarm.sync_level > 0) is is_synced for fault in swarm.faults}
        for is_synced in (True, False)
    }
    assert drawn[True] == set(KINDS)
    assert drawn[True] - drawn[False] == LOSING_POWER


def test_what_is_drawn_covers_what_the_catalogue_holds() -> None:
    """Apart from what ends in an orderly way, what ends connections that are silent for long, limits, and what is not
    simulated.
    """
    drawn = {step.fault.kind for s in SWARMS for step in s.scenario().steps if isinstance(step, Begin)}  # type: ignore[attr-defined]
    others = {MemberFaultKind.STOP, MemberFaultKind.RESTART, LinkFaultKind.TIMEOUT, HostFaultKind.CPU_LIMIT}
    assert drawn == {*MemberFaultKind, *HostFaultKind, *LinkFaultKind} - others - set(NOT_SIMULATED)


# --- injectors that lie ---


def _nothing(*_: object, **__: object) -> None: ...


def idle_hands(stage: SimulatedStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """No member is killed, loses power, is stopped or cut off, by any order."""
    cluster = stage.cluster
    monkeypatch.setattr(stage.hosts("cut the power"), "cut_power", _nothing)
    for member in cluster.members:
        monkeypatch.setattr(member, "kill", _nothing)
        monkeypatch.setattr(member, "pause", _nothing)
    monkeypatch.setattr(cluster.fabric, "cut", _nothing)


OF_THOSE_HANDS = ("kill", "power-cut", "pause", "blackhole")


@pytest.mark.pure
@pytest.mark.parametrize("seed", [pytest.param(2, marks=pytest.mark.nightly), 4711])
def test_a_campaign_counts_no_fault_that_was_not_done(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SeedRun(draw_swarm(seed, 40), tmp_path / "run")
    idle_hands(run.stage, monkeypatch)
    outcome = run.run()
    finding = verify_run(tmp_path / "run").finding(Promise.FAULTS_PROVED)
    assert finding.verdict is Verdict.UNKNOWN, finding
    assert outcome.verdict != "valid"
    assert [fault for fault in run.cluster.faults if fault.what in OF_THOSE_HANDS and fault.is_proved] == []
    idle = [outcome.faults[kind] for kind in outcome.faults if kind in OF_THOSE_HANDS or "kill" in kind]
    assert idle
    assert all(counts[Fate.PROVED] == 0 < counts[Fate.PLANNED] for counts in idle)


def one_begun(
    stage: SimulatedStage, statement: str, then: str, break_hand: Callable[[pytest.MonkeyPatch], None]
) -> list[FaultRecord]:
    """A fault that is begun under an injector that is broken, and then another one under one that is not."""
    records: list[FaultRecord] = []
    driver = FaultDriver(stage, records.append)
    with pytest.MonkeyPatch.context() as patch:
        break_hand(patch)
        driver.begin("first", fault_of(statement))
        stage.let_pass(1)
    if then:
        driver.begin("second", fault_of(then))
        stage.let_pass(1)
        driver.end("second")
    driver.end("first")
    driver.heal_all()
    return records


def test_what_was_contradicted_is_not_proved_by_another_fault(tmp_path: Path) -> None:
    """The first look at the idle kill saw the process run; that it is gone later is the doing of the power cut."""
    stage = opened(tmp_path)

    def break_kill(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(stage.cluster.members[1], "kill", _nothing)

    records = {record.name: record for record in one_begun(stage, "kill member-1", "power-cut member-1", break_kill)}
    assert not records["first"].is_proved, records["first"]
    assert records["second"].is_proved, records["second"]


@pytest.mark.pure
@pytest.mark.parametrize("statement", ["power-cut member-1", "power-lost-in-change member-1 changes=3"])
def test_a_power_cut_after_which_the_disk_kept_everything_is_not_proved(statement: str, tmp_path: Path) -> None:
    stage = opened(tmp_path)

    def keep_all(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(stage.cluster.members[1].disk, "power_cut", _nothing)

    (record,) = one_begun(stage, statement, "", keep_all)
    assert record.inject_proof is not None
    assert not record.inject_proof.holds


def test_a_clock_jumps_again_only_when_it_was_seen_to_be_right(tmp_path: Path) -> None:
    """The last time that the member wrote down may be one of the first jump."""
    stage = opened(tmp_path)
    records: list[FaultRecord] = []
    driver = FaultDriver(stage, records.append)
    driver.begin("first", fault_of("clock-jump member-1 jump-ms=1670"))
    stage.let_pass(2)
    driver.end("first")
    with pytest.raises(UnknownOutcome, match="member-1 was under fault 'first', whose end is not seen"):
        driver.begin("second", fault_of("clock-jump member-1 jump-ms=-2990"))
    stage.let_pass(2)
    driver.begin("second", fault_of("clock-jump member-1 jump-ms=-2990"))
    stage.let_pass(2)
    driver.heal_all()
    assert [record.is_proved for record in records] == [True, True], records


def test_what_was_begun_and_shows_nowhere_is_on_record(tmp_path: Path) -> None:
    """It is neither proved nor doubted, but a time of that moment in the log is explained by it."""
    stage = opened(tmp_path)
    records: list[FaultRecord] = []
    driver = FaultDriver(stage, records.append)
    driver.begin("first", fault_of("clock-jump member-1 jump-ms=1670"))
    driver.end("first")
    driver.heal_all()
    (record,) = records
    assert record.was_unseen
    assert not record.is_proved
    assert record.members == (1,)
    stage.close()
    assert faults_proved(records, stage.cluster.run.read_manifest()).verdict is Verdict.VALID


def test_a_fault_whose_healing_cannot_be_looked_at_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = opened(tmp_path)
    records: list[FaultRecord] = []
    driver = FaultDriver(stage, records.append)
    fault = fault_of("pause member-1")
    driver.begin("x", fault)
    stage.let_pass(1)

    def fail(_: object) -> Proof:
        raise UnknownOutcome("the members ended")

    injection = type(fault.aim(stage, tries=False))
    monkeypatch.setattr(injection, "seen_healed", lambda _: None)
    monkeypatch.setattr(injection, "prove_healed", fail)
    with pytest.raises(UnknownOutcome):
        driver.heal_all()
    driver.give_up()
    (record,) = records
    assert record.inject_proof is not None
    assert record.inject_proof.holds
    assert not record.is_proved


def test_what_shares_the_hand_of_a_fault_is_left_out_while_it_lasts(tmp_path: Path) -> None:
    """The disk of a member waits for one change: a second fault would take the place of the first, and heal it."""
    stage = opened(tmp_path)
    records: list[FaultRecord] = []
    driver = FaultDriver(stage, records.append)
    driver.begin("first", fault_of("die-in-change member-1 changes=20"))
    with pytest.raises(UnknownOutcome, match="member-1 is under fault 'first'"):
        driver.begin("second", fault_of("power-lost-in-change member-1"))
    driver.begin("third", fault_of("power-lost-in-change member-2"))
    stage.let_pass(2)
    for name in ("first", "second", "third"):
        driver.end(name)
    driver.heal_all()
    assert {record.name: record.is_proved for record in records} == {"first": True, "third": True}


@pytest.mark.parametrize("statement", ["blackhole member-0 <-> member-1,member-2", "kill member-0,member-1"])
def test_what_fails_while_it_is_done_is_written_down_and_healed(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = opened(tmp_path)
    impose, link = stage.impose, stage.cluster.fabric.link(host_of(0), host_of(1))

    def fail(*done: object) -> None:
        if done != (None,):
            impose(*done)  # type: ignore[arg-type]
        raise EnvironmentFault("the engine does not answer")

    monkeypatch.setattr(stage, "impose", fail)
    monkeypatch.setattr(stage.cluster.members[1], "kill", fail)
    records: list[FaultRecord] = []
    driver = FaultDriver(stage, records.append)
    with pytest.raises(EnvironmentFault):
        driver.inject("x", fault_of(statement))
    assert link.is_cut or not stage.cluster.members[0].alive
    driver.heal_all()
    assert not link.is_cut
    assert all(member.alive for member in stage.cluster.members)
    (record,) = records
    assert not record.is_proved
    assert record.heal_end_ns is not None


@pytest.mark.parametrize("kind", [kind for kind in (*MemberFaultKind, *HostFaultKind) if kind not in NOT_SIMULATED])
def test_what_cannot_be_done_now_is_told_before_anything_is_touched(kind: str, tmp_path: Path) -> None:
    stage = SimulatedStage(LOADED, 1, tmp_path)
    stage.open(print)
    stage.hosts("").cut_power(1)
    statement = next(each for each in BEGUN_OR_ORDERLY if each.startswith(f"{kind} "))
    words = statement.replace("leader", "member-1").replace("follower", "member-1")
    with pytest.raises(UnknownOutcome, match=r"member 1: (it is not running|its host is off)"):
        fault_of(words).aim(stage, tries=False)


# --- whose doing it is ---


def opened(folder: Path, *, syncs: bool = True) -> SimulatedStage:
    """Under load for a while."""
    stage = SimulatedStage(LOADED if syncs else UNSYNCED, 1, folder)
    stage.open(print)
    stage.let_pass(2)
    if not syncs:
        disks = [member.disk for member in stage.cluster.members]
        stage.cluster.wait_until(lambda: not any(disk._is_durable for disk in disks), 5, "writes that no disk has")
    return stage


def begun(stage: SimulatedStage, *statements: tuple[str, Sabotage]) -> tuple[FaultDriver, list[FaultRecord]]:
    """Faults that begin at the same time, each under an injector of its own; their names are 0, 1, ..."""
    records: list[FaultRecord] = []
    driver = FaultDriver(stage, records.append)
    for number, (statement, sabotage) in enumerate(statements):
        driver._target = Saboteur(stage, sabotage)
        driver.begin(str(number), fault_of(statement))
    return driver, records


def of_name(records: list[FaultRecord], name: str) -> list[bool]:
    """Whether the fault of that name was proved, if it was written down."""
    return [bool(record.inject_proof and record.inject_proof.holds) for record in records if record.name == name]


def followers(stage: SimulatedStage) -> list[int]:
    return [member_id for member_id in stage.member_ids if member_id != stage.leader()]


def test_what_comes_out_of_a_link_contradicts_its_cut_though_it_was_not_in_use(tmp_path: Path) -> None:
    stage = opened(tmp_path)
    (one, _), leader = followers(stage), stage.leader()
    stage.cluster.members[one].kill()
    stage.let_pass(1.5)
    driver, records = begun(stage, (f"blackhole member-{leader} -> member-{one}", Sabotage.IDLE))
    stage.cluster.members[one].start()
    stage.let_pass(1)
    driver.end("0")
    driver.heal_all()
    assert of_name(records, "0") == [False], records


def test_what_came_out_of_a_link_contradicts_its_cut_though_its_receiver_is_dead_now(tmp_path: Path) -> None:
    stage = opened(tmp_path)
    (one, _), leader = followers(stage), stage.leader()
    driver, records = begun(stage, (f"blackhole member-{leader} -> member-{one}", Sabotage.IDLE))
    stage.let_pass(1)
    stage.cluster.members[one].kill()
    driver.end("0")
    stage.cluster.start_all()
    driver.heal_all()
    assert of_name(records, "0") == [False], records


def test_a_link_that_was_silent_because_its_receiver_had_no_power_proves_no_cut(tmp_path: Path) -> None:
    stage = opened(tmp_path)
    (one, _), leader = followers(stage), stage.leader()
    hosts = stage.hosts("cut the power of a host")
    driver, records = begun(stage, (f"blackhole member-{leader} -> member-{one}", Sabotage.IDLE))
    hosts.cut_power(one)
    stage.let_pass(2)
    stage.cluster.members[one].start()
    driver.end("0")
    driver.heal_all()
    assert True not in of_name(records, "0"), records


@pytest.mark.parametrize("idle", ["0", "1"])
@pytest.mark.parametrize(
    "pair",
    [
        ("blackhole member-0 <-> member-1,member-2", "blackhole member-0 <-> member-1,member-2"),
        ("blackhole member-0 <-> member-1,member-2", "blackhole member-0 -> member-1 channel=consensus"),
        ("blackhole member-1 -> member-0 channel=consensus", "blackhole member-0 <-> member-1,member-2"),
        ("slow member-0 <-> member-1,member-2 latency-ms=80", "slow member-0 <-> member-1,member-2 latency-ms=80"),
    ],
)
def test_one_fault_of_a_link_is_no_proof_of_another(pair: tuple[str, str], idle: str, tmp_path: Path) -> None:
    stage = opened(tmp_path)
    how = {idle: Sabotage.IDLE}
    driver, records = begun(
        stage, *((statement, how.get(str(number), Sabotage.NONE)) for number, statement in enumerate(pair))
    )
    stage.let_pass(2)
    driver.end("0")
    driver.end("1")
    driver.heal_all()
    assert True not in of_name(records, idle), records


def test_a_latency_that_was_there_before_proves_no_other_one(tmp_path: Path) -> None:
    stage = opened(tmp_path)
    records: list[FaultRecord] = []
    assert FaultDriver(stage, records.append).inject("x", fault_of("slow leader -> follower latency-ms=80")).holds
    idle = FaultDriver(Saboteur(stage, Sabotage.IDLE), records.append)
    assert not idle.inject("y", fault_of("slow leader -> follower latency-ms=30")).holds


def test_what_one_stream_forgets_hides_nothing_that_another_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a proxy has counted of a connection may get lost with it."""
    stage = opened(tmp_path)
    counts = itertools.count(1)
    injection = fault_of("blackhole leader <-> follower").aim(stage)
    injection.act()
    lost = itertools.chain([10_000, 10_000], itertools.repeat(0))
    monkeypatch.setattr(stage, "delivered_by_stream", lambda _: {"old": next(lost), "new": next(counts)})
    assert not injection.prove().holds


BEGUN_OR_ORDERLY = (*BEGUN, "stop leader", "restart leader")
LOADED = parse_scenario(f"title begun\n{WORKLOAD}wait operations 1\n", name="begun", where="begun")
UNSYNCED = parse_scenario(
    f"title begun\ncluster members=3 sync-level=0\n{WORKLOAD}wait operations 1\n", name="begun", where="begun"
)


@pytest.mark.parametrize(("statement", "sabotage"), BEGUN_ROUNDS)
def test_what_is_begun_is_proved_by_what_shows(
    statement: str, sabotage: Sabotage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sabotage is not Sabotage.NONE:
        for module in (faults, host_faults, link_faults):
            monkeypatch.setattr(module, "TAKES_EFFECT_S", 1.0)
            monkeypatch.setattr(module, "COMES_BACK_S", 1.0)
    stage = opened(tmp_path)
    records: list[FaultRecord] = []
    saboteur = Saboteur(stage, sabotage)
    driver = FaultDriver(saboteur, records.append)
    driver.begin("x", fault_of(statement))
    stage.let_pass(2)
    driver.end("x")
    driver.heal_all()
    (record,) = records
    assert record.is_proved == (sabotage is Sabotage.NONE), record
    if record.what == HostFaultKind.CPU_LIMIT and sabotage is Sabotage.IDLE:
        # A member that needs less than its share shows nothing, limited or not.
        assert record.was_unseen, record
        return
    assert record.inject_proof is not None
    assert record.inject_proof.holds == (sabotage in (Sabotage.NONE, Sabotage.STAYS)), record


def test_every_kind_that_is_drawn_is_begun_here() -> None:
    drawn = {step.fault.kind for s in SWARMS for step in s.scenario().steps if isinstance(step, Begin)}  # type: ignore[attr-defined]
    begun = {fault_of(statement).kind for statement in BEGUN}  # type: ignore[attr-defined]
    assert begun == drawn | {HostFaultKind.CPU_LIMIT}


# --- worlds that do not break ---


def kills_are_survived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedProcess, "kill", _nothing)
    patch.setattr(Fabric, "kill", _nothing)


def paused_processes_go_on(patch: pytest.MonkeyPatch) -> None:
    wake = SimulatedProcess._wake

    def go_on(process: SimulatedProcess) -> None:
        is_paused, process._is_paused = process._is_paused, False
        wake(process)
        process._is_paused = is_paused

    patch.setattr(SimulatedProcess, "_wake", go_on)


def disks_keep_everything(patch: pytest.MonkeyPatch) -> None:
    def keep(disk: Disk) -> None:
        disk.power_losses += disk._is_durable

    patch.setattr(Disk, "power_cut", keep)


def clocks_stay_right(patch: pytest.MonkeyPatch) -> None:
    def now(process: SimulatedProcess) -> Now:
        world = process._world
        return Now(world.now_ns, *world.epoch())

    patch.setattr(SimulatedProcess, "now", now)


def disks_have_room(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Disk, "require_room", _nothing)


def disks_are_fast(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Disk, "sync_latency_ns", lambda *_: SYNC_LATENCY_MIN_NS)


def processors_are_free(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedProcess, "_share_begin_ns", lambda _, time_ns: time_ns)


def changes_are_finished(patch: pytest.MonkeyPatch) -> None:
    begin_change = Disk.begin_change

    def finish(disk: Disk, owner: Owner) -> bool:
        begin_change(disk, owner)
        return False

    patch.setattr(Disk, "begin_change", finish)


def bytes_stay_right(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Disk, "change_bytes", _nothing)


def cut_links_deliver(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(virtual.Link, "is_cut", False)


def connections_outlive_resets(patch: pytest.MonkeyPatch) -> None:
    receive = StreamEnd.receive

    def outlive(end: StreamEnd, data: bytes, reason: str) -> None:
        if reason != EndReason.RESET_ON_THE_WAY:
            receive(end, data, reason)

    patch.setattr(StreamEnd, "receive", outlive)
    patch.setattr(virtual.Link, "is_refusing", False)


def links_are_fast(patch: pytest.MonkeyPatch) -> None:
    def arrival_ns(fabric: Fabric, link: virtual.Link, _: int, not_before_ns: int) -> int:
        return max(fabric.world.now_ns + link.latency_ns, not_before_ns)

    patch.setattr(Fabric, "arrival_ns", arrival_ns)


def silence_ends_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(virtual.Link, "timeout_ns", None)


UNBREAKABLE: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    MemberFaultKind.KILL: kills_are_survived,
    MemberFaultKind.STOP: kills_are_survived,
    MemberFaultKind.RESTART: kills_are_survived,
    MemberFaultKind.PAUSE: paused_processes_go_on,
    HostFaultKind.POWER_CUT: disks_keep_everything,
    HostFaultKind.POWER_LOST_IN_CHANGE: disks_keep_everything,
    HostFaultKind.CLOCK_JUMP: clocks_stay_right,
    HostFaultKind.DISK_FULL: disks_have_room,
    HostFaultKind.DISK_SLOW: disks_are_fast,
    HostFaultKind.CPU_LIMIT: processors_are_free,
    HostFaultKind.DIE_IN_CHANGE: changes_are_finished,
    HostFaultKind.WRONG_BYTES: bytes_stay_right,
    LinkFaultKind.BLACKHOLE: cut_links_deliver,
    LinkFaultKind.RESET: connections_outlive_resets,
    LinkFaultKind.SLOW: links_are_fast,
    LinkFaultKind.TIMEOUT: silence_ends_nothing,
}
"""Of each kind, a world in which the injector does what it is asked to, and nothing comes of it."""


def test_every_kind_has_a_world_that_it_does_not_break() -> None:
    # Files that keep their content are in scenarios/test_file_faults.py.
    assert set(UNBREAKABLE) == all_kinds() - {*DatagramFaultKind, *FileFaultKind, *NOT_SIMULATED}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What will never happen need not be waited for as long as in earnest."""
    for module in (faults, host_faults, link_faults):
        monkeypatch.setattr(module, "TAKES_EFFECT_S", 1.0)
        monkeypatch.setattr(module, "COMES_BACK_S", 1.0)


@pytest.mark.pure
@pytest.mark.parametrize("kind", UNBREAKABLE)
def test_no_run_is_valid_in_a_world_that_a_fault_does_not_break(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impatient: None
) -> None:
    text = f"title x\n{WORKLOAD}wait operations 60\ninject x {CASES[kind][0]}\nheal x\nwait operations 60\n"
    scenario = parse_scenario(text, name="x", where="x")
    UNBREAKABLE[kind](monkeypatch)
    stage = SimulatedStage(scenario, 1, tmp_path)
    result = run_scenario(scenario, stage, runtime="simulated", seed=1, say=print)
    assert result.verdict is not Verdict.VALID, result
    assert [fault for fault in stage.cluster.faults if fault.is_proved] == []


@pytest.mark.pure
@pytest.mark.parametrize("statement", BEGUN)
def test_what_is_begun_in_a_world_that_it_does_not_break_is_not_proved(
    statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impatient: None
) -> None:
    UNBREAKABLE[statement.split()[0]](monkeypatch)
    # A power cut takes nothing from a disk on which everything is synced.
    stage = opened(tmp_path, syncs="power" not in statement)
    driver, records = begun(stage, (statement, Sabotage.NONE))
    stage.let_pass(2)
    driver.end("0")
    driver.heal_all()
    assert of_name(records, "0") == [False], records
