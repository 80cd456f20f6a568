"""Runs one seed: a cluster, a load, drawn faults, a converge phase; and leaves a run folder and a digest.

The folder is what the other runtimes leave, so that the same checkers judge it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.history import Operation
from upheaval.run_folder import Converge, FaultRecord, Manifest, RunFolder
from upheaval.runtimes.simulated import faults
from upheaval.runtimes.simulated.cluster import SECOND, SimulatedCluster
from upheaval.runtimes.simulated.collect import digest, write_files, write_trace
from upheaval.runtimes.simulated.faults import PlannedFault
from upheaval.runtimes.simulated.world import START_NS, World
from upheaval.workload import LoadCounts, WorkloadSettings
from upheaval_node.settings import profile_settings

QUIET_NS: Final = SECOND
"""Load without faults, before the first and after the last one."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a simulated run is made of, apart from its seed."""

    members: int = 3
    profile: str = "test"
    sync_level: int = 1
    faults: int = 4
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

    def __init__(self, seed: int, settings: RunSettings) -> None:
        self.seed = seed
        self.settings = settings
        self.world = World(seed)
        self.cluster = SimulatedCluster(
            self.world,
            members=settings.members,
            settings=profile_settings(settings.profile, sync_level=settings.sync_level),
        )
        self.history: list[Operation] = []
        self.faults: list[FaultRecord] = []

    def run(self) -> SimulatedRun:
        """Raises `SimulationError` when a process fails by a defect or the cluster does not come back."""
        cluster, world = self.cluster, self.world
        cluster.start_all()
        cluster.wait_until_leader()
        settings = self.settings
        workload = WorkloadSettings(seed=self.seed, keys=settings.keys, slots=settings.slots, rate=settings.rate)
        load = cluster.start_load(workload, self.history.append)
        world.run_for(QUIET_NS)
        begin_ns = world.now_ns
        for fault in self._schedule():
            world.run_for(max(begin_ns + fault.start_ns - world.now_ns, 0))
            self._do(fault)
        cluster.heal_everything()
        cluster.wait_until_leader()
        world.run_for(QUIET_NS)
        load.stop()
        cluster.wait_until(lambda: load.is_idle, 30 * SECOND, "end of the load")
        converge = cluster.wait_until_converged()
        cluster.require_no_failure()
        lines = [operation.to_json() for operation in self.history]
        disks = {member.host: member.disk for member in cluster.members}
        return SimulatedRun(
            seed=self.seed,
            digest=digest(cluster.journal, lines, disks),
            duration_ns=world.now_ns - START_NS,
            counts=load.counts,
            converge=converge,
            faults=self.faults,
            history=self.history,
            errors=self._errors(),
        )

    def _schedule(self) -> list[PlannedFault]:
        settings = self.settings
        random = self.world.stream("faults")
        return faults.draw_schedule(
            random, members=settings.members, count=settings.faults, sync_level=settings.sync_level
        )

    def _do(self, fault: PlannedFault) -> None:
        world = self.world
        begin_ns = world.now_ns
        where, proof, heal = faults.inject(self.cluster, fault)
        world.run_for(fault.duration_ns)
        self.faults.append(
            FaultRecord(
                what=fault.kind.value,
                where=where,
                inject_begin_ns=begin_ns,
                inject_end_ns=begin_ns,
                heal_begin_ns=world.now_ns,
                heal_end_ns=world.now_ns,
                proof=f"{proof}; {heal()}",
            )
        )

    def _errors(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for member in self.cluster.members:
            for log in member.errors:
                for kind, count in log.counts.items():
                    counts[kind] = counts.get(kind, 0) + count
        return counts

    def write(self, folder: RunFolder, converge: Converge | None) -> None:
        """Write the run folder, also of a run that ended in an error."""
        settings = self.settings
        folder.create(
            Manifest(
                run_id=f"simulated-{self.seed}",
                runtime="simulated",
                members=settings.members,
                profile=settings.profile,
                sync_level=settings.sync_level,
                service=self.cluster.service,
                seed=self.seed,
                workload=WorkloadSettings(
                    seed=self.seed, keys=settings.keys, slots=settings.slots, rate=settings.rate
                ).to_json(),
                converge=converge,
            )
        )
        with folder.history_writer() as writer:
            for operation in self.history:
                writer.add(operation)
        for fault in self.faults:
            folder.add_fault(fault)
        for member in self.cluster.members:
            files = folder.member(member.member_id)
            write_files(member.disk, files.path)
            write_trace(self.cluster.journal, member.member_id, files.trace)


def run_seed(seed: int, settings: RunSettings | None = None, folder: Path | None = None) -> SimulatedRun:
    """Run one seed; with a `folder` its run folder is written there, whether the run ends well or not."""
    runner = Runner(seed, settings or RunSettings())
    converge: Converge | None = None
    try:
        run = runner.run()
        converge = run.converge
        return run
    finally:
        if folder is not None:
            runner.write(RunFolder(folder), converge)


def run_seeds(seeds: list[int], settings: RunSettings, report: Callable[[SimulatedRun], None]) -> None:
    for seed in seeds:
        report(run_seed(seed, settings))
