"""Runs one seed: a cluster, a load, drawn faults, a converge phase; and leaves a run folder and a digest.

The folder is what the other runtimes leave, so that the same checkers judge it.
"""

import argparse
import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from upheaval.errors import HarnessError, UnknownOutcome
from upheaval.records import (
    Converge,
    Operation,
    RunFolder,
)
from upheaval.runtimes.simulated import faults
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.collect import digest
from upheaval.runtimes.simulated.faults import PlannedFault
from upheaval.runtimes.simulated.world import START_NS, World
from upheaval.workload import LoadCounts, WorkloadSettings
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.settings import KIB, profile_settings
from upheaval_node.types import S

LOAD_END_S: Final = 30.0
QUIET_NS: Final = S
"""Load without faults, before the first and after the last one."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a simulated run is made of, apart from its seed."""

    members: int = 3
    profile: str = "test"
    sync_level: int = 1
    segment_length: int = 128 * KIB
    """Two terms: short runs, too, shall go through several segments."""
    faults: int = 4
    overlapping: bool = False
    rate: int = 100
    slots: int = 8
    keys: int = 4


@dataclass(slots=True)
class SimulatedRun:
    """How a run went. Times are virtual."""

    seed: int
    digest: str
    duration_ns: int
    counts: LoadCounts
    converge: Converge
    faults: list[FaultRecord]
    history: list[Operation]
    errors: dict[str, int] = field(default_factory=dict)
    """Errors that the members reported, by kind."""


class Runner:
    """One run of one seed."""

    def __init__(self, seed: int, settings: RunSettings, folder: Path | None = None) -> None:
        self.seed = seed
        self.settings = settings
        self.world = World(seed)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        profile = profile_settings(settings.profile, sync_level=settings.sync_level)
        self.cluster = SimulatedCluster(
            self.world,
            members=settings.members,
            settings=replace(profile, archive=replace(profile.archive, segment_length=settings.segment_length)),
            folder=None if folder is None else RunFolder(folder),
            traces_protocol=folder is not None,
        )

    def run(self) -> SimulatedRun:
        """Raises `ProcessFailed` when a process fails by a defect, `UnknownOutcome` when the cluster stays down."""
        cluster, world, settings = self.cluster, self.world, self.settings
        cluster.start_all()
        cluster.wait_until_leader()
        workload = WorkloadSettings(seed=self.seed, keys=settings.keys, slots=settings.slots, rate=settings.rate)
        load = cluster.start_load(workload)
        world.run_for(QUIET_NS)
        self.do_faults(self._schedule())
        cluster.heal_everything()
        cluster.wait_until_leader()
        world.run_for(QUIET_NS)
        load.stop()
        cluster.wait_until(lambda: load.is_idle, LOAD_END_S, "end of the load")
        converge = cluster.converge()
        lines = [operation.to_json() for operation in cluster.history]
        disks = {member.host: member.disk for member in cluster.members}
        return SimulatedRun(
            seed=self.seed,
            digest=digest(cluster.journal, lines, disks),
            duration_ns=world.now_ns - START_NS,
            counts=load.counts,
            converge=converge,
            faults=cluster.faults,
            history=cluster.history,
            errors=self._errors(),
        )

    def _schedule(self) -> list[PlannedFault]:
        settings = self.settings
        random = self.world.stream("faults")
        return faults.draw_schedule(
            random,
            members=settings.members,
            count=settings.faults,
            sync_level=settings.sync_level,
            overlapping=settings.overlapping,
        )

    def do_faults(self, schedule: list[PlannedFault]) -> None:
        """Inject and heal, each when its time has come."""
        for fault in schedule:
            self._plan(self.world.now_ns + fault.start_ns, partial(self._inject, fault))
        while self._due:
            time_ns, _, act = heapq.heappop(self._due)
            self.world.run_for(max(time_ns - self.world.now_ns, 0))
            act()

    def _plan(self, time_ns: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time_ns, next(self._sequence), act))

    def _inject(self, fault: PlannedFault) -> None:
        where, members, seen, heal = faults.inject(self.cluster, fault)
        begin_ns = self.world.now_ns

        def note() -> None:
            proofs = (Proof(True, seen), Proof(True, heal()))
            times = (begin_ns, begin_ns, self.world.now_ns, self.world.now_ns)
            self.cluster.faults.append(FaultRecord(fault.kind.value, where, *times, *proofs, members))

        self._plan(begin_ns + fault.duration_ns, note)

    def _errors(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for member in self.cluster.members:
            for log in member.errors:
                for kind, number in log.counts.items():
                    counts[kind] = counts.get(kind, 0) + number
        return counts


def run_seed(seed: int, settings: RunSettings | None = None, folder: Path | None = None) -> SimulatedRun:
    """Run one seed; with a `folder` its run folder is written there, whether the run ends well or not."""
    runner = Runner(seed, settings or RunSettings(), folder)
    try:
        return runner.run()
    finally:
        if folder is not None:
            runner.cluster.write()


def main(arguments: list[str] | None = None) -> int:
    """`python -m upheaval.runtimes.simulated.runner --seed 7 --dir runs/7`: one seed and its run folder."""
    defaults = RunSettings()
    parser = argparse.ArgumentParser(description="Run one seed on the simulated runtime.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--dir", type=Path, help="where the run folder is written (default: nowhere)")
    parser.add_argument("--members", type=int, default=defaults.members)
    parser.add_argument("--sync-level", type=int, choices=(0, 1, 2), default=defaults.sync_level)
    parser.add_argument("--faults", type=int, default=defaults.faults, help="how many faults are drawn")
    parser.add_argument("--overlapping", action="store_true", help="faults begin while others last")
    parser.add_argument("--rate", type=int, default=defaults.rate, help="operations a second")
    parsed = parser.parse_args(arguments)
    settings = RunSettings(
        members=parsed.members,
        sync_level=parsed.sync_level,
        faults=parsed.faults,
        overlapping=parsed.overlapping,
        rate=parsed.rate,
    )
    try:
        run = run_seed(parsed.seed, settings, parsed.dir)
    except HarnessError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    counts = run.counts
    print(f"seed {run.seed}: {run.duration_ns / S:.1f} s, digest {run.digest}")
    print(
        f"operations: {counts.ok} ok, {counts.fail} fail, {counts.unknown} unknown; converged: {run.converge.reached}"
    )
    for fault in run.faults:
        print(f"  {(fault.inject_begin_ns - START_NS) / S:8.3f} s {fault.what} {fault.where}: {fault.evidence}")
    return 0 if run.converge.reached else UnknownOutcome.exit_status


if __name__ == "__main__":
    sys.exit(main())
