"""The process runtime: a cluster of real processes on this machine, on loopback, without root and without an engine.

A handle can be opened on a running cluster from any process: all it needs lies in the folder, and processes are found
by the run id in their environment. This module knows how members are started and ended; what they publish is read by
`member_status`.
"""

import contextlib
import os
import platform
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from upheaval.cluster import COMPONENTS, ELECTION_CLOSED, LEADER, MemberStatus
from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.run_folder import Converge, FaultRecord, FinalPosition, Manifest, RunFolder
from upheaval.runtimes import cluster_file, ports
from upheaval.runtimes.cluster_file import SPLIT, ClusterConfig
from upheaval.runtimes.member_status import member_pids, read_member_status, with_leaders
from upheaval.runtimes.process_table import (
    COMPONENT_VARIABLE,
    MEMBER_VARIABLE,
    RUN_ID_VARIABLE,
    FoundProcess,
    processes_of,
    send_signal,
    wait_until_gone,
)
from upheaval.waits import wait_until
from upheaval_node.files import layout
from upheaval_node.runtime.exit_status import ExitStatus

ALL: Final = "all"
START_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 15.0
# Within this time the rest of a member ends when one of its components has died.
COMPONENT_END_TIMEOUT_S: Final = 10.0
_LOG_TAIL_LENGTH: Final = 4096


@dataclass(frozen=True, slots=True)
class _Spawned:
    """A process that this handle started. Where its part of the log file begins tells its last words from others'."""

    pid: int
    member_id: int
    log: Path
    log_start: int

    def exit_status(self, *, wait: bool = False) -> int | None:
        """The exit status, negative for a signal; None while it runs. To be asked until it is known, then no more."""
        try:
            pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:
            return 0
        return os.waitstatus_to_exitcode(status) if pid else None


