"""The parts of a machine of its own that a member in a process can have: volumes, slow syncs, a wall clock, and limits
of its processor and memory.

The log and the cluster's state are on volumes (see `volumes`), so a member with a full volume can still write its
trace. The clock is Debian's libfaketime. It is loaded before the member and reads an offset from a file, once a second:
`CLOCK_REALTIME` moves, the monotonic clock does not. `slow_syncs` delays a member's syncs. The processes of a member,
all together, are in one of the `control_groups`.

The observer does not read these settings. It reads the time that a member writes into its mark file, writes to the
volume as any other process would, and sees in `sync_watch` how long syncs take, in the group how often the kernel held
the member back or refused it memory, and by its processes' clocks how long they ran.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.records import owned_folder, write_atomically
from upheaval.runtime_names import PROCESS
from upheaval.runtimes import slow_syncs
from upheaval.runtimes.abandoned import remove_shared_clocks
from upheaval.runtimes.control_groups import CONTROLLERS, Controller, MemberGroup, require_groups
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.sync_watch import SyncWatch
from upheaval.runtimes.volumes import Volume, require_volumes
from upheaval.runtimes.whole_hosts import WholeHosts
from upheaval.system.process_table import processor_time_ns
from upheaval.system.under_test import require_jump
from upheaval.waits import wait_until
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.programs import run_program
from upheaval_chaos.target import DiskWork, MemoryWork, ProcessorWork
from upheaval_node.files import layout
from upheaval_node.files.mark_file import OWNER_LENGTH, owner_of
from upheaval_node.types import MS

_ON_VOLUMES: Final = (layout.ARCHIVE_DIRECTORY, layout.CLUSTER_DIRECTORY)
_LIBRARIES: Final = ("/usr/lib", "/usr/lib64")
_LIBRARY: Final = "libfaketimeMT.so.1"
_OFFSET_AGE_S: Final = 1
"""The maximum age of a member's clock offset, in seconds: reading the file at each look at the clock costs ten times
more.
"""
_MARK_PERIOD_S: Final = 3.0
"""Three times the interval, in seconds, at which members write the time."""
_MEETS_FULL_DISK_S: Final = 60.0
_SLOWEST_SYNC_MS: Final = 1000
"""A longer sync would not fit into one look at a member."""
_TRIED_S: Final = 30.0


class ProcessMachines(WholeHosts):
    """Implements `upheaval_chaos.target.Hosts` for some kinds of faults. Create it before the members start."""

    runtime = PROCESS

    def __init__(self, cluster: ProcessCluster, kinds: Collection[HostFaultKind]) -> None:
        self.kinds = kinds
        self._cluster = cluster
        self._volumes: dict[int, list[Volume]] = {}
        self._refused = dict.fromkeys(cluster.member_ids, 0)
        self._offsets_ms = dict.fromkeys(cluster.member_ids, 0)
        self._folders = contextlib.ExitStack()
        self._clocks: Path | None = None
        self._latencies: Path | None = None
        self._syncs: dict[int, SyncWatch] = {}
        self._groups: dict[int, MemberGroup] = {}
        try:
            if HostFaultKind.CLOCK_JUMP in kinds:
                self._make_clocks()
            if HostFaultKind.DISK_FULL in kinds:
                self._make_volumes()
            if controllers := [controller for kind, controller in CONTROLLERS.items() if kind in kinds]:
                self._make_groups(controllers)
            if HostFaultKind.DISK_SLOW in kinds:
                self._make_syncs_slow()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Move the files of the volumes back to the members' folders, and remove the members' groups."""
        for volumes in self._volumes.values():
            while volumes:
                volumes[-1].save()
                volumes.pop()
        for group in self._groups.values():
            group.close()
        self._folders.close()
        if self._clocks is not None:
            remove_shared_clocks(self._cluster.started)

    # --- injector ---

    def move_clock(self, member_id: int, milliseconds: int) -> None:
        """Set the offset of the member's clock."""
        require_jump(self._cluster.system, milliseconds)
        self._offsets_ms[member_id] += milliseconds
        write_atomically(self._clock_file(member_id), f"{self._offsets_ms[member_id] / 1000:+.3f}\n")

    def fill_disk(self, member_id: int) -> None:
        """Fill the member's volumes. The member may end because of that."""
        self._cluster.may_end.add(member_id)
        for volume in self._volumes[member_id]:
            volume.fill()

    def free_disk(self, member_id: int) -> None:
        """Free the disk. Also waits until the member has either ended because of the full disk or shown that it has
        not, so that a start sees the final state.
        """
        for volume in self._volumes[member_id]:
            volume.free()
        member = self._cluster.member(member_id)
        stamps = {self._stamp(member_id)}

        def is_decided() -> bool:
            stamps.add(self._stamp(member_id))
            return len(stamps) > 2 or not member.is_running()

        wait_until(is_decided, timeout_s=_MEETS_FULL_DISK_S, describe=lambda: f"{member.name} neither ends nor goes on")
        # Collect its exit status while the member may end.
        self._cluster.raise_if_ended(member_id)
        self._cluster.may_end.discard(member_id)

    def slow_disk(self, member_id: int, latency_ms: int) -> None:
        """Set what syncs of the member take longer, from the next one on. Raises `UsageError` for more than a
        second.
        """
        require_latency(latency_ms)
        write_atomically(self._latency_file(member_id), f"{latency_ms}\n")

    def limit_processor(self, member_id: int, percent: int) -> None:
        """Limit its processes, all together."""
        self._groups[member_id].limit(Controller.CPU, percent)

    def limit_memory(self, member_id: int, megabytes: int) -> None:
        """Limit its processes, all together, which may end because of that."""
        if megabytes:
            self._cluster.limited.add(member_id)
        self._groups[member_id].limit_memory(member_id, megabytes)

    def expect_no_end(self, member_id: int) -> None:
        """Also collects the exit statuses of what has ended."""
        self._cluster.raise_if_ended(member_id)
        self._cluster.limited.discard(member_id)

    # --- observer ---

    def clock_lead_ms(self, member_id: int) -> tuple[int, int] | None:
        """The time that the member wrote last, and its lead, both in ms. Waits about a second for the member to write;
        None when it does not.
        """
        first = self._stamp(member_id)
        with contextlib.suppress(UnknownOutcome):
            wait_until(
                lambda: self._stamp(member_id) != first,
                timeout_s=_MARK_PERIOD_S,
                describe=lambda: f"member {member_id} writes no time",
            )
        stamp, now_ms = self._stamp(member_id), time.time_ns() // MS
        return None if stamp in (None, first) else (stamp, stamp - now_ms)

    def disk_work(self, member_id: int) -> DiskWork:
        """Measured by the size of the volumes' contents, by writes of this process, and by a look at the member's
        syncs.
        """
        volumes = self._volumes.get(member_id, ())
        self._refused[member_id] += sum(not volume.has_room() for volume in volumes)
        grown = sum(volume.most_used() for volume in volumes)
        watch = self._syncs.get(member_id)
        if watch is None:
            return DiskWork(0, 0, self._refused[member_id], grown, (), (), 0)
        watch.look()
        return DiskWork(0, 0, self._refused[member_id], grown, watch.times.lasted, watch.times.bounded, 0)

    def processor_work(self, member_id: int) -> list[ProcessorWork]:
        """The time is that of its processes' clocks."""
        counts = self._groups[member_id].counts()
        processes = self._cluster.member(member_id).node.processes()
        used_ns = sum(processor_time_ns(process.pid) for process in processes)
        return [ProcessorWork(used_ns, counts.periods, counts.held_back)]

    def memory_work(self, member_id: int) -> MemoryWork:
        """That of its control group, which stays when its processes end."""
        counts = self._groups[member_id].memory()
        return MemoryWork(frozenset({counts.limit}), counts.met, counts.ended)

    def has_room(self, member_id: int) -> bool:
        """Measured by writes of this process."""
        return all(volume.has_room() for volume in self._volumes[member_id])

    # --- set-up ---

    def _make_volumes(self) -> None:
        for member in self._cluster.members:
            volumes = self._volumes[member.member_id] = []
            for name in _ON_VOLUMES:
                volume = Volume(member.folder / name)
                # Before the mount: an interrupt after it must not leave a volume that `close` does not know.
                volumes.append(volume)
                volume.mount()

    def _make_clocks(self) -> None:
        library = find_library()
        preload = " ".join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
        self._clocks = self._folders.enter_context(owned_folder("clocks"))
        for member in self._cluster.members:
            self.move_clock(member.member_id, 0)
            member.variables = {
                "LD_PRELOAD": preload,
                "FAKETIME_TIMESTAMP_FILE": str(self._clock_file(member.member_id)),
                "FAKETIME_CACHE_DURATION": str(_OFFSET_AGE_S),
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "NO_FAKE_STAT": "1",
            }

    def _make_groups(self, controllers: Sequence[Controller]) -> None:
        for member in self._cluster.members:
            group = MemberGroup(f"{self._cluster.config.run_id[:12]}-member-{member.member_id}", controllers)
            self._groups[member.member_id] = group
            member.wrapper = [*group.command(member.wrapper)]

    def _make_syncs_slow(self) -> None:
        self._latencies = self._folders.enter_context(owned_folder("disks"))
        for member in self._cluster.members:
            self.slow_disk(member.member_id, 0)
            member.wrapper = [*_slowed(self._latency_file(member.member_id)), *member.wrapper]
            self._syncs[member.member_id] = SyncWatch(
                lambda member=member: [process.pid for process in member.node.processes()],  # type: ignore[misc]
                lambda member=member: member.status().append_position,  # type: ignore[misc]
            )

    def _latency_file(self, member_id: int) -> Path:
        if self._latencies is None:
            raise UsageError("these members have no disks of their own")
        return self._latencies / f"member-{member_id}"

    def _clock_file(self, member_id: int) -> Path:
        if self._clocks is None:
            raise UsageError("these members have no clocks of their own")
        return self._clocks / f"member-{member_id}"

    def _stamp(self, member_id: int) -> int | None:
        try:
            with (self._cluster.member(member_id).folder / layout.ARCHIVE_MARK).open("rb") as stream:
                stamp = owner_of(stream.read(OWNER_LENGTH)).activity_timestamp_ms
        except OSError:
            return None
        return stamp if stamp > 0 else None


