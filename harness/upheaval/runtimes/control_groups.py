"""Control groups of the kernel that limit processor and memory, version 1 and 2: those of members in processes, and
what the kernel states in any of them.

The name of a group that this module makes has its owner, so that a later harness can remove it after that was killed.
"""

import contextlib
import errno
import os
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.runtimes.owner import Owner
from upheaval.waits import wait_until
from upheaval_chaos.host_faults import HIGHEST_LIMIT, HIGHEST_MEMORY_MB, MIB, NOT_SIMULATED, HostFaultKind
from upheaval_chaos.programs import run_program
from upheaval_chaos.target import LIMIT_PERIOD_NS

_MOUNTS: Final = Path("/proc/self/mounts")
_PROC: Final = Path("/proc")
_PROCESSES: Final = "cgroup.procs"
_PREFIX: Final = "upheaval-"
_PERIOD_US: Final = LIMIT_PERIOD_NS // 1000
_TRIED_S: Final = 30.0
_REMOVAL_S: Final = 5.0
SWAP_BYTES: Final = MIB
"""What a limited member may have in swap. With none, version 1 counts what it refuses for the sum of memory and swap,
which engines do not report.
"""
_NO_LIMIT: Final = 1 << 60
"""From this number of bytes on, a limit of version 1 means none."""


class Controller(StrEnum):
    """What groups limit, by the kernel's names."""

    CPU = "cpu"
    MEMORY = "memory"


CONTROLLERS: Final[Mapping[HostFaultKind, Controller]] = {
    HostFaultKind.CPU_LIMIT: Controller.CPU,
    HostFaultKind.MEMORY_LIMIT: Controller.MEMORY,
}
"""The controller by which a kind of fault is done to processes."""
_TRIED: Final[Mapping[Controller, int]] = {Controller.CPU: HIGHEST_LIMIT, Controller.MEMORY: HIGHEST_MEMORY_MB}


@dataclass(frozen=True, slots=True)
class Counts:
    """The periods of a limit that the kernel has counted in a group, and those in which it held the group back."""

    periods: int
    held_back: int


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """The limit of a group in bytes, None for none, and what it uses; how often the kernel has refused it memory for
    that limit, and how many of its processes it has ended.
    """

    limit: int | None
    used: int
    met: int
    ended: int


