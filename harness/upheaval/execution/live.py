"""Scenarios on live clusters: real processes or containers, and proxied links between them."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.execution.links import Links, open_links, require_link_images
from upheaval.records import (
    CompanionConfig,
    ControlRecord,
    Converge,
    RunFolder,
)
from upheaval.runtimes.companions import LiveCompanion
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.scenario import Scenario
from upheaval.system import ControlStatus, MemberStatus, is_caught_up, shown
from upheaval.waits import wait_until
from upheaval.workload import LoadCounts
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import Link, LinkEffect, Means, Ping
from upheaval_node.media.resolver import Resolver
from upheaval_node.types import S


class LiveTarget:
    """A live cluster as faults see it. Implements `upheaval_chaos.target.Target`."""

    def __init__(self, cluster: AnyCluster | None = None) -> None:
        self._cluster = cluster
        self._links: Links | None = None

    @property
    def cluster(self) -> AnyCluster:
        if self._cluster is None:
            raise UsageError("the cluster is not started")
        return self._cluster

    @property
    def links(self) -> Links:
        if self._links is None:
            raise UsageError("the links of this cluster are not proxied")
        return self._links

    @property
    def member_ids(self) -> Sequence[int]:
        return range(self.cluster.config.members)

    def leader(self) -> int | None:
        return self.cluster.leader()

    def acknowledged(self) -> int:
        """How many operations of the load were acknowledged; none where there is no load of the target's own."""
        return 0

    def has_caught_up(self, member_id: int) -> bool:
        """Whether the member leads, or follows the member that does, with its election over."""
        return is_caught_up(self.cluster.status(), member_id)

    def record_fault(self, fault: FaultRecord) -> None:
        self.cluster.run.add_fault(fault)

    def proxy_links(self, seed: int, means: Means = Means.PROXY) -> None:
        """Put proxies into the links, which faults of links need. To be done before the members start."""
        self._links = open_links(self.cluster, seed, means)

    def resolver(self) -> Resolver:
        """How clients on this machine dial the ingress endpoints: through the proxies, if there are any."""
        return self.cluster.resolver() if self._links is None else self._links.resolver()

    def close_links(self) -> None:
        """End the proxies, if there are any."""
        if self._links is not None:
            self._links.close()

    # --- clock ---

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Ends early when a member ended by its own fault."""

        def holds() -> bool:
            try:
                self.cluster.raise_if_ended()
            except EnvironmentFault as error:
                raise UnknownOutcome(str(error)) from error
            return condition()

        wait_until(
            holds,
            timeout_s=timeout_s,
            describe=lambda: f"no {what}: {shown(self.cluster.status())}",
            interval_s=self.cluster.poll_interval_s,
        )

    def let_pass(self, seconds: float) -> None:
        end_ns = self.now_ns() + int(seconds * S)
        self.wait_until(lambda: self.now_ns() >= end_ns, seconds + 60, "time")

    # --- members ---

    def kill(self, member_id: int, component: str | None) -> None:
        self.cluster.member(member_id).end_now(component)

    def stop(self, member_id: int, component: str | None) -> None:
        self.cluster.member(member_id).stop_now(component)

    def start(self, member_id: int) -> None:
        self.cluster.member(member_id).launch()

    def pause(self, member_id: int, component: str | None) -> None:
        self.cluster.member(member_id).freeze(component)

    def resume(self, member_id: int, component: str | None) -> None:
        self.cluster.member(member_id).thaw(component)

    def incarnation(self, member_id: int, component: str | None) -> frozenset[str]:
        return self.cluster.member(member_id).incarnation(component)

    def turns(self, member_id: int, component: str | None) -> int:
        return self.cluster.member(member_id).turns(component)

    # --- orders ---

    def status(self) -> list[MemberStatus]:
        return self.cluster.status()

    def order(self, member_id: int, order: str) -> str:
        return self.cluster.member(member_id).order(order)

    def control_statuses(self) -> Sequence[ControlStatus]:
        return self.cluster.for_all(lambda member: member.control_status())

    def exit_status(self, member_id: int, incarnation: str) -> int | None:
        return self.cluster.member(member_id).exit_status(incarnation)

    def record_control(self, record: ControlRecord) -> None:
        self.cluster.run.add_control(record)

    # --- companions ---

    def companion(self, name: str) -> LiveCompanion:
        return self.cluster.companion(name)

    def add_companion(self, config: CompanionConfig) -> LiveCompanion:
        return self.cluster.add_companion(config)

    # --- links ---

    def impose(self, links: Sequence[Link], effect: LinkEffect) -> None:
        self.links.impose(links, effect)

    def lift(self, links: Sequence[Link], effect: LinkEffect) -> None:
        self.links.lift(links, effect)

    def delivered_by_stream(self, link: Link) -> Mapping[str, int]:
        return self.links.delivered_by_stream(link)

    def ping(self, link: Link, timeout_s: float, extra_length: int = 0) -> Ping:
        return self.links.ping(link, timeout_s, extra_length)


class LiveStage(LiveTarget):
    """Implements `scenario_stage.Stage`. Links get proxies, or filters, when the scenario has faults of links."""

    def __init__(self, scenario: Scenario, runtime: str, seed: int, folder: Path, planted: str | None = None) -> None:
        super().__init__()
        self.run = RunFolder(folder)
        self._plan = scenario.cluster
        self._runtime = runtime
        self._planted = planted
        self._workload = replace(scenario.workload, seed=seed)
        self._seed = seed
        self._means = next((fault.means for fault in scenario.link_faults), None)
        self._load: ProcessLoad | None = None
        self._stack = ExitStack()

    # --- the run ---

    def open(self, say: Callable[[str], None]) -> None:
        plan = self._plan
        if self._means is not None:
            require_link_images(self._runtime, self._means)
        cluster = create_cluster(
            self._runtime,
            self.run.path,
            members=plan.members,
            components=plan.components,
            sync_level=plan.sync_level,
            service=plan.service,
            planted=self._planted,
        )
        self._cluster = cluster
        self._stack.callback(cluster.close)
        if cluster.note:
            say(f"containers: {cluster.note}")
        manifest = replace(self.run.read_manifest(), seed=self._seed, workload=self._workload.to_json())
        self.run.write_manifest(manifest)
        if self._means is not None:
            self.proxy_links(self._seed, self._means)
            self._stack.callback(self.close_links)
        self._stack.callback(cluster.down)
        cluster.up()
        history = self._stack.enter_context(self.run.history_writer())
        load = ProcessLoad(
            cluster.ingress_endpoints(),
            history,
            self._workload,
            resolver=self.resolver(),
            tls=cluster.client_tls(),
        )
        self._load = self._stack.enter_context(load)

    def acknowledged(self) -> int:
        return self._required_load().counts.ok

    def end_load(self) -> LoadCounts:
        return self._required_load().finish()

    def converge(self) -> Converge:
        return self.cluster.converge()

    def close(self) -> None:
        self._stack.close()

    def digest(self) -> None:
        """Real executions do not repeat."""

    def _required_load(self) -> ProcessLoad:
        if self._load is None:
            raise UsageError("the load has not begun")
        return self._load
