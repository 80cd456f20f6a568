"""Runs a command in a container that runs, and gets what it printed, although the engine may lose that.

The engine loses the output of a short command now and then: nothing has come, and yet the command succeeded. A caller
whose command always prints something runs it again. This module knows no members.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.runtimes.docker.engine import engine_errors
from upheaval_chaos.programs import printed

ATTEMPTS: Final = 3


class ContainerEnded(UnknownOutcome):
    """The container has ended or been paused, so nothing can be run in it."""


def run_inside(
    container: Any, command: Sequence[str], doing: str, *, attempts: int = ATTEMPTS, stderr: bool = True
) -> tuple[int, str]:
    """Exit status and output of a command that prints something when it succeeds.

    `attempts` 1 is for what must not be done twice. Raises `ContainerEnded`, `UnknownOutcome` when the output got
    lost each time, and `EnvironmentFault` when the engine cannot be used.
    """
    for _ in range(attempts):
        status, text = run_silent(container, command, doing, stderr=stderr)
        if status or text:
            return status, text
    raise UnknownOutcome(f"{doing}: what was said got lost in the engine")


def run_silent(container: Any, command: Sequence[str], doing: str, *, stderr: bool = True) -> tuple[int, str]:
    """The same, once, for a command that prints nothing when it succeeds."""
    if container is None or container.status != "running":
        raise ContainerEnded(f"{doing}: it does not run")
    with ended_errors(doing):
        status, output = container.exec_run(list(command), stderr=stderr)
    return status or 0, printed(output or b"").strip()


@contextlib.contextmanager
def ended_errors(doing: str) -> Iterator[None]:
    """What the engine refuses because the container has ended or been paused since it was looked at becomes
    `ContainerEnded`, anything else `EnvironmentFault`.
    """
    import docker

    try:
        with engine_errors(doing):
            yield
    except EnvironmentFault as fault:
        if isinstance(fault.__cause__, docker.errors.APIError):
            raise ContainerEnded(str(fault)) from fault
        raise
