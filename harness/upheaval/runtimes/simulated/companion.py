"""Companions of a simulated cluster, each on a separate host with a disk and a process.

A companion runs the node's own agents, as members do. All knowledge about it comes from its counters and files. This
module does not know what a backup or a standby does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from upheaval.records import CompanionConfig, CompanionStatus, companion_name, note_companion
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.collect import write_files, write_trace
from upheaval.runtimes.simulated.machine import STOP_TIMEOUT_S, Machine
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.system import companion_from_counters
from upheaval_chaos.planted.catalogue import plant
from upheaval_node.backup.config import BackupConfig, BackupEndpoints, ReplayStart, SourceType
from upheaval_node.backup.node import build_backup
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.member import MemberPorts
from upheaval_node.ports import Agent
from upheaval_node.settings import BackupNodeSettings, backup_profile_settings
from upheaval_node.types import Now

CONSENSUS_PORT: Final = 9001
CATCHUP_PORT: Final = 9003
ARCHIVE_PORT: Final = 9004


class ClosableAgent(Protocol):
    """A `ports.Agent` that can be closed in an orderly way."""

    def do_work(self, now: Now) -> int:
        """Run one duty cycle. Returns the amount of work done."""

    def next_deadline_ns(self) -> int:
        """When it needs a turn even without input."""

    def close(self) -> None:
        """Close in an orderly way, without waiting."""


Build = Callable[["SimulatedCompanion", MemberPorts], Sequence[ClosableAgent]]
"""Creates the agents of one incarnation: mark files first, media driver second."""


class SimulatedCompanion(Machine):
    """One companion: its disk, and its process while it has one."""

    def __init__(self, cluster: SimulatedCluster, config: CompanionConfig, build: Build) -> None:
        self.name = companion_name(config.name)
        # The members have the ids from 0 on in the journal.
        number = -1 - len(cluster.companions)
        super().__init__(cluster.world, cluster.fabric, cluster.journal, self.name, number, self.name)
        self.config = config
        self.position = -1
        """The highest position up to which it reported the log."""
        self.agents: Sequence[ClosableAgent] = ()
        self._cluster = cluster
        self._build_agents = build

    # --- observer ---

    def status(self) -> CompanionStatus:
        """The status from its counters, or that it is down."""
        status = companion_from_counters(self.name, self.counters, self.incarnations, self.recording_log())
        if not self.alive:
            return CompanionStatus(self.name, alive=False, snapshot_position=status.snapshot_position)
        self.position = max(self.position, status.live_log_position)
        return status

    @property
    def error_texts(self) -> list[str]:
        """All errors of all incarnations, each preceded by its time."""
        return [text for log in self.errors for text in log.texts]

    # --- injector ---

    def end(self, *, power_cut: bool) -> None:
        """Its log position is still known afterwards."""
        self.status()
        super().end(power_cut=power_cut)

    def stop(self, component: str | None = None, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Its log position is still known afterwards."""
        self.status()
        super().stop(component, timeout_s)

    def write(self, run: Path) -> None:
        """Write its current folder and its entry to a run folder."""
        self.status()
        write_files(self.disk, run / self.name)
        write_trace(self._cluster.journal, self._number, run / self.name / "trace.jsonl")
        config = self.config
        note_companion(run, CompanionConfig(self.name, config.source, config.replay_start, 0, self.position))

    # --- life ---

    def _prepare(self, process: SimulatedProcess) -> None:
        process.on_ended = lambda *_: process.post(lambda: self._close(process))

    def _build(self, process: SimulatedProcess) -> Sequence[Agent]:
        self.agents = self._build_agents(self, self.ports(process))
        plant(self._cluster.spec.planted, self.agents)
        return self.agents

    def _close_agents(self, now: Now) -> None:  # noqa: ARG002 - no agent of these needs it
        for agent in reversed(self.agents):
            agent.close()

    def _on_exit(self, process: SimulatedProcess) -> None:
        self._cluster.fabric.kill(process)
        if process.failure is not None and not self.disk.is_full:
            self._cluster.failures.append((process.name, process.failure))


def companion_settings(cluster: SimulatedCluster) -> BackupNodeSettings:
    """The settings of a companion. Sync level and checksums are the members', so that members can restart from its
    recordings.
    """
    archive = cluster.settings.archive
    profile = backup_profile_settings("test", sync_level=cluster.settings.cluster.file_sync_level)
    checked = replace(profile.archive, record_checksum=archive.record_checksum, replay_checksum=archive.replay_checksum)
    return replace(profile, archive=checked)


def companion_endpoints(host: str) -> BackupEndpoints:
    """A companion's endpoints on its host."""
    return BackupEndpoints(f"{host}:{CONSENSUS_PORT}", f"{host}:{CATCHUP_PORT}", f"{host}:{ARCHIVE_PORT}")


def make_backup(
    cluster: SimulatedCluster,
    wanted: CompanionConfig,
    *,
    settings: BackupNodeSettings | None = None,
    endpoints: BackupEndpoints | None = None,
    credentials: CredentialsSupplier | None = None,
) -> SimulatedCompanion:
    """The backup of that name. A new one is not started."""
    name = wanted.name
    known = cluster.companions.get(name)
    if isinstance(known, SimulatedCompanion):
        return known
    chosen = settings or companion_settings(cluster)
    config = BackupConfig(
        name=name,
        folder=name,
        consensus_endpoints=tuple(cluster.consensus_endpoints),
        endpoints=endpoints or companion_endpoints(name),
        source=SourceType(wanted.source),
        replay_start=ReplayStart(wanted.replay_start),
        settings=chosen,
    )

    shown = cluster.gate.companion if credentials is None and cluster.gate is not None else credentials

    def build(_companion: SimulatedCompanion, ports: MemberPorts) -> Sequence[ClosableAgent]:
        return build_backup(config, ports, shown)

    companion = cluster.companions[name] = SimulatedCompanion(cluster, wanted, build)
    return companion
