"""Scenarios on live clusters: real processes or containers, and proxied links between them."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from upheaval.errors import UsageError
from upheaval.execution.links import open_links, require_link_faults, require_link_images, watch_consensus
from upheaval.execution.machines import open_machines, require_amounts, require_machines
from upheaval.execution.stage import require_tasks_passed
from upheaval.records import RunFolder
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.scenario import Scenario
from upheaval.system import system_named
from upheaval.workload import Load, LoadCounts, LoadMaker
from upheaval_chaos.record import FaultRecord


class LiveStage:
    """Implements `stage.Stage`. Links get proxies or filters if the scenario has link faults."""

    def __init__(
        self,
        scenario: Scenario,
        runtime: str,
        seed: int,
        folder: Path,
        planted: str | None = None,
        make_load: LoadMaker = Load,
    ) -> None:
        self._make_load = make_load
        self.run = RunFolder(folder)
        self._spec = replace(scenario.cluster, planted=planted)
        self._runtime = runtime
        self._workload = replace(scenario.workload, seed=seed)
        self._scenario = scenario
        self._seed = seed
        self._means = next((fault.means for fault in scenario.link_faults), None)
        self._system = system_named(self._spec.system)
        require_link_faults(self._system, scenario.link_faults)
        require_amounts(self._system, scenario.host_faults)
        self._machine_kinds = {fault.kind for fault in scenario.host_faults}
        self._cluster: AnyCluster | None = None
        self._load: ProcessLoad | None = None
        self._stack = ExitStack()

    @property
    def target(self) -> AnyCluster:
        """Raises `UsageError` before `open`."""
        if self._cluster is None:
            raise UsageError("the cluster is not started")
        return self._cluster

    def record_fault(self, fault: FaultRecord) -> None:
        """Write the record to the run folder at once."""
        self.run.add_fault(fault)

    def open(self, say: Callable[[str], None]) -> None:
        """Make and start the cluster and its links, and start the load."""
        if self._means is not None:
            require_link_images(self._runtime, self._means, self._system)
        require_machines(self._runtime, self._machine_kinds, self._spec.sync_level)
        cluster = self._cluster = create_cluster(self._runtime, self.run.path, self._spec)
        self._stack.callback(cluster.close)
        for sentence in cluster.notes:
            say(sentence)
        self.run.change_manifest(
            lambda manifest: replace(
                manifest,
                seed=self._seed,
                workload=self._workload.to_json(),
                planned_faults=self._scenario.planned_faults,
                planned_commands=self._scenario.planned_commands,
                demanded=self._scenario.promises,
            )
        )
        self.run.write_scenario(self._scenario.text)
        open_machines(cluster, self._machine_kinds)
        if self._means is None:
            watch_consensus(cluster, self._seed)
        else:
            open_links(cluster, self._seed, self._means)
        self._stack.callback(cluster.down)
        cluster.up()
        load = self._load = self._stack.enter_context(ProcessLoad(cluster, self._workload, make=self._make_load))
        cluster.acknowledged = lambda: load.counts.ok

    def end_load(self) -> LoadCounts:
        """Raises `UsageError` before `open`."""
        if self._load is None:
            raise UsageError("the load has not begun")
        return self._load.finish()

    def close(self) -> None:
        """Close load, cluster and links, in that order."""
        self._stack.close()
        require_tasks_passed(self.run, () if self._load is None else self._load.raised)

    def digest(self) -> None:
        """None: real executions do not repeat."""
