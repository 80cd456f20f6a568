"""Control groups of the kernel that limit the processor, version 1 and 2: those of members in processes, and what is
counted in any of them.

The name of a group that this module makes has its owner, so that a later harness can remove it after that was killed.
"""

import contextlib
import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.runtimes.owner import Owner
from upheaval.waits import wait_until
from upheaval_chaos.host_faults import HIGHEST_LIMIT
from upheaval_chaos.programs import run_program
from upheaval_chaos.target import LIMIT_PERIOD_NS

_MOUNTS: Final = Path("/proc/self/mounts")
_PROC: Final = Path("/proc")
_CONTROLLER: Final = "cpu"
_PROCESSES: Final = "cgroup.procs"
_PREFIX: Final = "upheaval-"
_PERIOD_US: Final = LIMIT_PERIOD_NS // 1000
_TRIED_S: Final = 30.0
_REMOVAL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Counts:
    """The periods of a limit that the kernel has counted in a group, and those in which it held the group back."""

    periods: int
    held_back: int


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where the groups of the processor's controller are mounted."""

    root: Path
    is_unified: bool
    """Version 2, where one hierarchy has all controllers."""

    def group_of(self, pid: int) -> Path | None:
        """The group of a process; None when the process is gone, or in another name space."""
        try:
            lines = (_PROC / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return None
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if (not controllers) if self.is_unified else (_CONTROLLER in controllers.split(",")):
                return None if ".." in path else self.root / path.lstrip("/")
        return None

    def parents(self) -> list[Path]:
        """The groups in which this process may be allowed to make one, the nearest first: in those further away fewer
        limits on this process hold.
        """
        own = self.group_of(os.getpid()) or self.root
        return [folder for folder in (own, *own.parents) if folder.is_relative_to(self.root)]

    def set_limit(self, group: Path, percent: int) -> None:
        """Limit a group to this share of one processor core; 0 ends that."""
        quota_us = _PERIOD_US * percent // 100
        if self.is_unified:
            (group / "cpu.max").write_text(f"{quota_us or 'max'} {_PERIOD_US}\n")
        else:
            (group / "cpu.cfs_period_us").write_text(f"{_PERIOD_US}\n")
            (group / "cpu.cfs_quota_us").write_text(f"{quota_us or -1}\n")


def hierarchy() -> Hierarchy:
    """Raises `EnvironmentFault` when this machine limits no processor by groups."""
    unified = None
    for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        _, folder, kind, options, *_ = line.split(" ")
        if kind == "cgroup" and _CONTROLLER in options.split(","):
            return Hierarchy(Path(folder), is_unified=False)
        if kind == "cgroup2" and _CONTROLLER in _words(Path(folder) / "cgroup.controllers"):
            unified = Hierarchy(Path(folder), is_unified=True)
    if unified is None:
        raise EnvironmentFault("no control groups with the controller cpu are mounted")
    return unified


def counts_in(group: Path) -> Counts | None:
    """What the kernel has counted in a group; None when it is gone, or cannot be seen from here."""
    words = _words(group / "cpu.stat")
    counted = dict(zip(words[::2], words[1::2], strict=False))
    if "nr_periods" not in counted:
        return None
    return Counts(int(counted["nr_periods"]), int(counted["nr_throttled"]))


class MemberGroup:
    """The group of one member in processes."""

    def __init__(self, name: str) -> None:
        """Raises `EnvironmentFault` when none of the parents takes a group and its processes."""
        self._hierarchy = hierarchy()
        refusals = []
        for parent in self._hierarchy.parents():
            self.path = parent / f"{_PREFIX}{name} {Owner.me()}"
            try:
                self._make()
            except OSError as error:
                refusals.append(f"{parent}: {error.strerror}")
            else:
                return
        raise EnvironmentFault(f"no control group for the processor can be made: {'; '.join(refusals)}")

    def command(self, command: Sequence[str]) -> list[str]:
        """The command of a process that joins the group and becomes that one."""
        join = f'echo $$ >{shlex.quote(str(self.path / _PROCESSES))} && exec "$@"'
        return ["/bin/sh", "-c", join, "join", *command]

    def limit(self, percent: int) -> None:
        """Limit its processes, all together, to this share of one core; 0 ends that."""
        self._hierarchy.set_limit(self.path, percent)

    def counts(self) -> Counts:
        """What the kernel has counted."""
        counts = counts_in(self.path)
        if counts is None:
            raise EnvironmentFault(f"{self.path} is gone")
        return counts

    def close(self) -> None:
        """Remove the group. A group in which a process still lives remains for `upheaval clean`."""

        def is_gone() -> bool:
            with contextlib.suppress(OSError):
                self.path.rmdir()
            return not self.path.exists()

        with contextlib.suppress(UnknownOutcome):
            wait_until(is_gone, timeout_s=_REMOVAL_S, describe=lambda: f"{self.path} is still there")

    def _make(self) -> None:
        """Make it and try it. Raises `OSError`."""
        self.path.mkdir()
        try:
            # In version 1 a parent with a lower limit of its own refuses that.
            for percent in (HIGHEST_LIMIT, 0):
                self.limit(percent)
            done = run_program(self.command(["true"]), limit_s=_TRIED_S)
            if done.returncode or counts_in(self.path) is None:
                raise OSError(0, (done.stderr.strip().splitlines() or ["it counts no periods"])[-1])
        except BaseException as error:
            with contextlib.suppress(OSError):
                self.path.rmdir()
            if isinstance(error, subprocess.TimeoutExpired):
                raise OSError(0, f"a program in it did not end in {_TRIED_S:g} s") from error
            raise


def require_groups() -> None:
    """Raises `EnvironmentFault` when this user cannot make a group that limits processes."""
    try:
        MemberGroup("tried").close()
    except EnvironmentFault as fault:
        hint = "run as root, or use --runtime docker or simulated"
        raise EnvironmentFault(f"cpu-limit on processes: {fault}; {hint}") from None


def abandoned_groups() -> Iterator[Path]:
    """The groups of harnesses that are certainly gone, in the whole hierarchy; those within another one come first."""
    try:
        root = hierarchy().root
    except (EnvironmentFault, OSError):
        return
    # `os.walk` passes over groups that end meanwhile.
    groups = (Path(folder, name) for folder, names, _ in os.walk(root) for name in names if name.startswith(_PREFIX))
    for path in sorted(groups, reverse=True):
        if Owner.parse(path.name.partition(" ")[2]).is_gone:
            yield path


def remove_abandoned_groups() -> None:
    """Remove those that this user can remove. The others harm no new run: `upheaval clean` names them."""
    for path in abandoned_groups():
        with contextlib.suppress(OSError):
            path.rmdir()


def _words(path: Path) -> list[str]:
    """The words of a file of the kernel; none when it cannot be read."""
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
