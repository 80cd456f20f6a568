"""The state of a container as the engine reports it: whether it runs, which incarnation it is, and how it ended."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

from upheaval.errors import EnvironmentFault
from upheaval.runtimes.docker.engine import engine_errors
from upheaval_chaos.programs import printed

KILLED: Final = 128 + signal.SIGKILL
"""The exit status of a container whose first process was killed."""
# Ended by the harness: asked to end, or killed.
_OUR_DOING: Final = (0, KILLED, 128 + signal.SIGTERM)


def incarnation_of(container: Any) -> str:
    """A name for the container's current incarnation, never used again."""
    return f"container {container.short_id} of {container.attrs['State']['StartedAt']}"


def is_running(container: Any) -> bool:
    """Whether the container runs, paused or not."""
    return bool(container.attrs["State"]["Running"])


def own_fault(state: Mapping[str, Any], expected: Sequence[int]) -> str:
    """How a container in this state ended by its own fault; empty when it did not."""
    if state["Status"] != "exited":
        return ""
    if state.get("OOMKilled"):
        return "was ended by the kernel: out of memory"
    status = state["ExitCode"]
    return "" if status in (*_OUR_DOING, *expected) else f"ended with status {status}"


def raise_own_fault(container: Any, who: str, expected: Sequence[int]) -> None:
    """Raises `EnvironmentFault` with the last output of a container that ended by its own fault."""
    fault = own_fault(container.attrs["State"], expected)
    if not fault:
        return
    raise EnvironmentFault(f"{who} {fault}: {last_line(container, who)}")


def last_line(container: Any, who: str) -> str:
    """The last line that the container printed."""
    with engine_errors(f"reading the output of {who}"):
        lines = printed(container.logs(tail=5)).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
