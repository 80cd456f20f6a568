"""Processor and memory of members in containers: the engine limits them, the kernel counts in their control groups.

A limit stays with a container that ends and starts again. Where this process does not see the groups, as in a container
of its own, the engine reads them. The group of a container ends with it; that the kernel ended a process in it remains
in what the engine heard from the kernel (`OOMKilled`).
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.runtime_names import DOCKER
from upheaval.runtimes.control_groups import (
    SWAP_BYTES,
    Controller,
    Counts,
    MemoryCounts,
    counts_in,
    hierarchy,
    memory_in,
    stated_limit,
    too_low,
)
from upheaval.runtimes.docker.container_state import KILLED, incarnation_of, is_running
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.docker.node import DockerNode
from upheaval.runtimes.whole_hosts import WholeHosts
from upheaval_chaos.host_faults import IN_CONTAINERS, MIB, HostFaultKind
from upheaval_chaos.target import LIMIT_PERIOD_NS, MemoryWork, ProcessorWork

_PERIOD_US: Final = LIMIT_PERIOD_NS // 1000
_UNLIMITED: Final = -1
_UNLIMITED_BYTES: Final = 1 << 61
"""A limit of memory that means none. Engines take no number for none."""
_TOO_LOW: Final = "unable to set memory limit"
"""In the error of the engine's runtime for a limit that the kernel refuses because the container uses more."""
_LIMITING: Final[Mapping[HostFaultKind, tuple[str, str]]] = {
    HostFaultKind.CPU_LIMIT: ("CpuCfsQuota", "processor"),
    HostFaultKind.MEMORY_LIMIT: ("MemoryLimit", "memory"),
}
"""What an engine has in its `info` when it can do a fault, and to what."""


class DockerMachines(WholeHosts):
    """Implements `upheaval.runtimes.live.Machines`."""

    runtime = DOCKER
    kinds = IN_CONTAINERS

    def __init__(self, client: Client, nodes: Sequence[DockerNode], limited: set[int]) -> None:
        self._client = client
        self._nodes = nodes
        self._limited = limited
        self._met: dict[int, dict[str, int]] = defaultdict(dict)
        """How often containers met a limit of memory, by member id and incarnation."""
        self._ended: dict[int, dict[str, int]] = defaultdict(dict)
        """How many of their processes the kernel ended for want of memory, likewise."""

    def close(self) -> None:
        """Does nothing: a limit goes with its container."""

    def limit_processor(self, member_id: int, percent: int) -> None:
        """Limit each of its containers."""
        node = self._nodes[member_id]
        quota_us = _PERIOD_US * percent // 100 or _UNLIMITED
        with engine_errors(f"limiting {node.name}"):
            for container in node.there():
                container.update(cpu_period=_PERIOD_US, cpu_quota=quota_us)

    def limit_memory(self, member_id: int, megabytes: int) -> None:
        """Limit each of its containers, which may end because of that."""
        node, size = self._nodes[member_id], megabytes * MIB or _UNLIMITED_BYTES
        if megabytes:
            self._limited.add(member_id)
        for container in node.there():
            try:
                with engine_errors(f"limiting {node.name}"):
                    container.update(mem_limit=size, memswap_limit=size + (SWAP_BYTES if megabytes else size))
            except EnvironmentFault as fault:
                counts = _memory_of(self._client, container, node.name)
                if _TOO_LOW not in str(fault) or counts is None:
                    raise
                raise too_low(member_id, megabytes, counts.used) from None

    def expect_no_end(self, member_id: int) -> None:
        """An end is an error of the run again."""
        self._limited.discard(member_id)

    def note_end(self, member_id: int, container: Any) -> None:
        """Count the end of a container for want of memory. Before each start: engines from version 24 on then forget
        it. While a container runs, what they heard may be about a program that they ran in it.
        """
        state, name, ended = container.attrs["State"], incarnation_of(container), self._ended[member_id]
        if not is_running(container) and state.get("OOMKilled") and state["ExitCode"] == KILLED:
            ended[name] = max(1, ended.get(name, 0))

    def processor_work(self, member_id: int) -> list[ProcessorWork]:
        """Of each of its containers; none of those that do not run."""
        return [self._work_of(member_id, component) for component in self._nodes[member_id].containers]

    def memory_work(self, member_id: int) -> MemoryWork:
        """Of its containers, all together."""
        node, met, ended = self._nodes[member_id], self._met[member_id], self._ended[member_id]
        limits = set()
        for container in node.there():
            self.note_end(member_id, container)
            counts = _memory_of(self._client, container, node.name) if is_running(container) else None
            if counts is not None:
                limits.add(counts.limit)
                name = incarnation_of(container)
                met[name], ended[name] = counts.met, max(counts.ended, ended.get(name, 0))
        return MemoryWork(frozenset(limits), sum(met.values()), sum(ended.values()))

    def _work_of(self, member_id: int, component: str) -> ProcessorWork:
        node = self._nodes[member_id]
        for container in node.running(component):
            counts = _counts_here(container) or _counts_by_engine(self._client, container, node.name)
            return ProcessorWork(sum(node.turns(component).values()), counts.periods, counts.held_back)
        return ProcessorWork(0, 0, 0)


def require_limits(client: Client, kinds: Collection[HostFaultKind]) -> None:
    """Raises `EnvironmentFault` when the engine cannot limit what faults of these kinds limit."""
    with engine_errors("asking the engine what it limits"):
        info = client.info()
    for kind in kinds:
        name, what = _LIMITING[kind]
        if not info.get(name):
            raise EnvironmentFault(f"{kind}: this Docker engine cannot limit the {what} of containers ({name})")


def _group_of(container: Any, controller: Controller) -> Path | None:
    """The group of the container's first process, if it is named after the container."""
    try:
        group = hierarchy(controller).group_of(container.attrs["State"]["Pid"])
    except EnvironmentFault:
        return None
    return group if group is not None and container.id in str(group) else None


def _counts_here(container: Any) -> Counts | None:
    group = _group_of(container, Controller.CPU)
    return None if group is None else counts_in(group)


def _memory_here(container: Any) -> MemoryCounts | None:
    group = _group_of(container, Controller.MEMORY)
    return None if group is None else memory_in(group)


def _counts_by_engine(client: Client, container: Any, name: str) -> Counts:
    counted = _stats(client, container, name)["cpu_stats"].get("throttling_data") or {}
    return Counts(counted.get("periods", 0), counted.get("throttled_periods", 0))


def _memory_by_engine(client: Client, container: Any, name: str) -> MemoryCounts | None:
    stated = _stats(client, container, name)["memory_stats"]
    if "limit" not in stated:
        return None
    with engine_errors("asking the engine for its memory"):
        # Engines name that of their machine when there is no limit.
        is_limited = stated["limit"] < client.info()["MemTotal"]
    limit = stated_limit(stated["limit"]) if is_limited else None
    return MemoryCounts(limit, stated["usage"], stated.get("failcnt", 0), ended=0)


def _memory_of(client: Client, container: Any, name: str) -> MemoryCounts | None:
    """None when the container has ended."""
    return _memory_here(container) or _memory_by_engine(client, container, name)


def _stats(client: Client, container: Any, name: str) -> Any:
    with engine_errors(f"measuring {name}"):
        return client.api.stats(container.id, stream=False, one_shot=True)
