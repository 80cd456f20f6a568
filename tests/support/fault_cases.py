"""Every kind of fault as statements of a scenario, and one round of each: put in and taken away, proved or not.

A kind without a statement here fails the tests that go through them.
"""

from collections.abc import Mapping
from typing import Final

import pytest

from support.saboteur import OF_ALL, Sabotage, Saboteur
from upheaval.execution.simulated import SimulatedTarget
from upheaval.execution.stage import Steered
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.scenario import Inject, parse_scenario
from upheaval_chaos.datagram_faults import DatagramFaultKind
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import Fault, MemberFaultKind
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.host_faults import NOT_SIMULATED, HostFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import LinkFaultKind


def _is_of_hosts(statement: str) -> bool:
    """Whether only a runtime with machines of its own can do it."""
    return statement.split()[0] in list(HostFaultKind)


def is_of_datagrams(statement: str) -> bool:
    """Whether it is done only to members that send some."""
    return statement.split()[0] in list(DatagramFaultKind)


def is_simulated(statement: str) -> bool:
    """Whether simulated members know it: they send no datagrams, have no memory of their own, and who dialled is all
    the same.
    """
    is_known = not is_of_datagrams(statement) and statement.split()[0] not in NOT_SIMULATED
    return is_known and "dialled-by" not in statement


CASES: Final[Mapping[str, tuple[str, ...]]] = {
    MemberFaultKind.KILL: ("kill follower",),
    MemberFaultKind.STOP: ("stop follower",),
    MemberFaultKind.PAUSE: ("pause follower",),
    MemberFaultKind.RESTART: ("restart follower",),
    HostFaultKind.POWER_CUT: ("power-cut follower", "power-cut all", "power-cut leader,follower"),
    HostFaultKind.CLOCK_JUMP: ("clock-jump follower jump-ms=3000", "clock-jump leader jump-ms=-20000"),
    HostFaultKind.DISK_FULL: ("disk-full follower", "disk-full leader"),
    HostFaultKind.DISK_SLOW: ("disk-slow follower latency-ms=40",),
    HostFaultKind.CPU_LIMIT: ("cpu-limit follower percent=5", "cpu-limit leader percent=20"),
    HostFaultKind.MEMORY_LIMIT: ("memory-limit follower megabytes=64",),
    HostFaultKind.DIE_IN_CHANGE: ("die-in-change follower", "die-in-change leader changes=7"),
    HostFaultKind.POWER_LOST_IN_CHANGE: ("power-lost-in-change follower changes=3",),
    HostFaultKind.WRONG_BYTES: ("wrong-bytes follower", "wrong-bytes leader at-percent=90"),
    LinkFaultKind.BLACKHOLE: (
        "blackhole leader -> follower",
        "blackhole follower <-> leader",
        "blackhole leader -> follower channel=log",
        "blackhole clients <-> leader",
        "blackhole leader -> clients",
        "blackhole follower <-> leader dialled-by=source",
        "blackhole follower <-> leader dialled-by=target channel=consensus",
    ),
    LinkFaultKind.RESET: ("reset leader <-> follower", "reset clients <-> leader"),
    LinkFaultKind.SLOW: (
        "slow leader -> follower latency-ms=80",
        "slow leader -> follower bytes-per-second=8000",
        "slow clients -> leader latency-ms=80",
    ),
    LinkFaultKind.TIMEOUT: ("timeout leader <-> follower timeout-ms=300", "timeout clients <-> leader timeout-ms=300"),
    DatagramFaultKind.LOSE: (
        "lose leader <-> follower percent=30",
        "lose clients -> leader percent=10",
        "lose all -> all percent=30 channel=consensus",
        "lose leader -> follower percent=20 channel=log frames=data",
    ),
    DatagramFaultKind.DUPLICATE: ("duplicate leader -> follower percent=40",),
    DatagramFaultKind.OMIT: (
        "omit leader -> follower message=CommitPosition percent=50",
        "omit followers -> leader message=AppendPosition",
    ),
    DatagramFaultKind.DISORDER: ("disorder leader -> followers jitter-ms=30",),
}
_LIES: Final = (Sabotage.IDLE, Sabotage.ELSEWHERE, Sabotage.STAYS)
_WRONG_WAYS: Final = (
    ("slow leader -> follower latency-ms=400", Sabotage.NONE),
    ("slow leader <-> follower latency-ms=400", Sabotage.NONE),
    ("slow leader -> follower latency-ms=400", Sabotage.REVERSED),
    ("slow leader <-> follower latency-ms=400", Sabotage.HALF),
    ("slow leader -> follower bytes-per-second=8000", Sabotage.REVERSED),
    ("blackhole leader -> follower", Sabotage.REVERSED),
    ("blackhole leader <-> follower", Sabotage.HALF),
)
ROUNDS: Final = (
    *((statement, Sabotage.NONE) for statements in CASES.values() for statement in statements),
    *((statements[0], how) for statements in CASES.values() for how in _LIES),
    *(("blackhole clients <-> leader", how) for how in _LIES),
    *(("slow leader -> follower bytes-per-second=8000", how) for how in _LIES),
    *(("blackhole follower <-> leader dialled-by=source", how) for how in _LIES),
    *_WRONG_WAYS,
)
"""Every statement as it is, and one of each kind with a false injector."""
_OFTEN: Final = {
    *((statements[0], Sabotage.IDLE) for statements in CASES.values()),
    ("kill follower", Sabotage.ELSEWHERE),
    ("blackhole leader -> follower", Sabotage.ELSEWHERE),
    ("pause follower", Sabotage.STAYS),
    ("blackhole leader -> follower", Sabotage.STAYS),
    ("blackhole clients <-> leader", Sabotage.NONE),
    ("blackhole follower <-> leader dialled-by=source", Sabotage.NONE),
    ("reset clients <-> leader", Sabotage.NONE),
    ("slow leader -> follower latency-ms=80", Sabotage.NONE),
    ("timeout leader <-> follower timeout-ms=300", Sabotage.NONE),
}
SIMULATED_ROUNDS: Final = tuple(
    pytest.param(
        statement, how, marks=pytest.mark.nightly if how is Sabotage.NONE and not _is_of_hosts(statement) else ()
    )
    for statement, how in ROUNDS
    if is_simulated(statement)
)
"""The same in virtual time; what other injectors do that do not lie is shown by the scenarios of the library too."""
LIVE_ROUNDS: Final = tuple(
    pytest.param(*round_, marks=() if round_ in _OFTEN else pytest.mark.nightly)
    for round_ in ROUNDS
    if not _is_of_hosts(round_[0]) and not is_of_datagrams(round_[0])
)
"""The same for real members, which take seconds a round: all of them once a night, of each kind one every time."""
BEGUN: Final = (
    "kill leader",
    "power-cut leader",
    "pause follower",
    "clock-jump follower jump-ms=5000",
    "disk-full leader",
    "disk-slow leader latency-ms=40",
    "cpu-limit leader percent=5",
    "die-in-change leader changes=3",
    "power-lost-in-change follower changes=3",
    "wrong-bytes follower at-percent=50",
    "blackhole leader <-> follower",
    "blackhole leader -> follower channel=log",
    "blackhole leader <-> clients",
    "reset leader <-> follower",
    "slow leader <-> follower latency-ms=30",
)
"""As campaigns put them in: looked at while they last, and nothing is tried."""
_OF_EACH_PROBE: Final = (
    "kill leader",
    "pause follower",
    "clock-jump follower jump-ms=5000",
    "disk-full leader",
    "blackhole leader <-> follower",
    "slow leader <-> follower latency-ms=30",
)
"""Of those whose probes look at the same, one."""
BEGUN_ROUNDS: Final = tuple(
    pytest.param(
        statement,
        sabotage,
        marks=() if sabotage in (Sabotage.NONE, Sabotage.IDLE) or statement in _OF_EACH_PROBE else pytest.mark.nightly,
    )
    for statement in BEGUN
    for sabotage in OF_ALL
)
WORKLOAD: Final = "workload rate=60\n"
SETTLED_S: Final = 40.0


