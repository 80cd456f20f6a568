"""The companions of a cluster of real members: what companions in processes and in containers have in common.

Any process that opens the cluster's folder finds them again through `companions.json`. This module knows neither
processes nor container engines.
"""

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path

from upheaval.records import CompanionConfig, CompanionStatus, RunFolder, load_companions, note_position
from upheaval.runtimes import ports
from upheaval.runtimes.node import STOP_TIMEOUT_S, LiveNode, Node_co
from upheaval.system import ClusterSpec


class LiveCompanion(LiveNode[Node_co]):
    """One companion. Implements `upheaval.cluster.companion_control.Companion`."""

    def __init__(self, run: RunFolder, config: CompanionConfig, node: Node_co) -> None:
        super().__init__(config.name, run.path / config.name, node)
        self.config = config

    @abstractmethod
    def status(self) -> CompanionStatus:
        """What the companion reports about itself."""

    def start(self) -> None:
        """Start the companion unless it is running. Returns at once."""
        self.node.start()

    def kill(self) -> None:
        """Send SIGKILL. Returns when the companion is gone and its files are in the run folder."""
        self.note_position()
        self.node.kill()
        self.collect()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ask for an orderly end and wait for it. Returns when the companion's files are in the run folder."""
        self.note_position()
        self.node.stop(None, timeout_s)
        self.collect()

    def note_position(self) -> None:
        """Record the log position that the companion reports, for the checkers that judge its files."""
        position = self.status().live_log_position
        if position >= 0:
            note_position(self.folder.parent, replace(self.config, position=position))


def entry_for(folder: Path, config: CompanionConfig) -> CompanionConfig:
    """The entry to use for a wanted companion: `config` if the name is new, else the known entry with the source,
    replay start and credentials of `config`.
    """
    known = next((companion for companion in load_companions(folder) if companion.name == config.name), None)
    if known is None:
        return config
    credentials = config.credentials or known.credentials
    return replace(known, source=config.source, replay_start=config.replay_start, credentials=credentials)


def with_ports(config: CompanionConfig, cluster: ClusterSpec) -> CompanionConfig:
    """The configuration with ports on this machine that do not collide with the members' ports."""
    if config.base_port:
        return config
    first, last = cluster.base_port, cluster.base_port + cluster.members * ports.PORTS_A_MEMBER
    base_port = ports.choose_base_port(1)
    while first <= base_port < last:
        base_port = ports.choose_base_port(1)
    return replace(config, base_port=base_port)


def companion_endpoints(base_port: int) -> tuple[str, str, str]:
    """The endpoints of a companion on this machine: consensus, catch-up, archive."""
    _, consensus, _, catchup, archive = ports.member_ports(base_port, 0)
    return f"{ports.HOST}:{consensus}", f"{ports.HOST}:{catchup}", f"{ports.HOST}:{archive}"
