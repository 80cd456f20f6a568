"""Runs a command in a running container and returns its output, although the engine may lose that.

The engine sometimes loses the output of a short command: it is empty although the command succeeded. If a command
always prints something, the caller retries it. This module knows no members.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.runtimes.docker.engine import engine_errors
from upheaval_chaos.programs import printed

ATTEMPTS: Final = 3
CLOCK_TOLERANCE_S: Final = 0.1
"""Several times the resolution of `/proc/uptime`."""


BOOT: Final = ("/proc/sys/kernel/random/boot_id", "/proc/self/timens_offsets")


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


def require_shared_clock(container: Any, who: str) -> None:
    """Raises `EnvironmentFault` when the container runs on another kernel than this process, as with an engine on
    another machine or in a virtual one: what the harness and the members record could not be compared in time.

    Either of two signs suffices: the time since the boot, which some engines show as the container's own, or the boot
    id, which some containers replace. A clock that cannot be read now is not compared.
    """
    before_s = _since_boot_s()
    try:
        _, text = run_inside(container, ("cat", "/proc/uptime"), f"asking {who} for its clock", stderr=False)
        inside_s = float(text.split()[0])
    except (UnknownOutcome, LookupError, ValueError):
        return
    after_s = _since_boot_s()
    is_near = before_s - CLOCK_TOLERANCE_S <= inside_s <= after_s + CLOCK_TOLERANCE_S
    if not is_near and not _has_our_boot(container, who):
        raise EnvironmentFault(
            f"the Docker engine runs containers on another kernel, whose clock differs by {inside_s - after_s:.1f} s: "
            "their times cannot be compared with those of this machine; run upheaval on the engine's machine"
        )


def _has_our_boot(container: Any, who: str) -> bool:
    """Whether the container shows the boot of this machine, and the shift that time name spaces give its clocks."""
    with contextlib.suppress(OSError, UnknownOutcome):
        boot = "".join(Path(name).read_text(encoding="ascii") for name in BOOT)
        return run_inside(container, ("cat", *BOOT), f"asking {who} for its boot", stderr=False) == (0, boot.strip())
    return False


def _since_boot_s() -> float:
    """The clock that `/proc/uptime` shows, on Linux; elsewhere no container has the clock of this machine."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


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