CountsT = TypeVar("CountsT", Counts, MemoryCounts)


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where the groups of a controller are mounted."""

    controller: Controller
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
            if (not controllers) if self.is_unified else (self.controller in controllers.split(",")):
                return None if ".." in path else self.root / path.lstrip("/")
        return None

    def parents(self) -> list[Path]:
        """The groups in which this process may be allowed to make one, the nearest first: in those further away fewer
        limits on this process hold.
        """
        own = self.group_of(os.getpid()) or self.root
        return [folder for folder in (own, *own.parents) if folder.is_relative_to(self.root)]

    def set_limit(self, group: Path, amount: int) -> None:
        """Limit a group to this share of one processor core in percent, or to so many MiB of memory; 0 ends that.

        Raises `OSError`.
        """
        for name, text in self._settings(amount):
            path = group / name
            # A kernel that counts no swap has no such file.
            if "sw" not in name or path.exists():
                path.write_text(f"{text}\n")

    def _settings(self, amount: int) -> Sequence[tuple[str, str | int]]:
        """The files and what is written into them, in an order that the kernel takes."""
        quota_us, size = _PERIOD_US * amount // 100, amount * MIB
        match self.controller, self.is_unified:
            case Controller.CPU, True:
                return [("cpu.max", f"{quota_us or 'max'} {_PERIOD_US}")]
            case Controller.CPU, False:
                return [("cpu.cfs_period_us", _PERIOD_US), ("cpu.cfs_quota_us", quota_us or -1)]
            case Controller.MEMORY, True:
                return [("memory.swap.max", SWAP_BYTES if size else "max"), ("memory.max", size or "max")]
        swapped = ("memory.memsw.limit_in_bytes", size + SWAP_BYTES if size else -1)
        plain = ("memory.limit_in_bytes", size or -1)
        return [plain, swapped] if size else [swapped, plain]


def hierarchy(controller: Controller) -> Hierarchy:
    """Raises `EnvironmentFault` when this machine has no groups with the controller."""
    unified = None
    for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        _, folder, kind, options, *_ = line.split(" ")
        if kind == "cgroup" and controller in options.split(","):
            return Hierarchy(controller, Path(folder), is_unified=False)
        if kind == "cgroup2" and controller in _words(Path(folder) / "cgroup.controllers"):
            unified = Hierarchy(controller, Path(folder), is_unified=True)
    if unified is None:
        raise EnvironmentFault(f"no control groups with the controller {controller} are mounted")
    return unified


def counts_in(group: Path) -> Counts | None:
    """What the kernel has counted in a group; None when it is gone, or cannot be seen from here."""
    counted = _pairs(_words(group / "cpu.stat"))
    if "nr_periods" not in counted:
        return None
    return Counts(counted["nr_periods"], counted["nr_throttled"])


def memory_in(group: Path) -> MemoryCounts | None:
    """What the kernel states of the memory of a group; None when it is gone, or cannot be seen from here."""
    if limit := _words(group / "memory.max"):
        used, ended = _words(group / "memory.current"), _words(group / "memory.events")
        met = ended[ended.index("max") + 1 :] if "max" in ended else []
    else:
        limit, used = _words(group / "memory.limit_in_bytes"), _words(group / "memory.usage_in_bytes")
        met, ended = _words(group / "memory.failcnt"), _words(group / "memory.oom_control")
    if not (limit and used and met and ended):
        return None
    size = _NO_LIMIT if limit[0] == "max" else int(limit[0])
    return MemoryCounts(stated_limit(size), int(used[0]), int(met[0]), _pairs(ended).get("oom_kill", 0))


def stated_limit(size: int) -> int | None:
    """The limit of memory that the kernel states by a number of bytes; None for none."""
    return size if size < _NO_LIMIT else None


def too_low(member_id: int, megabytes: int, used: int) -> UnknownOutcome:
    """The error for a limit of memory that the kernel refuses."""
    uses = f"member {member_id} uses {used / MIB:.1f} MiB, of which the kernel takes nothing back"
    return UnknownOutcome(f"memory-limit: {uses}: use megabytes={used // MIB + 1} or more, not {megabytes}")


_STATED: Final[Mapping[Controller, Callable[[Path], object]]] = {
    Controller.CPU: counts_in,
    Controller.MEMORY: memory_in,
}


class MemberGroup:
    """The groups of one member in processes, one in each hierarchy that has some of the controllers."""

    def __init__(self, name: str, controllers: Iterable[Controller]) -> None:
        """Raises `EnvironmentFault` when in one of them no parent takes a group and its processes."""
        self._hierarchies = {controller: hierarchy(controller) for controller in controllers}
        self._paths: dict[Path, Path] = {}
        try:
            for root in dict.fromkeys(one.root for one in self._hierarchies.values()):
                of_root = [one for one in self._hierarchies.values() if one.root == root]
                self._paths[root] = _made_group(f"{_PREFIX}{name} {Owner.me()}", of_root)
        except BaseException:
            self.close()
            raise

    @property
    def paths(self) -> Sequence[Path]:
        """The folders of all groups."""
        return list(self._paths.values())

    def path(self, controller: Controller) -> Path:
        """The folder of the group with the controller."""
        return self._paths[self._hierarchies[controller].root]

    def command(self, command: Sequence[str]) -> list[str]:
        """The command of a process that joins the groups and becomes that one."""
        return _joining(self.paths, command)

    def limit(self, controller: Controller, amount: int) -> None:
        """Limit its processes, all together; see `Hierarchy.set_limit`."""
        self._hierarchies[controller].set_limit(self.path(controller), amount)

    def limit_memory(self, member_id: int, megabytes: int) -> None:
        """Limit their memory; 0 ends that. Raises `UnknownOutcome` when they use more and none of it can be taken."""
        try:
            self.limit(Controller.MEMORY, megabytes)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise too_low(member_id, megabytes, self.memory().used) from None

    def counts(self) -> Counts:
        """What the kernel has counted of their processor."""
        return self._stated(counts_in(self.path(Controller.CPU)))

    def memory(self) -> MemoryCounts:
        """What the kernel states of their memory."""
        return self._stated(memory_in(self.path(Controller.MEMORY)))

    def _stated(self, counts: CountsT | None) -> CountsT:
        if counts is None:
            raise EnvironmentFault(f"{', '.join(map(str, self.paths))}: gone")
        return counts

    def close(self) -> None:
        """Remove the groups. One in which a process still lives remains for `upheaval clean`."""

        def is_gone() -> bool:
            for path in self.paths:
                with contextlib.suppress(OSError):
                    path.rmdir()
            return not any(path.exists() for path in self.paths)

        with contextlib.suppress(UnknownOutcome):
            wait_until(is_gone, timeout_s=_REMOVAL_S, describe=lambda: f"{self.paths} are still there")


def _made_group(name: str, hierarchies: Sequence[Hierarchy]) -> Path:
    """A group with the controllers of one hierarchy, in the nearest parent that takes it. Raises `EnvironmentFault`."""
    refusals = []
    for parent in hierarchies[0].parents():
        try:
            _make(parent / name, hierarchies)
        except OSError as error:
            refusals.append(f"{parent}: {error.strerror}")
        else:
            return parent / name
    controllers = " and ".join(one.controller for one in hierarchies)
    raise EnvironmentFault(f"no control group with the controller {controllers} can be made: {'; '.join(refusals)}")


def _make(path: Path, hierarchies: Sequence[Hierarchy]) -> None:
    """Make a group and try it. Raises `OSError`."""
    path.mkdir()
    try:
        for one in hierarchies:
            # In version 1 a parent with a lower limit of its own refuses that of a processor.
            for amount in (_TRIED[one.controller], 0):
                one.set_limit(path, amount)
        done = run_program(_joining([path], ["true"]), limit_s=_TRIED_S)
        if done.returncode or any(_STATED[one.controller](path) is None for one in hierarchies):
            raise OSError(0, (done.stderr.strip().splitlines() or ["it counts nothing"])[-1])
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.rmdir()
        if isinstance(error, subprocess.TimeoutExpired):
            raise OSError(0, f"a program in it did not end in {_TRIED_S:g} s") from error
        raise


def _joining(groups: Iterable[Path], command: Sequence[str]) -> list[str]:
    joins = [f"echo $$ >{shlex.quote(str(group / _PROCESSES))}" for group in groups]
    return ["/bin/sh", "-c", " && ".join([*joins, 'exec "$@"']), "join", *command]


def require_groups(kinds: Collection[HostFaultKind]) -> None:
    """Raises `EnvironmentFault` when this user cannot make a group that limits processes for faults of these kinds."""
    for kind, controller in CONTROLLERS.items():
        if kind in kinds:
            try:
                MemberGroup("tried", [controller]).close()
            except EnvironmentFault as fault:
                hint = f"run as root, or use --runtime docker{'' if kind in NOT_SIMULATED else ' or simulated'}"
                raise EnvironmentFault(f"{kind} on processes: {fault}; {hint}") from None


def abandoned_groups() -> Iterator[Path]:
    """The groups of harnesses that are certainly gone, in whole hierarchies; those within another one come first."""
    roots = set()
    for controller in Controller:
        with contextlib.suppress(EnvironmentFault, OSError):
            roots.add(hierarchy(controller).root)
    # `os.walk` passes over groups that end meanwhile.
    walks = (walk for root in roots for walk in os.walk(root))
    groups = (Path(folder, name) for folder, names, _ in walks for name in names if name.startswith(_PREFIX))
    for path in sorted(groups, reverse=True):
        if Owner.parse(path.name.partition(" ")[2]).is_gone:
            yield path


def remove_abandoned_groups() -> None:
    """Remove those that this user can remove. The others harm no new run: `upheaval clean` names them."""
    for path in abandoned_groups():
        with contextlib.suppress(OSError):
            path.rmdir()


def _pairs(words: Sequence[str]) -> dict[str, int]:
    return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=False)}


def _words(path: Path) -> list[str]:
    """The words of a file of the kernel; none when it cannot be read."""
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
