"""The agents of a standby: those of a backup, the module that reads the log, and the services. No I/O here.

Agents are listed in the order of their duty cycles; they are closed in reverse order.
"""

from collections.abc import Sequence

from upheaval_node.backup.agent import BackupAgent
from upheaval_node.backup.node import (
    BackupNodeAgent,
    backup_marks,
    build_backup_agent,
    build_backup_archive,
)
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.counters import COMMIT_POSITION, RECORDING_POSITION, RECOVERY_STATE
from upheaval_node.credentials import CredentialsSupplier, NoCredentials
from upheaval_node.media.component import ComponentMedia
from upheaval_node.member import MemberPorts
from upheaval_node.service.api import ClusteredService
from upheaval_node.service.container import ServiceContainer
from upheaval_node.standby.config import StandbyConfig
from upheaval_node.standby.module import StandbyModule, standby_members
from upheaval_node.standby.notices import SnapshotNotices
from upheaval_node.types import NULL_MEMBER_ID

StandbyAgent = BackupNodeAgent | StandbyModule | ServiceContainer
"""A part of a standby: an agent with an orderly end."""


def build_standby(
    config: StandbyConfig,
    ports: MemberPorts,
    services: Sequence[ClusteredService],
    credentials: CredentialsSupplier | None = None,
) -> list[StandbyAgent]:
    """Build all agents of a standby: marks, media driver, backup agent, archive, module, and a container per
    service.
    """
    supplier = credentials or NoCredentials()
    marks = backup_marks(config.backup, ports, len(config.services))
    try:
        driver, archive, media = build_backup_archive(config.backup, ports)
        agent = build_backup_agent(config.backup, ports, media, supplier)
        module = _module(config, ports, ComponentMedia(driver), agent, supplier)
        containers = [
            _container(config, ports, ComponentMedia(driver), service, service_id)
            for service_id, service in enumerate(services)
        ]
    except Exception:
        marks.signal_failed_start()
        raise
    marks.signal_ready(ports.now_ms)
    return [marks, driver, agent, archive, module, *containers]


def _module(
    config: StandbyConfig, ports: MemberPorts, view: ComponentMedia, agent: BackupAgent, supplier: CredentialsSupplier
) -> StandbyModule:
    backup = config.backup
    media = ports.media_of(view, "standby")
    notices = SnapshotNotices(
        media,
        backup.consensus_endpoints,
        backup.endpoints.consensus,
        supplier,
        ports.errors.report,
        timeout_ns=backup.settings.backup.response_timeout_ns,
    )
    context = ModuleContext(
        media,
        ports.storage,
        ports.counters,
        config.member_settings,
        standby_members(backup.endpoints.consensus, backup.endpoints.catchup, backup.endpoints.archive),
        NULL_MEMBER_ID,
        ports.tracer_of("standby"),
        ports.errors,
        recording_log=agent.recording_log,
    )
    module = StandbyModule(context, notices)
    module.bell = view.bell
    ports.counters.ring(view.bell, RECORDING_POSITION)
    return module


def _container(
    config: StandbyConfig, ports: MemberPorts, view: ComponentMedia, service: ClusteredService, service_id: int
) -> ServiceContainer:
    component = f"service-{service_id}"
    container = ServiceContainer(
        ports.media_of(view, component),
        ports.counters,
        service,
        config.cluster,
        service_id=service_id,
        tracer=ports.tracer_of(component),
        errors=ports.errors,
        is_responding=False,
    )
    container.bell = view.bell
    ports.counters.ring(view.bell, COMMIT_POSITION, RECOVERY_STATE, RECORDING_POSITION)
    return container
