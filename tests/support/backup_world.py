"""Backups of a simulated cluster, and members that start from what a backup left.

Real members, real backup agents and archives, virtual time: `support.system_world` with one more kind of host.
"""

from collections.abc import Callable

from support.system_world import Chorus, System
from upheaval.records import CompanionConfig
from upheaval.runtimes.simulated.companion import SimulatedCompanion, make_backup
from upheaval.runtimes.simulated.disk import Disk
from upheaval_node.backup.agent import BackupAgent
from upheaval_node.backup.config import BackupEndpoints
from upheaval_node.cluster.authentication import SessionProxy
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.settings import MemberSettings
from upheaval_node.types import Now

CREDENTIALS = b"admin:admin"
CHALLENGE_ANSWER = b"admin:CSadmin"


class OneBackup:
    """Lets in clients that say `admin:admin`, and asks those that say nothing for it. Clients of the name `-` come in
    as well.
    """

    def __init__(self) -> None:
        self._said: dict[int, bytes] = {}

    def on_connect_request(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self._said[session_id] = encoded_credentials

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        said = self._said[proxy.session_id]
        if said == b"challenge me":
            proxy.challenge(b"challenge")
        elif said in (CREDENTIALS, b"-"):
            proxy.authenticate(b"admin")
        else:
            proxy.reject()

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self._said[session_id] = encoded_credentials

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        said = self._said[proxy.session_id]
        if said == CHALLENGE_ANSWER:
            proxy.authenticate(b"admin")
        elif said != b"challenge me":
            proxy.reject()


class OnlyAdmin:
    """Only the principal `admin` may ask for a backup."""

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:
        return template_id == cm.BackupQuery.TEMPLATE_ID and principal == b"admin"


class Says:
    """Credentials of a client or a backup, and its answer to challenges."""

    def __init__(self, credentials: bytes, answer: bytes = b"") -> None:
        self.credentials = credentials
        self._answer = answer

    def encoded_credentials(self) -> bytes:
        return self.credentials

    def on_challenge(self, encoded_challenge: bytes) -> bytes:
        return self._answer


class Backup:
    """One backup of a system's cluster."""

    def __init__(
        self,
        system: System,
        name: str = "backup-0",
        *,
        source: str = "ANY",
        replay_start: str = "BEGINNING",
        endpoints: BackupEndpoints | None = None,
        credentials: CredentialsSupplier | None = None,
    ) -> None:
        self.system = system
        config = CompanionConfig(name, source, replay_start)
        self.companion: SimulatedCompanion = make_backup(
            system.cluster, config, endpoints=endpoints, credentials=credentials
        )
        self.companion.start()

    @property
    def state(self) -> str | None:
        return self.companion.status().state

    @property
    def position(self) -> int:
        return self.companion.status().live_log_position

    @property
    def snapshots_retrieved(self) -> int:
        return self.companion.status().snapshots_retrieved

    @property
    def agent(self) -> BackupAgent:
        """That of the present incarnation."""
        (agent,) = (each for each in self.companion.agents if isinstance(each, BackupAgent))
        return agent

    @property
    def supplier(self) -> int:
        return self.agent.supplier_id

    def recording_log(self) -> RecordingLog:
        """What its file says now."""
        return RecordingLog(self.companion.disk.storage(_Onlooker()))

    def follow(self, what: str = "backup that follows the log") -> None:
        """Wait until it has the log up to where the cluster has committed it."""
        system = self.system
        position = system.status(system.leader()).commit_position
        system.until(lambda: self.companion.status().has_reached(position), f"{what}: {self.companion.status()}")

    def restored(
        self, services: Callable[[], list[Chorus]] = lambda: [Chorus()], settings: MemberSettings | None = None
    ) -> System:
        """A cluster of one member that starts on a copy of this backup's files, as they are now."""
        system = System(1, seed=7, services=services, settings=settings, starts=[])
        copy_files(self.companion.disk, system.cluster.members[0].disk)
        system.start(0)
        system.leader()
        return system

    def restored_messages(self) -> list[bytes]:
        """What the service of such a member has heard, snapshot and log."""
        return self.restored().service(0).messages


class _Onlooker:
    """Only reads: the owner of storage that no process has."""

    alive = True

    def post(self, action: Callable[[], None]) -> None:
        action()


def copy_files(source: Disk, target: Disk) -> None:
    """All visible files of one disk, as `cp -r` copies them."""
    for path in source.paths:
        inode = source.find(path)
        copied = target.create(path)
        copied.write(0, bytes(inode.data))
        copied.truncate(inode.size)
