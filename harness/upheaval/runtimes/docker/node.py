"""The containers of one node of a run, found by name in the engine."""

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from upheaval.runtimes.docker.container_state import incarnation_of, is_running, raise_own_fault
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.docker.inside import ATTEMPTS, run_inside
from upheaval.runtimes.node import STOP_TIMEOUT_S, wait_until_whole_or_gone
from upheaval.system.process_table import KILL_TIMEOUT_S

POLL_INTERVAL_S: Final = 0.05
"""The time between two looks at a container, in seconds: each look is a request to the engine."""
_PAUSE_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class DockerNode:
    """Implements `node.Node`. `make` creates and starts the container of a component. `bring_copies` copies the current
    certificates and credentials file into a container.
    """

    name: str
    client: Client
    containers: Mapping[str, str]
    """The name of each component's container; the first one holds the sockets."""
    make: Callable[[str], None]
    bring_copies: Callable[[Any], None]

    def container(self, component: str | None = None) -> Any | None:
        """The container of a component, running or not; by default the container that holds the node's sockets. None if
        it does not exist.
        """
        import docker

        with engine_errors(f"looking for {self.name}"):
            try:
                return self.client.containers.get(self.containers[component or next(iter(self.containers))])
            except docker.errors.NotFound:
                return None

    def there(self, component: str | None = None) -> list[Any]:
        """The existing containers, running or not."""
        wanted = self.containers if component is None else (component,)
        return [container for component in wanted if (container := self.container(component)) is not None]

    def running(self, component: str | None = None) -> list[Any]:
        """The running containers, paused or not."""
        return [container for container in self.there(component) if is_running(container)]

    # --- observer ---

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        """The current incarnations, one name per running container."""
        return frozenset(incarnation_of(container) for container in self.running(component))

    def parts(self, component: str | None = None) -> Mapping[str, frozenset[str]]:
        """By component, the name of its running container."""
        wanted = self.containers if component is None else (component,)
        return {part: names for part in wanted if (names := self.incarnation(part))}

    def turns(self, component: str | None = None) -> Mapping[str, int]:
        """The processor time that each container has used so far, in nanoseconds."""
        containers = self.running(component)
        with engine_errors(f"measuring {self.name}"):
            usages = [self.client.api.stats(container.id, stream=False, one_shot=True) for container in containers]
        return {
            incarnation_of(container): usage["cpu_stats"]["cpu_usage"]["total_usage"]
            for container, usage in zip(containers, usages, strict=True)
        }

    def exit_status(self, incarnation: str) -> int | None:
        """The exit status of an incarnation; None while it runs, or when the status is unknown."""
        for container in self.there():
            if incarnation_of(container) == incarnation:
                state = container.attrs["State"]
                return int(state["ExitCode"]) if state["Status"] == "exited" else None
        return None

    def run_inside(self, command: Sequence[str], *, attempts: int = ATTEMPTS, stderr: bool = True) -> tuple[int, str]:
        """The exit status and output of a command in the container that holds the node's sockets; see `inside`."""
        return run_inside(self.container(), command, f"asking {self.name}", attempts=attempts, stderr=stderr)

    def raise_if_ended(self, expected: Sequence[int] = ()) -> None:
        """Raises `EnvironmentFault` when a container ended by its own fault, with a status that is not expected."""
        for container in self.there():
            raise_own_fault(container, self.name, expected)

    # --- injector ---

    def start(self) -> None:
        """Start each container, creating those that do not exist. A member that lost a component may end first."""
        wait_until_whole_or_gone(self.name, len(self.containers), lambda: len(self.running()), POLL_INTERVAL_S)
        for component in self.containers:
            container = self.container(component)
            if container is None:
                self.make(component)
            elif not is_running(container):
                self.bring_copies(container)
                with engine_errors(f"starting {self.name}"):
                    container.start()

    def kill(self, component: str | None = None) -> None:
        """Send SIGKILL and wait for the end."""
        self._kill_and_wait(self.running(component))

    def kill_all_but(self, incarnations: frozenset[str]) -> None:
        """Send SIGKILL to all running incarnations except these, and wait for their end."""
        self._kill_and_wait(
            [container for container in self.running() if incarnation_of(container) not in incarnations]
        )

    def stop(self, component: str | None = None, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send SIGTERM, then SIGKILL after the time-out."""
        import docker

        self.resume(component)
        with engine_errors(f"stopping {self.name}"):
            running = self.running(component)
            # Signal all of them first: a component that waits for another one to end must not wait in vain.
            for container in running:
                with contextlib.suppress(docker.errors.APIError):
                    container.kill(signal=signal.SIGTERM.name)
            for container in running:
                container.stop(timeout=round(timeout_s))

    def pause(self, component: str | None = None) -> None:
        """Freeze the containers' processes by the engine's pause."""
        with engine_errors(f"pausing {self.name}"):
            for container in self.running(component):
                _pause(container)

    def resume(self, component: str | None = None) -> None:
        """Resume the containers that are paused."""
        with engine_errors(f"resuming {self.name}"):
            for container in self.running(component):
                if container.status == "paused":
                    container.unpause()

    def reload(self) -> None:
        """Replace the copies of certificates and credentials file, then send SIGHUP."""
        if self.running():
            self.bring_copies(self.container())
        # The container's init passes the signal on to its processes.
        with engine_errors(f"signalling {self.name}"):
            for container in self.running():
                container.kill(signal=signal.SIGHUP.name)

    def _kill_and_wait(self, victims: Sequence[Any]) -> None:
        with engine_errors(f"killing {self.name}"):
            for container in victims:
                with _ended_is_fine():
                    container.kill(signal=signal.SIGKILL.name)
            for container in victims:
                container.wait(timeout=KILL_TIMEOUT_S)


@contextlib.contextmanager
def _ended_is_fine() -> Iterator[None]:
    """Ignore that a container does not run any more: when a component of a member ends, the others follow it."""
    import docker

    try:
        yield
    except docker.errors.APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:
            raise


def _pause(container: Any) -> None:
    """Freeze a container. The engine sometimes fails to while processes start or end in it, such as a command from
    outside.
    """
    import docker

    for attempt in range(_PAUSE_ATTEMPTS):
        if container.status == "paused":
            return
        try:
            container.pause()
        except docker.errors.APIError as error:
            if "runtime pause failed" not in str(error) or attempt == _PAUSE_ATTEMPTS - 1:
                raise
            container.reload()
        else:
            return
