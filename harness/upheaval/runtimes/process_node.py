"""The processes of one node of a run on this machine, found by their environment."""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.runtimes.node import STOP_TIMEOUT_S, wait_until_whole_or_gone
from upheaval.system.process_table import (
    FoundProcess,
    context_switches,
    is_stopped,
    processes_of,
    send_signal,
    wait_until_gone,
)
from upheaval.waits import POLL_INTERVAL_S, wait_until

SIGNAL_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ProcessNode:
    """Implements `node.Node`. It has one process per entry of `components`; `spawn` starts the process of a
    component.
    """

    name: str
    run_id: str
    member_id: int
    """-1 for a companion."""
    components: Sequence[str]
    spawn: Callable[[str], None]

    def processes(self, component: str | None = None) -> list[FoundProcess]:
        """The live processes of this node, or of one component."""
        wanted = self.components if component is None else (component,)
        processes = [process for process in processes_of(self.run_id) if process.member_id == self.member_id]
        return [process for process in processes if process.component in wanted]

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        """The current incarnations, one name per process."""
        return frozenset(map(_name_of, self.processes(component)))

    def parts(self, component: str | None = None) -> Mapping[str, frozenset[str]]:
        """By component, one name per process: its own and those that it started."""
        parts: dict[str, frozenset[str]] = {}
        for process in self.processes(component):
            parts[process.component] = parts.get(process.component, frozenset()) | {_name_of(process)}
        return parts

    def turns(self, component: str | None = None) -> Mapping[str, int]:
        """The number of context switches of each process so far."""
        return {_name_of(process): context_switches(process.pid) for process in self.processes(component)}

    def start(self) -> None:
        """Start the components that are not running. A member that lost a component may end first."""
        wait_until_whole_or_gone(self.name, len(self.components), lambda: len(self.parts()), POLL_INTERVAL_S)
        running = self.parts()
        for component in self.components:
            if component not in running:
                self.spawn(component)

    def kill(self, component: str | None = None) -> None:
        """Send SIGKILL and wait for the end."""
        victims = self.processes(component)
        send_signal(victims, signal.SIGKILL)
        wait_until_gone(victims, self.run_id)

    def stop(self, component: str | None = None, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send SIGTERM and wait for the end."""
        processes = self.processes(component)
        send_signal(processes, signal.SIGTERM)
        # A stopped process handles SIGTERM only after it is resumed.
        send_signal(processes, signal.SIGCONT)
        wait_until_gone(processes, self.run_id, timeout_s)

    def pause(self, component: str | None = None) -> None:
        """Send SIGSTOP and wait until the processes are stopped."""
        self._signal_and_wait(component, signal.SIGSTOP, is_stopped_then=True)

    def resume(self, component: str | None = None) -> None:
        """Send SIGCONT and wait until the processes are resumed."""
        self._signal_and_wait(component, signal.SIGCONT, is_stopped_then=False)

    def reload(self) -> None:
        """Send SIGHUP."""
        send_signal(self.processes(), signal.SIGHUP)

    def _signal_and_wait(self, component: str | None, number: signal.Signals, *, is_stopped_then: bool) -> None:
        processes = self.processes(component)
        send_signal(processes, number)
        wait_until(
            lambda: all(is_stopped(process.pid) in (is_stopped_then, None) for process in processes),
            timeout_s=SIGNAL_TIMEOUT_S,
            describe=lambda: f"{self.name} does not {'stop' if is_stopped_then else 'go on'} by a signal",
        )


def _name_of(process: FoundProcess) -> str:
    return f"process {process.pid}"
