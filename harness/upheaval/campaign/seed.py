"""Runs one seed of a campaign: cluster, load, snapshots and faults as drawn, invariants on the way, verdict at the end.

The outcome is a plain value that one line of JSON holds.
"""

import heapq
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from upheaval.campaign.faults import inject
from upheaval.campaign.invariants import Invariants
from upheaval.campaign.swarm import SECONDS, Swarm, SwarmFault, draw_swarm
from upheaval.checkers.promises import Promise
from upheaval.checkers.run import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.errors import HarnessError
from upheaval.records import (
    Json,
    Operation,
    RunFolder,
)
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.errors import PromiseBroken
from upheaval.runtimes.simulated.world import START_NS, World
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S

LOAD_END_S: Final = 30.0
LEADER_S: Final = 60.0
RESTART_S: Final = 9.0
"""After an order to end, when its members start again: behind the time-outs of a termination."""
SECONDS_MIN: Final = 60
OPERATIONS_MIN: Final = 500
FAULTS_MIN: Final = 3


@dataclass(slots=True)
class SeedOutcome:
    """How one seed went. `promise` (its id) and `detail` say what was broken; `verdict` is valid when nothing was."""

    swarm: Swarm
    verdict: str = Verdict.VALID.text
    promise: str = ""
    detail: str = ""
    seconds: float = 0.0
    """Simulated."""
    processor_seconds: float = 0.0
    operations: int = 0
    elections: int = 0
    """Terms with a leader, without the first one."""
    snapshots: int = 0
    """That were asked for and taken by the leader."""
    endings: int = 0
    """Orders to end the whole cluster that a leader took."""
    faults: dict[str, int] = field(default_factory=dict)
    """Proved ones by kind."""
    moves: dict[str, int] = field(default_factory=dict)
    """Of elections, by `OLD>NEW`."""

    @property
    def is_valid(self) -> bool:
        return self.verdict == Verdict.VALID.text

    @property
    def is_thin(self) -> bool:
        """Whether it shows too little to be counted."""
        return (
            self.seconds < SECONDS_MIN
            or self.operations < OPERATIONS_MIN
            or self.elections < 1
            or sum(self.faults.values()) < FAULTS_MIN
        )

    def to_fields(self) -> dict[str, Json]:
        return {
            **self.swarm.to_fields(),
            "verdict": self.verdict,
            "promise": self.promise,
            "detail": self.detail,
            "thin": self.is_thin,
            "simulated_seconds": round(self.seconds, 3),
            "processor_seconds": round(self.processor_seconds, 3),
            "operations": self.operations,
            "elections": self.elections,
            "snapshots": self.snapshots,
            "endings": self.endings,
            "proved_faults": dict(self.faults),
            "moves": dict(self.moves),
        }


