"""Standbys of a simulated cluster. They run the node's own agents, as backups do.

This module does not know what a standby does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from upheaval.records import CompanionConfig
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.companion import (
    ClosableAgent,
    SimulatedCompanion,
    companion_endpoints,
    companion_settings,
)
from upheaval_node.backup.config import BackupConfig, ReplayStart, SourceType
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.member import MemberPorts
from upheaval_node.service.api import ClusteredService
from upheaval_node.service.loader import load_service
from upheaval_node.standby.config import StandbyConfig
from upheaval_node.standby.node import build_standby


def make_standby(
    cluster: SimulatedCluster,
    wanted: CompanionConfig,
    *,
    services: Callable[[], Sequence[ClusteredService]] | None = None,
    credentials: CredentialsSupplier | None = None,
) -> SimulatedCompanion:
    """The standby of that name. A new one is not started. `services` are created anew at every start."""
    name = wanted.name
    known = cluster.companions.get(name)
    if isinstance(known, SimulatedCompanion):
        return known
    of_members = cluster.settings.cluster
    make = services or (lambda: [load_service(name) for name in cluster.services])
    names = ("given",) * (of_members.service_count if services is None else len(services()))
    backup = BackupConfig(
        name=name,
        folder=name,
        consensus_endpoints=tuple(cluster.consensus_endpoints),
        endpoints=companion_endpoints(name),
        source=SourceType(wanted.source),
        replay_start=ReplayStart(wanted.replay_start),
        settings=companion_settings(cluster),
    )
    config = StandbyConfig(backup, names, replace(of_members, service_count=len(names)))

    shown = cluster.gate.companion if credentials is None and cluster.gate is not None else credentials

    def build(_companion: SimulatedCompanion, ports: MemberPorts) -> Sequence[ClosableAgent]:
        return build_standby(config, ports, make(), shown)

    companion = cluster.companions[name] = SimulatedCompanion(cluster, wanted, build)
    return companion