def all_kinds() -> set[str]:
    """The catalogue."""
    return {*MemberFaultKind, *FileFaultKind, *HostFaultKind, *LinkFaultKind, *DatagramFaultKind}


def fault_of(statement: str, cluster: str = "cluster members=3") -> Fault:
    scenario = parse_scenario(f"title x\n{cluster}\ninject x {statement}\nwait operations 1\n", name="x", where="x")
    (fault,) = (step.fault for step in scenario.steps if isinstance(step, Inject))
    return fault


def isolation(member_id: int, members: int = 3) -> Fault:
    """A member is cut off from all others, both ways. Clients still reach it."""
    others = ",".join(f"member-{other}" for other in range(members) if other != member_id)
    return fault_of(f"blackhole member-{member_id} <-> {others}")


def drive(cluster: SimulatedCluster) -> FaultDriver:
    """What puts faults into a simulated cluster, as it does in a run."""
    return FaultDriver(SimulatedTarget(cluster), cluster.faults.append)


def one_round(stage: Steered, fault: Fault, sabotage: Sabotage) -> FaultRecord:
    """What is recorded of the fault. Afterwards all members follow one leader and answer clients again."""
    records: list[FaultRecord] = []
    saboteur = Saboteur(stage, sabotage)
    driver = FaultDriver(saboteur, records.append)
    # On a machine that is busy, a leader may have been lost since the last round.
    stage.wait_until(lambda: stage.leader() is not None, SETTLED_S, "a leader")
    try:
        injected = driver.inject("x", fault)
        healed = driver.heal("x")
    finally:
        saboteur.make_good()
    settle(stage)
    (record,) = records
    # To start again is part of a restart, and not its healing.
    is_put_in = sabotage is Sabotage.STAYS and record.what != MemberFaultKind.RESTART
    # The proof that fails is that of the injection, whatever becomes of the healing.
    assert injected.holds == (sabotage is Sabotage.NONE or is_put_in), record
    if is_put_in:
        # What failed is the proof of the healing.
        assert not healed.holds, record
    return record


def settle(stage: Steered) -> None:
    stage.wait_until(
        lambda: all(stage.has_caught_up(member_id) for member_id in stage.member_ids), SETTLED_S, "catch-up of all"
    )
    target = stage.acknowledged() + 30
    stage.wait_until(lambda: stage.acknowledged() >= target, SETTLED_S, "operations after the fault")
