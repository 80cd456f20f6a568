"""A real backup on a memory network, and members that say what a test wants them to say.

`ScriptedMember` listens where a member's consensus module does and answers nothing by itself. Its archive is a real one
where a test gives it one.
"""

from random import Random

from support.archive_world import SETTINGS as ARCHIVE_SETTINGS, ArchiveWorld, Member, Syncs
from support.cluster_world import RecordedTrace
from support.memory_storage import MemoryStorage
from upheaval_node.backup.agent import BackupAgent
from upheaval_node.backup.config import BackupConfig, BackupEndpoints, ReplayStart, SourceType
from upheaval_node.backup.node import build_backup
from upheaval_node.backup.states import BackupState
from upheaval_node.counters import COMMIT_POSITION, Counters, cluster_key
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.media.api import Message, Publication
from upheaval_node.media.driver import MediaDriver
from upheaval_node.member import MemberPorts
from upheaval_node.protocol import cluster_messages as cm, codec
from upheaval_node.settings import BackupNodeSettings, backup_profile_settings

STREAM = 108
CHANNEL = "aeron:tcp?endpoint=backup:1"


def members_string(count: int) -> str:
    return "|".join(f"{i},m{i}:1,m{i}:2,m{i}:3,m{i}:4,m{i}:5" for i in range(count))


class ScriptedMember:
    """Member `id`: keeps what it is asked, and sends what the test says."""

    def __init__(self, world: "BackupBench", member_id: int) -> None:
        self.id = member_id
        self.heard: list[codec.Message] = []
        self._world = world
        self._driver: MediaDriver = world.driver()
        self._subscription = self._driver.add_subscription(f"aeron:tcp?endpoint=m{member_id}:2", STREAM)
        self._publication: Publication | None = None
        world.agents.append(self)

    def do_work(self, now: object) -> int:
        return self._subscription.poll(self._take, 100)

    def _take(self, received: Message) -> None:
        message = cm.SCHEMA.decode(received.payload)
        assert message is not None
        self.heard.append(message)

    def query(self) -> cm.BackupQuery:
        """The newest query, for which the backup waits."""
        self._world.until(lambda: any(isinstance(each, cm.BackupQuery) for each in self.heard))
        return next(each for each in reversed(self.heard) if isinstance(each, cm.BackupQuery))

    def say_bytes(self, payload: bytes) -> None:
        publication = self._publication
        if publication is None or publication.is_closed:
            publication = self._publication = self._driver.add_publication(CHANNEL, STREAM)
        opened = publication
        self._world.until(lambda: opened.is_connected)
        assert opened.offer(payload) > 0
        self._world.settle()

    def say(self, message: codec.Message) -> None:
        self.say_bytes(cm.SCHEMA.encode(message))

    def offer(self, query: cm.BackupQuery, **changes: object) -> cm.BackupResponse:
        """What a leader without snapshots would answer, but for the changes."""
        fields: dict[str, object] = {
            "correlation_id": query.correlation_id,
            "log_recording_id": 0,
            "log_leadership_term_id": 0,
            "log_term_base_log_position": 0,
            "last_leadership_term_id": 0,
            "last_term_base_log_position": 0,
            "commit_position_counter_id": 0,
            "leader_member_id": self.id,
            "member_id": self.id,
            "cluster_members": members_string(3),
            **changes,
        }
        return cm.BackupResponse(**fields)  # type: ignore[arg-type]


class BackupBench(ArchiveWorld):
    """One backup, and `count` scripted members."""

    def __init__(
        self,
        count: int = 1,
        *,
        source: str = "ANY",
        replay_start: str = "BEGINNING",
        settings: BackupNodeSettings | None = None,
        credentials: CredentialsSupplier | None = None,
        storage: MemoryStorage | None = None,
        seed: int = 1,
    ) -> None:
        super().__init__(seed=seed)
        self.members = [ScriptedMember(self, member_id) for member_id in range(count)]
        self.storage = storage or MemoryStorage()
        self.counters = Counters.in_memory(256)
        self.trace = RecordedTrace()
        self.config = BackupConfig(
            name="backup-0",
            folder="backup-0",
            consensus_endpoints=tuple(f"m{member_id}:2" for member_id in range(count)),
            endpoints=BackupEndpoints("backup:1", "backup:2", "backup:3"),
            source=SourceType(source),
            replay_start=ReplayStart(replay_start),
            settings=settings or backup_profile_settings("test"),
        )
        seed = self.random.getrandbits(62)
        ports = MemberPorts(
            network=self.network,
            storage=self.storage,
            counters=self.counters,
            tracer=self.trace,
            errors=self.errors,
            random=lambda component: Random(f"{seed}/{component}"),
            pid=1,
            now_ms=self.now.epoch_ms,
        )
        self.backup_agents = build_backup(self.config, ports, credentials)
        self.agents += [*self.backup_agents, Syncs(self.storage)]
        (self.agent,) = (each for each in self.backup_agents if isinstance(each, BackupAgent))

    @property
    def state(self) -> BackupState:
        return self.agent.state

    @property
    def reasons(self) -> list[str]:
        """Why the states changed, in order."""
        return [str(fields["reason"]) for fields in self.trace.named("backup_state")]

    def await_state(self, state: BackupState) -> None:
        self.until(lambda: self.state is state)

    def await_reset(self) -> str:
        """Wait until the round is given up, and say why it was."""
        self.await_state(BackupState.RESET_BACKUP)
        return self.reasons[-1]

    def asked(self) -> ScriptedMember:
        """The member that is being asked now."""
        self.until(lambda: self.agent.asked_endpoint is not None)
        endpoint = self.agent.asked_endpoint
        return next(member for member in self.members if f"m{member.id}:2" == endpoint)

    def member_archive(self, member_id: int = 0) -> "MemberArchive":
        return MemberArchive(self, member_id)


class MemberArchive:
    """The archive of a scripted member, with a log that the test writes and a counter of what is committed."""

    def __init__(self, world: BackupBench, member_id: int) -> None:
        self._world = world
        self.member: Member = world.member(
            settings=ARCHIVE_SETTINGS, control_channel=f"aeron:tcp?endpoint=m{member_id}:5", archive_id=member_id
        )
        self.commit_position = self.member.counters.allocate(COMMIT_POSITION, cluster_key(0), "commit")
        self._publication = self.member.driver.add_publication("aeron:ipc?term-length=64k", 100)
        session = self._publication.session_id
        world.call(self.member.client.start_recording(f"aeron:ipc?session-id={session}", 100))
        world.until(lambda: self._publication.is_connected)

    def append(self, message: codec.Message) -> int:
        """Write an entry and commit it; the position after it."""
        return self.append_bytes(cm.SCHEMA.encode(message))

    def append_bytes(self, payload: bytes) -> int:
        position = self._publication.offer(payload)
        assert position > 0
        self._world.settle()
        self.commit_position.set(position)
        return position

    def begin_term(self, term_id: int) -> int:
        """Write the entry that begins a term; the position after it."""
        base = self._publication.position
        return self.append(
            cm.NewLeadershipTermEvent(
                leadership_term_id=term_id,
                log_position=base,
                timestamp=1,
                term_base_log_position=base,
                leader_member_id=0,
                log_session_id=1,
                time_unit=cm.ClusterTimeUnit.MILLIS,
                app_version=1,
            )
        )
