"""A host of a simulation: its disk, and its process while it has one.

It runs the node's own agents. This module knows neither members nor companions: the subclass says what is built.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from upheaval.errors import UsageError
from upheaval.runtimes.simulated.disk import Disk
from upheaval.runtimes.simulated.network import Fabric
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.trace import ErrorLog, Journal, SimulatedTracer
from upheaval.runtimes.simulated.world import World
from upheaval_node.counters import Counters
from upheaval_node.errors import TerminationError
from upheaval_node.files import layout
from upheaval_node.member import MemberPorts
from upheaval_node.ports import Agent
from upheaval_node.protocol_trace import Observer
from upheaval_node.types import Now, S

COUNTER_CAPACITY: Final = 1024
STOP_TIMEOUT_S: Final = 5.0


class Machine(ABC):
    """The common part of members and companions. The journal uses `number` and `component` as its name."""

    def __init__(self, world: World, fabric: Fabric, journal: Journal, host: str, number: int, component: str) -> None:
        self._world = world
        self._fabric = fabric
        self._journal = journal
        self._number = number
        self._component = component
        self.host = host
        self.disk = Disk(world, host)
        self.process: SimulatedProcess | None = None
        self.counters = Counters.in_memory(COUNTER_CAPACITY)
        self.incarnations = 0
        self.has_power = True
        self.errors: list[ErrorLog] = []

    @property
    def alive(self) -> bool:
        """Whether it has a live process, paused or not."""
        return self.process is not None and self.process.alive

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        """The name of its process, never used again; empty when the process is dead."""
        process = self._whole(component)
        return frozenset() if process is None or not process.alive else frozenset([process.name])

    def parts(self, component: str | None = None) -> Mapping[str, frozenset[str]]:
        """All components together, as one part."""
        names = self.incarnation(component)
        return {"": names} if names else {}

    def start(self) -> None:
        """Start a new incarnation on the existing files. Does nothing when it is alive."""
        if self.alive:
            return
        if not self.has_power:
            self.has_power = True
            self._fabric.power_on(self.host)
        self.incarnations += 1
        name = f"{self.host}/{self.incarnations}"
        self.process = process = SimulatedProcess(self._world, self.host, name, on_exit=self._on_exit)
        self.counters = Counters.in_memory(COUNTER_CAPACITY)
        self._prepare(process)
        process.run(lambda: self._build(process))

    def kill(self, component: str | None = None) -> None:
        """End the process as SIGKILL does. Its host keeps its power."""
        self._whole(component)
        self.end(power_cut=False)

    def stop(self, component: str | None = None, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End in an orderly way. A paused process is killed."""
        process = self._whole(component)
        if process is None or not process.alive:
            return
        process.post(lambda: self._close(process))
        if not self._world.run_until(lambda: not process.alive, int(timeout_s * S)):
            self.end(power_cut=False)

    def end(self, *, power_cut: bool) -> None:
        """Kill the process, and optionally cut the host's power, which may lose data that was not synced."""
        process = self.process
        if process is not None and process.alive:
            process.kill()
            if not power_cut:
                self._fabric.kill(process)
        if power_cut and self.has_power:
            self.has_power = False
            self._fabric.power_off(self.host)
            self.disk.power_cut()

    def replace_disk(self) -> None:
        """Give the host, which runs no process of it, an empty disk."""
        self.disk = Disk(self._world, f"{self.host}/{self.incarnations}")

    def tracer(self) -> SimulatedTracer:
        """The tracer of the current incarnation, or of the last one."""
        return SimulatedTracer(
            self._journal, member_id=self._number, component=self._component, incarnation=self.incarnations
        )

    def ports(self, process: SimulatedProcess, observer: Observer | None = None) -> MemberPorts:
        """The ports for one of its processes."""
        tracer = self.tracer()
        errors = ErrorLog(tracer)
        seed = self._world.stream(f"seed/{process.name}").getrandbits(62)
        self.errors.append(errors)
        return MemberPorts(
            network=self._fabric.network(process),
            storage=self.disk.storage(process),
            counters=self.counters,
            tracer=tracer,
            errors=errors,
            random=lambda component: self._world.adopt(f"{process.name}/{component}", Random(f"{seed}/{component}")),
            pid=self.incarnations,
            now_ms=process.now().epoch_ms,
            observer=observer,
        )

    def recording_log(self) -> bytes:
        """The content of the recording log; empty when the file does not exist."""
        return self.disk.read(layout.RECORDING_LOG) if self.disk.has(layout.RECORDING_LOG) else b""

    def _whole(self, component: str | None) -> SimulatedProcess | None:
        if component is not None:
            raise UsageError(f"{self.host} runs its components together")
        return self.process

    def _close(self, process: SimulatedProcess) -> None:
        self._close_agents(process.now())
        raise TerminationError(f"{process.name} was ordered to stop", expected=True)

    @abstractmethod
    def _prepare(self, process: SimulatedProcess) -> None:
        """Called before a process begins."""

    @abstractmethod
    def _build(self, process: SimulatedProcess) -> Sequence[Agent]:
        """Create the agents of a process, in its loop."""

    @abstractmethod
    def _close_agents(self, now: Now) -> None:
        """Close the agents in an orderly way."""

    @abstractmethod
    def _on_exit(self, process: SimulatedProcess) -> None:
        """Called when a process has ended on its own."""
