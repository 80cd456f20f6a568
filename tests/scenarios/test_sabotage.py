"""Each fault's probe on a cluster that works: it holds when the fault was done, and fails when the injector did
nothing, hit another member or link, or did not heal. Every kind of fault is tried, on the simulated and on the process
runtime.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.fault_cases import (
    CASES,
    LIVE_ROUNDS,
    SETTLED_S,
    SIMULATED_ROUNDS,
    WORKLOAD,
    all_kinds,
    fault_of,
    is_simulated,
    one_round,
    settle,
)
from support.live_clusters import live_stage
from support.saboteur import OF_ALL, Sabotage, Saboteur
from upheaval.errors import UsageError
from upheaval.execution.live import LiveStage
from upheaval.execution.simulated import SimulatedStage
from upheaval.runtimes.process_node import ProcessNode
from upheaval.runtimes.simulated.cluster import SimulatedMember
from upheaval.runtimes.simulated.hosts import SimulatedHosts
from upheaval.scenario import parse_scenario
from upheaval_chaos import faults, host_faults, link_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.host_faults import NOT_SIMULATED, ON_PROCESSES, HostFaultKind
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_chaos.target import Link, Ping, Target
from upheaval_node.types import MS

SCENARIO = parse_scenario(
    f"title all\n{WORKLOAD}wait operations 1\ninject x blackhole all -> all\n", name="all", where="all"
)


def test_every_kind_is_tried() -> None:
    # Those of files are in test_file_faults: a damaged member does not return by itself.
    assert set(CASES) == all_kinds() - set(FileFaultKind)
    assert all(CASES.values())


def test_every_fault_is_written_down_as_the_statement_that_makes_it(tmp_path: Path) -> None:
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    # Wrong bytes are aimed at what is durable.
    stage.let_pass(0.5)
    for statements in CASES.values():
        for statement in (each for each in statements if is_simulated(each) or "dialled-by" in each):
            written = fault_of(statement).aim(stage, tries=False).statement
            assert written.split()[0] == statement.split()[0]
            assert fault_of(written).aim(stage, tries=False).statement == written


def hurry(monkeypatch: pytest.MonkeyPatch, limit_s: float, *names: str) -> None:
    """What will never happen need not be waited for as long as in earnest."""
    for module in (faults, host_faults, link_faults):
        for name in names or ("TAKES_EFFECT_S", "COMES_BACK_S"):
            monkeypatch.setattr(module, name, limit_s)


@pytest.fixture
def impatient(sabotage: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    if sabotage is Sabotage.STAYS:
        hurry(monkeypatch, 2.0, "COMES_BACK_S")
    elif sabotage is not Sabotage.NONE:
        hurry(monkeypatch, 1.0)


class HeldUpAtFirst(Saboteur):
    """The first ping of each length along a road takes longer than the fault will make it."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, Sabotage.NONE)
        self.tried: set[tuple[Link, int]] = set()

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        ping = super().ping(link, timeout_s, extra_length)
        added_ns = 0 if (link, extra_length) in self.tried else 800 * MS
        self.tried.add((link, extra_length))
        return replace(ping, round_trip_ns=ping.round_trip_ns + added_ns)


@pytest.mark.parametrize("option", ["latency-ms=80", "bytes-per-second=20000"])
def test_one_slow_answer_before_a_fault_is_not_what_is_usual(option: str, tmp_path: Path) -> None:
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    stage.wait_until(lambda: stage.leader() is not None, SETTLED_S, "a leader")
    records: list[FaultRecord] = []
    driver = FaultDriver(HeldUpAtFirst(stage), records.append)
    assert driver.inject("x", fault_of(f"slow leader -> follower {option}")).holds, records
    assert driver.heal("x").holds, records


