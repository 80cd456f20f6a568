"""The processors of members in containers: the engine limits them, the kernel counts in their control groups.

A limit stays with a container that ends and starts again. Where this process does not see the groups, as in a container
of its own, the engine reads them.
"""

from collections.abc import Sequence
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.runtime_names import DOCKER
from upheaval.runtimes.control_groups import Counts, counts_in, hierarchy
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.docker.node import DockerNode
from upheaval.runtimes.whole_hosts import WholeHosts
from upheaval_chaos.host_faults import IN_CONTAINERS
from upheaval_chaos.target import LIMIT_PERIOD_NS, ProcessorWork

_PERIOD_US: Final = LIMIT_PERIOD_NS // 1000
_UNLIMITED: Final = -1


class DockerMachines(WholeHosts):
    """Implements `upheaval.runtimes.live.Machines`."""

    runtime = DOCKER
    kinds = IN_CONTAINERS

    def __init__(self, client: Client, nodes: Sequence[DockerNode]) -> None:
        self._client = client
        self._nodes = nodes

    def close(self) -> None:
        """Does nothing: a limit goes with its container."""

    def limit_processor(self, member_id: int, percent: int) -> None:
        """Limit each of its containers."""
        node = self._nodes[member_id]
        quota_us = _PERIOD_US * percent // 100 or _UNLIMITED
        with engine_errors(f"limiting {node.name}"):
            for container in node.there():
                container.update(cpu_period=_PERIOD_US, cpu_quota=quota_us)

    def processor_work(self, member_id: int) -> list[ProcessorWork]:
        """Of each of its containers; none of those that do not run."""
        return [self._work_of(member_id, component) for component in self._nodes[member_id].containers]

    def _work_of(self, member_id: int, component: str) -> ProcessorWork:
        node = self._nodes[member_id]
        for container in node.running(component):
            counts = _counts_here(container) or _counts_by_engine(self._client, container, node.name)
            return ProcessorWork(sum(node.turns(component).values()), counts.periods, counts.held_back)
        return ProcessorWork(0, 0, 0)


def require_limits(client: Client) -> None:
    """Raises `EnvironmentFault` when the engine cannot limit the processor of containers."""
    with engine_errors("asking the engine what it limits"):
        can_limit = client.info().get("CpuCfsQuota")
    if not can_limit:
        raise EnvironmentFault("cpu-limit: this Docker engine cannot limit the processor of containers (CpuCfsQuota)")


def _counts_here(container: Any) -> Counts | None:
    """By the group of the container's first process, if it is named after the container."""
    try:
        group = hierarchy().group_of(container.attrs["State"]["Pid"])
    except EnvironmentFault:
        return None
    return counts_in(group) if group is not None and container.id in str(group) else None


def _counts_by_engine(client: Client, container: Any, name: str) -> Counts:
    with engine_errors(f"measuring {name}"):
        counted = client.api.stats(container.id, stream=False, one_shot=True)["cpu_stats"].get("throttling_data") or {}
    return Counts(counted.get("periods", 0), counted.get("throttled_periods", 0))
