"""The agents of a backup in one process: mark files, media driver, archive and backup agent. No I/O here.

The runtimes build backups with this module as they build members with `upheaval_node.member`. Agents are listed in the
order of their duty cycles; they are closed in reverse order.
"""

import zlib

from upheaval_node.archive.archive import Archive
from upheaval_node.archive.reader import read_recordings
from upheaval_node.backup.agent import BackupAgent
from upheaval_node.backup.config import BackupConfig
from upheaval_node.counters import BACKUP_QUERY_DEADLINE, RECORDING_POSITION
from upheaval_node.credentials import CredentialsSupplier, NoCredentials
from upheaval_node.errors import UsageError
from upheaval_node.files import layout
from upheaval_node.marks import MarkKeeper, MarkMaker
from upheaval_node.media.component import ComponentMedia
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import NamingResolver, StaticResolver
from upheaval_node.member import MemberPorts
from upheaval_node.ports import Storage
from upheaval_node.tls_files import MEMBER

BackupNodeAgent = MarkKeeper | MediaDriver | Archive | BackupAgent
"""A part of a backup: an agent with an orderly end."""


def build_backup(
    config: BackupConfig, ports: MemberPorts, credentials: CredentialsSupplier | None = None
) -> list[BackupNodeAgent]:
    """Build all agents of a backup.

    Its `BackupAgent` runs before the archive: it names the terms of the log before the archive writes them. Raises
    `UsageError` if there are recordings but no recording log that names them.
    """
    marks = backup_marks(config, ports)
    try:
        _require_recording_log(ports.storage)
        driver, archive, media = build_backup_archive(config, ports)
        agent = build_backup_agent(config, ports, media, credentials, is_alone=True)
    except Exception:
        marks.signal_failed_start()
        raise
    marks.signal_ready(ports.now_ms)
    return [marks, driver, agent, archive]


def _require_recording_log(storage: Storage) -> None:
    """Recordings that the recording log does not name are deleted, but not if the recording log itself was lost."""
    if storage.exists(layout.RECORDING_LOG):
        return
    count = len(read_recordings(storage))
    if count:
        raise UsageError(
            f"the archive holds {count} recordings, but {layout.RECORDING_LOG} is missing: put it back, or begin in an "
            "empty folder"
        )


def backup_marks(config: BackupConfig, ports: MemberPorts, service_count: int = 0) -> MarkKeeper:
    """The mark files of agent, archive and services. Raises `UsageError` for a folder that a member has used."""
    make = MarkMaker(ports.storage, config.folder, config.cluster_id, ports.pid, ports.now_ms)
    return MarkKeeper(
        [
            make.backup(),
            make.archive(archive_id_of(config.name), config.endpoints.archive),
            *(make.service(service_id) for service_id in range(service_count)),
        ]
    )


def build_backup_archive(config: BackupConfig, ports: MemberPorts) -> tuple[MediaDriver, Archive, ComponentMedia]:
    """Build media driver and archive, and the media for the backup agent."""
    resolver = ports.resolver or StaticResolver(config.names)
    driver = MediaDriver(
        ports.network,
        resolver if config.tls is None else NamingResolver(resolver, {}, MEMBER),
        config.settings.media,
        ports.random("media"),
        ports.counters,
        name=config.name,
        errors=ports.errors,
    )
    views = ComponentMedia(driver), ComponentMedia(driver)
    archive = Archive(
        ports.media_of(views[0], "archive", sees_logs=False),
        ports.storage,
        ports.counters,
        config.settings.archive,
        ports.random("archive"),
        ports.errors,
        control_channel=f"aeron:tcp?endpoint={config.endpoints.archive}",
        archive_id=archive_id_of(config.name),
    )
    archive.bell = views[0].bell
    return driver, archive, views[1]


def build_backup_agent(
    config: BackupConfig,
    ports: MemberPorts,
    media: ComponentMedia,
    credentials: CredentialsSupplier | None,
    *,
    is_alone: bool = False,
) -> BackupAgent:
    """The agent on the media of `build_backup_archive`; `is_alone` if no other process records in that archive.

    Raises `DecodeError` for a damaged recording log.
    """
    agent = BackupAgent(
        ports.media_of(media, "backup"),
        ports.storage,
        ports.counters,
        config,
        ports.tracer_of("backup"),
        ports.random("backup"),
        ports.errors,
        credentials or NoCredentials(),
        is_alone=is_alone,
    )
    agent.bell = media.bell
    ports.counters.ring(media.bell, RECORDING_POSITION, BACKUP_QUERY_DEADLINE)
    return agent


def archive_id_of(name: str) -> int:
    """An id for the archive of a backup that differs from those of members, which are their member ids."""
    return 1 << 32 | zlib.crc32(name.encode())