class SeedRun:
    """One seed, from the start of its cluster to its verdict."""

    def __init__(self, seed: int, folder: Path, planted: str | None = None, *, traces_protocol: bool = False) -> None:
        self.swarm = draw_swarm(seed)
        self.world = World(seed)
        self.cluster = SimulatedCluster(
            self.world,
            members=self.swarm.members,
            settings=self.swarm.settings(),
            service=self.swarm.service,
            folder=RunFolder(folder),
            planted=planted,
            traces_protocol=traces_protocol,
        )
        self.invariants = Invariants(self.cluster)
        self.outcome = SeedOutcome(self.swarm)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()

    def run(self) -> SeedOutcome:
        """Never raises what the run is to blame for: that is its outcome."""
        begin = time.process_time()
        outcome, cluster = self.outcome, self.cluster
        try:
            self._perform()
            cluster.write()
            self._judge()
        except PromiseBroken as error:
            self._fail(Verdict.INVALID, Promise.INVARIANTS, str(error))
            cluster.write()
        except HarnessError as error:
            self._fail(Verdict.UNKNOWN, Promise.RUN_ENDED, str(error))
            cluster.write()
            self._judge()
        except Exception as defect:
            defect.add_note(f"in seed {self.swarm.seed} of a campaign")
            raise
        outcome.seconds = (self.world.now_ns - START_NS) / S
        outcome.elections = max(self.invariants.terms - 1, 0)
        outcome.faults = dict(Counter(fault.what for fault in cluster.faults))
        outcome.moves = dict(sorted(self._moves().items()))
        outcome.processor_seconds = time.process_time() - begin
        return outcome

    # --- the run ---

    def _perform(self) -> None:
        cluster, world, swarm = self.cluster, self.world, self.swarm
        for member_id, skew_ms in enumerate(swarm.skews_ms):
            cluster.jump_clock(member_id, skew_ms)
        cluster.start_all()
        cluster.wait_until_leader(LEADER_S)
        begin_ns = world.now_ns
        load = cluster.start_load(swarm.workload())
        for fault in swarm.faults:
            self._plan(begin_ns + fault.start_ns, lambda fault=fault: self._inject(fault))  # type: ignore[misc]
        if swarm.snapshot_interval_ns:
            self._plan(begin_ns + swarm.snapshot_interval_ns, self._order_snapshot)
        if swarm.ending:
            self._plan(begin_ns + swarm.ending_ns, self._order_end)
        self._plan(begin_ns + (SECONDS - 2) * S, lambda: None)
        while self._due:
            time_ns, _, act = heapq.heappop(self._due)
            self._pass(time_ns - world.now_ns)
            act()
        cluster.heal_everything()
        cluster.wait_until_leader(LEADER_S)
        self._pass(max(2 * S, begin_ns + SECONDS * S - world.now_ns))
        load.stop()
        cluster.wait_until(lambda: load.is_idle, LOAD_END_S, "end of the load")
        self.outcome.operations = load.counts.ok
        cluster.converge(LEADER_S)

    def _pass(self, duration_ns: int) -> None:
        """Let time pass, and look at what was acknowledged meanwhile."""
        cluster, end_ns = self.cluster, self.world.now_ns + max(duration_ns, 0)
        while True:
            known = len(cluster.history)
            self.world.run_for(min(S, end_ns - self.world.now_ns))
            self._check_acknowledged(cluster.history[known:])
            cluster.require_no_failure()
            if self.world.now_ns >= end_ns:
                return

    def _check_acknowledged(self, operations: list[Operation]) -> None:
        for operation in operations:
            self.invariants.check_acknowledged(operation)

    def _plan(self, time_ns: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time_ns, next(self._sequence), act))

    def _inject(self, fault: SwarmFault) -> None:
        begin_ns = self.world.now_ns
        injected = inject(self.cluster, fault)
        if injected is None:
            return

        def heal() -> None:
            seen = injected.heal()
            if seen:
                times = (begin_ns, begin_ns, self.world.now_ns, self.world.now_ns)
                proofs = (Proof(True, seen[0]), Proof(True, seen[1]))
                self.cluster.faults.append(
                    FaultRecord(fault.kind, injected.where, *times, *proofs, members=injected.members)
                )

        self._plan(begin_ns + fault.duration_ns, heal)

    def _order_snapshot(self) -> None:
        leader = self.cluster.leader()
        if leader is not None and not self.cluster.members[leader].order("snapshot"):
            self.outcome.snapshots += 1
        time_ns = self.world.now_ns + self.swarm.snapshot_interval_ns
        if time_ns < START_NS + SECONDS * S:
            self._plan(time_ns, self._order_snapshot)

    def _order_end(self) -> None:
        """Whoever leads now ends its cluster, if nothing prevents it; what has ended is started again."""
        leader = self.cluster.leader()
        if leader is not None and not self.cluster.members[leader].order(self.swarm.ending):
            self.outcome.endings += 1
            for member in self.cluster.members:
                # Without a quorum, for a fault that lasts, services never get to the end: their member gives up.
                member.expected_ends |= {process.name for process in [member.process] if process is not None}
            self._plan(self.world.now_ns + int(RESTART_S * S), self._start_what_ended)

    def _start_what_ended(self) -> None:
        for member in self.cluster.members:
            process = member.process
            if process is not None and process.name in member.exit_statuses:
                self.cluster.start(member.member_id)

    def _moves(self) -> Counter[str]:
        """The moves of all elections, from the traces: a start of a member or of an election is none."""
        moves: Counter[str] = Counter()
        for lines in self.cluster.journal.lines.values():
            old = ""
            for line in lines:
                if f'"event":"{TraceKind.PROCESS_START}"' in line:
                    old = ""
                elif f'"event":"{TraceKind.ELECTION_STATE}"' in line:
                    new = json.loads(line)["state"]
                    if old not in ("", "CLOSED"):
                        moves[f"{old}>{new}"] += 1
                    old = new
        return moves

    # --- the verdict ---

    def _judge(self) -> None:
        """The worst finding of the run's folder, unless something worse was found before."""
        try:
            findings = verify_run(self.cluster.run.path).findings
        except HarnessError as error:
            self._fail(Verdict.UNKNOWN, Promise.FOLDER_JUDGED, str(error))
            return
        for finding in findings:
            self._fail(finding.verdict, finding.promise, finding.detail)

    def _fail(self, verdict: Verdict, promise: Promise, detail: str) -> None:
        outcome = self.outcome
        if verdict > Verdict[outcome.verdict.upper()]:
            outcome.verdict, outcome.promise, outcome.detail = verdict.text, promise, " ".join(detail.split())


def run_seed(seed: int, planted: str | None, folder: Path) -> SeedOutcome:
    """Run and judge one seed, and leave its run folder there, with the protocol trace."""
    return SeedRun(seed, folder, planted, traces_protocol=True).run()


def try_seed(seed: int, planted: str | None, scratch: Path) -> SeedOutcome:
    """Run and judge one seed below `scratch`, and leave nothing there."""
    folder = scratch / f"seed-{seed}"
    try:
        return SeedRun(seed, folder, planted).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