def require_process_machines(kinds: Collection[HostFaultKind], sync_level: int) -> None:
    """Raises `UsageError` when members at this sync level show nothing of a fault of these kinds, and
    `EnvironmentFault` when this machine cannot support one.
    """
    if HostFaultKind.DISK_SLOW in kinds and sync_level == 0:
        raise UsageError("disk-slow on processes: members at sync level 0 do not sync their log: use level 1 or 2")
    if HostFaultKind.CLOCK_JUMP in kinds:
        find_library()
    if HostFaultKind.DISK_FULL in kinds:
        require_volumes()
    if HostFaultKind.DISK_SLOW in kinds:
        _require_slow_syncs()
    require_groups(kinds)


def require_latency(latency_ms: int) -> None:
    """Raises `UsageError` for a latency that is too long to be observed."""
    if latency_ms > _SLOWEST_SYNC_MS:
        raise UsageError(f"disk-slow: expected latency-ms of 1 to {_SLOWEST_SYNC_MS} on processes, got {latency_ms}")


def find_library() -> Path:
    """Debian's libfaketime. Raises `EnvironmentFault` when it is not installed."""
    for folder in map(Path, _LIBRARIES):
        for pattern in (f"faketime/{_LIBRARY}", f"*/faketime/{_LIBRARY}"):
            for path in folder.glob(pattern):
                return path
    raise EnvironmentFault(f"clock-jump needs {_LIBRARY}: install Debian's package faketime")


def _slowed(latency_file: Path) -> list[str]:
    return [sys.executable, "-I", "-S", slow_syncs.__file__, str(latency_file)]


def _require_slow_syncs() -> None:
    """Raises `EnvironmentFault` unless the kernel lets a process filter its system calls and reports them."""
    try:
        done = run_program([*_slowed(Path(os.devnull)), "true"], limit_s=_TRIED_S)
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(f"disk-slow: a program whose syncs are filtered did not end in {_TRIED_S:g} s") from None
    if done.returncode:
        raise EnvironmentFault(
            "disk-slow needs Linux 5.9 or newer on x86_64 or aarch64, and seccomp user notification: "
            f"{done.stderr.strip()}"
        )
