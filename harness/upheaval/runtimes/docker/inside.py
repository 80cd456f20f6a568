"""Runs a command in a running container and returns its output, although the engine may lose that.

The engine sometimes loses the output of a short command: it is empty although the command succeeded. If a command
always prints something, the caller retries it. This module knows no members.
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
    """The exit status and output of a command that prints something when it succeeds.

    Pass `attempts=1` for a command that is not idempotent. Raises `ContainerEnded`, `UnknownOutcome` when the output
    was lost on each attempt, and `EnvironmentFault` when the engine cannot be used.
    """
    for _ in range(attempts):
        status, text = run_silent(container, command, doing, stderr=stderr)
        if status or text:
            return status, text
    raise UnknownOutcome(f"{doing}: its output got lost in the engine")


def run_silent(container: Any, command: Sequence[str], doing: str, *, stderr: bool = True) -> tuple[int, str]:
    """The exit status and output of a command that may print nothing when it succeeds. Runs it once."""
    if container is None or container.status != "running":
        raise ContainerEnded(f"{doing}: it does not run")
    with ended_errors(doing):
        status, output = container.exec_run(list(command), stderr=stderr)
    return status or 0, printed(output or b"").strip()


@contextlib.contextmanager
def ended_errors(doing: str) -> Iterator[None]:
    """Raise `ContainerEnded` when the engine refuses an action, because the container has ended or been paused
    meanwhile. Any other error becomes `EnvironmentFault`.
    """
    import docker

    try:
        with engine_errors(doing):
            yield
    except EnvironmentFault as fault:
        if isinstance(fault.__cause__, docker.errors.APIError):
            raise ContainerEnded(str(fault)) from fault
        raise