@pytest.mark.parametrize(("statement", "sabotage"), SIMULATED_ROUNDS)
def test_simulated(statement: str, sabotage: Sabotage, tmp_path: Path, impatient: None) -> None:
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    stage.let_pass(0.5)
    record = one_round(stage, fault_of(statement), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record


@pytest.mark.parametrize("sabotage", OF_ALL)
def test_a_clock_that_is_polled(
    sabotage: Sabotage, tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on live members: what was written before the fault shows nothing, and a time may be off by a quarter."""
    monkeypatch.setattr(SimulatedHosts, "is_exact", False)
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    stage.let_pass(2)
    record = one_round(stage, fault_of("clock-jump follower jump-ms=3000"), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record


@pytest.mark.parametrize(("moved_ms", "is_proved"), [(2260, True), (2240, False), (3760, False)])
def test_a_polled_clock_must_move_about_as_far(
    moved_ms: int, is_proved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, 3.0)
    monkeypatch.setattr(SimulatedHosts, "is_exact", False)
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    stage.let_pass(2)
    hosts = stage.hosts("set a clock")
    monkeypatch.setattr(hosts, "move_clock", lambda member_id, _: stage.cluster.move_clock(member_id, moved_ms))
    driver = FaultDriver(stage, lambda _: None)
    assert driver.inject("x", fault_of("clock-jump follower jump-ms=3000")).holds == is_proved


@pytest.mark.parametrize("kind", [kind for kind in CASES if is_simulated(CASES[kind][0])])
def test_a_probe_that_sees_nothing_is_found_out(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a probe taken away, and a proof put in its place, the rounds above would fail."""
    fault = fault_of(CASES[kind][0])
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    stage.let_pass(0.5)
    hurry(monkeypatch, 1.0)
    monkeypatch.setattr(type(fault.aim(stage, tries=False)), "prove", lambda _: Proof(True, "done"))
    with pytest.raises(AssertionError, match=r"holds=True, evidence='done'"):
        one_round(stage, fault, Sabotage.IDLE)


def test_a_fault_begins_when_the_hands_act(tmp_path: Path) -> None:
    """To try the links before takes time, to cut them takes none here."""
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    stage.let_pass(0.5)
    record = one_round(stage, fault_of("blackhole leader <-> follower"), Sabotage.NONE)
    assert record.asked_ns is not None
    assert record.asked_ns < record.inject_begin_ns == record.inject_end_ns


ORDERLY = ("stop follower", "restart follower")


def require_not_proved(target: Target, statement: str) -> None:
    driver = FaultDriver(target, lambda _: None)
    injected = driver.inject("x", fault_of(statement))
    driver.heal("x")
    assert not injected.holds
    assert "was ordered to end, and ended with status" in injected.evidence


@pytest.mark.parametrize("statement", ORDERLY)
def test_a_kill_is_no_orderly_end(statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = SimulatedStage(SCENARIO, 1, tmp_path)
    stage.open(print)
    stage.let_pass(0.5)
    monkeypatch.setattr(SimulatedMember, "stop", SimulatedMember.kill)
    require_not_proved(stage, statement)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStage]:
    """Three members behind proxies, under load."""
    with live_stage(SCENARIO, tmp_path_factory.mktemp("sabotage") / "run") as stage:
        yield stage


@pytest.mark.heavy
@pytest.mark.parametrize("kind", HostFaultKind)
def test_machines_that_are_not_ours_are_not_broken(kind: HostFaultKind, processes: LiveStage) -> None:
    hints = [rf"make it with machines=\['{kind}'\]"] if kind in ON_PROCESSES else []
    hints += [] if kind in NOT_SIMULATED else ["use --runtime simulated"]
    with pytest.raises(UsageError, match=rf"^the process runtime cannot [a-z ]*: {', or '.join(hints)}$"):
        fault_of(CASES[kind][0]).aim(processes.target)


@pytest.mark.heavy
def test_a_kill_of_processes_is_no_orderly_end(processes: LiveStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessNode, "stop", ProcessNode.kill)
    require_not_proved(processes.target, ORDERLY[0])
    settle(processes.target)


@pytest.mark.heavy
@pytest.mark.parametrize(("statement", "sabotage"), LIVE_ROUNDS)
def test_processes(statement: str, sabotage: Sabotage, processes: LiveStage, impatient: None) -> None:
    record = one_round(processes.target, fault_of(statement), sabotage)
    assert record.is_proved == (sabotage is Sabotage.NONE), record
