"""Separate machines for the members of a live cluster, as far as its runtime supports them."""

from collections.abc import Collection, Iterable

from upheaval.errors import UsageError
from upheaval.runtime_names import DOCKER, PROCESS
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_machines import ProcessMachines, require_latency, require_process_machines
from upheaval.system import SystemUnderTest
from upheaval.system.under_test import require_jump
from upheaval_chaos.host_faults import ON_PROCESSES, HostFault, HostFaultKind
from upheaval_node.suggestions import did_you_mean

__all__ = ["machine_kinds", "open_machines", "require_amounts", "require_machines"]


def machine_kinds(names: Collection[str]) -> list[HostFaultKind]:
    """The kinds of machine faults with these names. Raises `UsageError` for a name that members in processes do not
    support.
    """
    unknown = [name for name in names if name not in ON_PROCESSES]
    if unknown:
        hint = did_you_mean(unknown[0], ON_PROCESSES)
        raise UsageError(f"machines {unknown[0]!r}: use {', '.join(ON_PROCESSES)}{hint}")
    return [HostFaultKind(name) for name in names]


def require_machines(runtime: str, kinds: Collection[HostFaultKind], sync_level: int) -> None:
    """Raises `UsageError` when members at this sync level show nothing of a fault of these kinds, and
    `EnvironmentFault` when this machine, or its engine, cannot support one.
    """
    if runtime == PROCESS:
        require_process_machines(kinds, sync_level)
    elif runtime == DOCKER and kinds:
        from upheaval.runtimes.docker.engine import connected
        from upheaval.runtimes.docker.machines import require_limits

        with connected() as client:
            require_limits(client, kinds)


def require_amounts(system: SystemUnderTest, faults: Iterable[HostFault]) -> None:
    """Raises `UsageError` for an amount that members of the system do not survive, or that cannot be observed."""
    for fault in faults:
        if fault.kind is HostFaultKind.CLOCK_JUMP:
            require_jump(system, fault.amount)
        if fault.kind is HostFaultKind.DISK_SLOW:
            require_latency(fault.amount)


def open_machines(cluster: AnyCluster, kinds: Collection[HostFaultKind]) -> None:
    """Give the members what faults of these kinds need. Call it before proxies are created and members start."""
    if not kinds:
        return
    for kind in kinds:
        if kind not in cluster.machine_kinds:
            raise UsageError(f"{kind} is not available on the {cluster.runtime} runtime: use --runtime simulated")
    # Containers can be limited at any time.
    if isinstance(cluster, ProcessCluster):
        cluster.use_machines(ProcessMachines(cluster, kinds))