class ProcessMember:
    """One member. Implements `upheaval.cluster.Member`."""

    def __init__(self, cluster: "ProcessCluster", member_id: int) -> None:
        self.member_id = member_id
        self._cluster = cluster
        self.folder = cluster.run.member(member_id).path
        self.wrapper: Sequence[str] = ()
        """A command and its options to put in front of the member's own: strace, nice, taskset."""

    def processes(self) -> list[FoundProcess]:
        """The live processes of this member."""
        return [found for found in processes_of(self._cluster.config.run_id) if found.member_id == self.member_id]

    def pids(self) -> dict[str, int]:
        """Live process ids by component, as the mark files say."""
        return member_pids(self.folder, self.member_id, self._cluster.config.run_id)

    def status(self) -> MemberStatus:
        return read_member_status(self.folder, self.member_id, self._cluster.config.run_id)

    def kill(self, component: str | None = None) -> None:
        """SIGKILL to the member, or to one component of a split member. Returns when it is gone."""
        victims = self._victims(component)
        begin_ns = time.monotonic_ns()
        send_signal(victims, signal.SIGKILL)
        wait_until_gone(victims, self._cluster.config.run_id)
        where = f"member-{self.member_id}" + (f"/{component}" if component else "")
        pids = ", ".join(str(victim.pid) for victim in victims)
        self._cluster.note_fault(
            self.member_id, FaultRecord("kill", where, begin_ns, time.monotonic_ns(), proof=f"SIGKILL ended {pids}")
        )

    def start(self) -> None:
        """Start what is not running. A member that has lost a component is left to end first."""
        self._wait_until_whole_or_gone()
        running = {found.component for found in self.processes()}
        wanted = COMPONENTS if self._cluster.config.components == SPLIT else (ALL,)
        begin_ns = time.monotonic_ns()
        for component in wanted:
            if component not in running:
                self._cluster.spawn(self.member_id, component)
        self._cluster.note_heal(self.member_id, begin_ns)

    def wait_until_alive(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until all components have shown themselves. Raises at once when one of them ends instead."""

        def is_alive() -> bool:
            self._cluster.raise_if_ended(self.member_id)
            return self.status().role is not None

        wait_until(is_alive, timeout_s=timeout_s, describe=lambda: f"member {self.member_id} does not start")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM, and wait for the orderly end."""
        found = self.processes()
        send_signal(found, signal.SIGTERM)
        wait_until_gone(found, self._cluster.config.run_id, timeout_s)

    def _victims(self, component: str | None) -> list[FoundProcess]:
        found = self.processes()
        if component is not None:
            if component not in COMPONENTS:
                raise UsageError(f"unknown component {component!r}: use one of {', '.join(COMPONENTS)}")
            if self._cluster.config.components != SPLIT:
                raise UsageError(
                    f"member {self.member_id} has all its components in one process: kill it without --component, "
                    "or start the cluster with --components split"
                )
            found = [process for process in found if process.component == component]
        if not found:
            what = f"{component} of member {self.member_id}" if component else f"member {self.member_id}"
            raise UsageError(f"{what} is not running: nothing to kill")
        return found

    def _wait_until_whole_or_gone(self) -> None:
        if self._cluster.config.components != SPLIT:
            return
        with contextlib.suppress(UnknownOutcome):
            wait_until(
                lambda: len({found.component for found in self.processes()}) in (0, len(COMPONENTS)),
                timeout_s=COMPONENT_END_TIMEOUT_S,
                describe=lambda: f"member {self.member_id} neither runs nor ends",
            )


class ProcessCluster:
    """A cluster of processes. Implements `upheaval.cluster.Cluster`."""

    def __init__(self, folder: Path, config: ClusterConfig) -> None:
        self.config = config
        self.folder = folder
        self.run = RunFolder(folder)
        self.members = [ProcessMember(self, member_id) for member_id in range(config.members)]
        self._spawned: list[_Spawned] = []
        self._faults: dict[int, FaultRecord] = {}

    # --- making and opening ---

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        *,
        members: int = 3,
        components: str = cluster_file.TOGETHER,
        profile: str = "test",
        sync_level: int = 0,
        service: str = cluster_file.DEFAULT_SERVICE,
        source: Path | None = None,
        max_sessions: int = 0,
        base_port: int | None = None,
    ) -> "ProcessCluster":
        """Make a new cluster in a new or empty folder; nothing runs yet. Raises `HarnessError` with one clear line.

        A service of one's own is looked for in the folder `source`, by default the current one.
        """
        path = Path(folder).absolute()
        config = ClusterConfig(
            run_id=uuid.uuid4().hex,
            members=members,
            components=components,
            profile=profile,
            sync_level=sync_level,
            service=service,
            base_port=0 if base_port is None else base_port,
            python_path=() if ":" not in service else (str(source or Path.cwd()),),
            max_sessions=max_sessions,
        )
        cluster_file.check_config(config)
        if base_port is None:
            config = replace(config, base_port=ports.choose_base_port(members))
        else:
            ports.require_free(base_port, members)
        cluster_file.require_usable(path)
        cluster_file.save(config, path)
        cluster = cls(path, config)
        cluster.run.create(_manifest(config))
        return cluster

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "ProcessCluster":
        """The cluster of a folder, running or not. Raises `UsageError` when there is none or of another version."""
        path = Path(folder).absolute()
        return cls(path, cluster_file.load(path))

    # --- handles ---

    def member(self, member_id: int) -> ProcessMember:
        """Raises `UsageError` for a member that does not exist."""
        if not 0 <= member_id < len(self.members):
            raise UsageError(f"unknown member {member_id}: this cluster has members 0 to {len(self.members) - 1}")
        return self.members[member_id]

    def status(self) -> list[MemberStatus]:
        return with_leaders(member.status() for member in self.members)

    def leader(self) -> int | None:
        """The serving leader of the highest term."""
        serving = [status for status in self.status() if status.serves_as_leader]
        return max(serving, key=lambda status: status.leadership_term_id).member_id if serving else None

    # --- life ---

    def up(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Start what is not running and wait for a leader that serves; returns its member id.

        When that fails, everything that was started here is ended again.
        """
        if not processes_of(self.config.run_id):
            ports.require_free(self.config.base_port, self.config.members)
        with self.all_or_nothing():
            for member in self.members:
                member.start()
            return self.wait_until_leader(timeout_s)

    def wait_until_leader(self, timeout_s: float = START_TIMEOUT_S, *, other_than: int | None = None) -> int:
        """Wait for a leader that serves, if wanted another one than before."""

        def found() -> tuple[int] | None:
            self.raise_if_ended()
            leader = self.leader()
            return None if leader is None or leader == other_than else (leader,)

        (leader,) = wait_until(found, timeout_s=timeout_s, describe=lambda: f"no leader: {self._shown_status()}")
        return leader

    def wait_until_caught_up(self, member_id: int, timeout_s: float = START_TIMEOUT_S) -> MemberStatus:
        """Wait until a member follows the leader's term, or leads it, and its election is over."""

        def caught_up() -> MemberStatus | None:
            self.raise_if_ended()
            status = self.status()[member_id]
            followed = status.leader_member_id >= 0 and status.election_state == ELECTION_CLOSED
            return status if status.alive and followed else None

        return wait_until(
            caught_up,
            timeout_s=timeout_s,
            describe=lambda: f"member {member_id} does not catch up: {self._shown_status()}",
        )

    def converge(self, timeout_s: float = START_TIMEOUT_S) -> Converge:
        """Wait until all members stand at one committed position, and write it to the manifest.

        The load must have ended. When the time-out passes, what was seen last is written as not reached.
        """
        try:
            wait_until(self._is_converged, timeout_s=timeout_s, describe=lambda: "the members do not converge")
            reached = True
        except UnknownOutcome:
            reached = False
        finals = tuple(
            FinalPosition(s.member_id, s.append_position, s.commit_position, s.leadership_term_id)
            for s in self.status()
        )
        # Read again after the wait: only equal positions count, and they can only have moved by then.
        reached = reached and len({final.commit_position for final in finals}) == 1
        converge = Converge(reached, time.monotonic_ns(), finals)
        self.run.write_manifest(replace(self.run.read_manifest(), converge=converge))
        return converge

    def down(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End everything in an orderly way, by force what does not end; sockets are removed, the folder stays."""
        run_id = self.config.run_id
        found = processes_of(run_id)
        send_signal(found, signal.SIGTERM)
        try:
            wait_until_gone(found, run_id, timeout_s)
        except UnknownOutcome:
            send_signal(processes_of(run_id), signal.SIGKILL)
            wait_until_gone(found, run_id)
        self._clean_up()

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """On the way out of a failure, end at once what was started inside: found in the process table, because an
        interrupt can come right after a process was made and before it was written down.
        """
        before = {process.pid for process in processes_of(self.config.run_id)}
        try:
            yield
        except BaseException:
            victims = [process for process in processes_of(self.config.run_id) if process.pid not in before]
            send_signal(victims, signal.SIGKILL)
            wait_until_gone(victims, self.config.run_id)
            if not before:
                self._clean_up()
            raise

    def _clean_up(self) -> None:
        for spawned in self._spawned:
            spawned.exit_status(wait=True)
        self._spawned.clear()
        self.flush_faults()
        for member in self.members:
            if not member.processes():
                for entry in (member.folder / layout.DRIVER_DIRECTORY).glob("*"):
                    if entry.is_socket():
                        entry.unlink(missing_ok=True)

    # --- processes ---

    def spawn(self, member_id: int, component: str) -> None:
        """Start one process of a member."""
        folder = self.run.member(member_id).path
        log = folder / f"{component}.log"
        command = [sys.executable, "-m", "upheaval_node.runtime.main", "--config", str(folder / "config.json")]
        environment = {
            **os.environ,
            RUN_ID_VARIABLE: self.config.run_id,
            MEMBER_VARIABLE: str(member_id),
            COMPONENT_VARIABLE: component,
        }
        arguments = [*self.members[member_id].wrapper, *command, "--component", component]
        try:
            with log.open("ab") as stream:
                start = stream.tell()
                # Not subprocess: its objects complain when a process is meant to live on after us.
                pid = os.posix_spawnp(
                    arguments[0],
                    arguments,
                    environment,
                    file_actions=[
                        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                        (os.POSIX_SPAWN_DUP2, stream.fileno(), 1),
                        (os.POSIX_SPAWN_DUP2, stream.fileno(), 2),
                    ],
                    setsid=True,
                )
        except OSError as error:
            raise EnvironmentFault(f"cannot start member {member_id}: {error.strerror} ({log})") from error
        self._spawned.append(_Spawned(pid, member_id, log, start))

    def raise_if_ended(self, member_id: int | None = None) -> None:
        """Raises `EnvironmentFault` when a process that this handle started has ended by its own fault."""
        for spawned in list(self._spawned):
            status = spawned.exit_status()
            if status is None:
                continue
            self._spawned.remove(spawned)
            is_asked = member_id is None or spawned.member_id == member_id
            # Killed by a signal was our doing, and the other components of a killed one follow it.
            if status > 0 and status != ExitStatus.COMPONENT_LOST and is_asked:
                raise EnvironmentFault(
                    f"member {spawned.member_id} ended with status {status}: {_last_line(spawned)} (see {spawned.log})"
                )

    # --- faults ---

    def note_fault(self, member_id: int, fault: FaultRecord) -> None:
        self._write_fault(member_id)
        self._faults[member_id] = fault

    def note_heal(self, member_id: int, begin_ns: int) -> None:
        fault = self._faults.get(member_id)
        if fault is not None:
            self._faults[member_id] = replace(fault, heal_begin_ns=begin_ns, heal_end_ns=time.monotonic_ns())
            self._write_fault(member_id)

    def flush_faults(self) -> None:
        """Write down the faults that were not healed."""
        for member_id in list(self._faults):
            self._write_fault(member_id)

    def _write_fault(self, member_id: int) -> None:
        fault = self._faults.pop(member_id, None)
        if fault is not None:
            self.run.add_fault(fault)

    # --- conditions ---

    def _is_converged(self) -> bool:
        self.raise_if_ended()
        statuses = self.status()
        leaders = [status for status in statuses if status.role == LEADER]
        positions = {status.append_position for status in statuses} | {status.commit_position for status in statuses}
        return (
            all(status.alive and status.election_state == ELECTION_CLOSED for status in statuses)
            and len(leaders) == 1
            and len({status.leadership_term_id for status in statuses}) == 1
            and len(positions) == 1
            and min(positions) > 0
        )

    def _shown_status(self) -> str:
        return "; ".join(
            f"member {s.member_id} {s.role} {s.election_state}" if s.alive else f"member {s.member_id} is down"
            for s in self.status()
        )


def _manifest(config: ClusterConfig) -> Manifest:
    return Manifest(
        run_id=config.run_id,
        runtime="process",
        members=config.members,
        profile=config.profile,
        sync_level=config.sync_level,
        components=config.components,
        service=config.service,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        host=platform.node(),
        boot_id=_boot_id(),
        version=config.version,
    )


def _boot_id() -> str:
    """Tells apart monotonic clocks that started at different times."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _last_line(spawned: _Spawned) -> str:
    """The last thing that a process said."""
    try:
        with spawned.log.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(spawned.log_start, end - _LOG_TAIL_LENGTH))
            lines = stream.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return "its log cannot be read"
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
