"""A backup or standby as members see it: a host that asks on their consensus stream and hears the answers."""

from random import Random

from support.archive_world import SETTINGS as ARCHIVE_SETTINGS, Syncs
from support.cluster_world import ClusterWorld, Member
from support.memory_storage import MemoryStorage
from upheaval_node.archive.archive import Archive
from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.recording_replication import ReplicationSource
from upheaval_node.archive.snapshot_replication import SnapshotReplication
from upheaval_node.cluster.authentication import AcceptEveryone, SessionProxy
from upheaval_node.counters import Counters
from upheaval_node.files.recording_log import Entry
from upheaval_node.media.api import Message, Publication
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.protocol import cluster_messages as cm, codec
from upheaval_node.types import MAX_POSITION, Now

VERSION = 3 << 8
STREAM = 108


class Party:
    """Listens at `name`:1."""

    def __init__(self, world: ClusterWorld, name: str = "backup") -> None:
        self.world = world
        self.channel = f"aeron:tcp?endpoint={name}:1"
        self.driver = MediaDriver(
            world.network, StaticResolver(), world.settings.media, Random(world.random.random()), name=name
        )
        self.heard: list[codec.Message] = []
        self._subscription = self.driver.add_subscription(self.channel, STREAM)
        self._publications: dict[int, Publication] = {}
        world.parties.append(self)

    def do_work(self, now: Now) -> int:
        return self.driver.do_work(now) + self._subscription.poll(self._take, 100)

    def next_deadline_ns(self) -> int:
        return self.driver.next_deadline_ns()

    def _take(self, received: Message) -> None:
        message = cm.SCHEMA.decode(received.payload)
        assert message is not None
        self.heard.append(message)

    def publication(self, member: Member) -> Publication:
        found = self._publications.get(member.id)
        if found is None:
            found = self.driver.add_publication(f"aeron:tcp?endpoint=m{member.id}:2", STREAM)
            self._publications[member.id] = found
            self.world.until(lambda: found.is_connected)
        return found

    def send(self, member: Member, message: codec.Message) -> None:
        publication = self.publication(member)
        encoded = cm.SCHEMA.encode(message)
        self.world.until(lambda: publication.offer(encoded) > 0)

    def ask(self, member: Member, message: codec.Message) -> codec.Message:
        """The next thing that is heard after sending."""
        count = len(self.heard)
        self.send(member, message)
        self.world.until(lambda: len(self.heard) > count)
        return self.heard[count]

    # --- requests ---

    def query(
        self, correlation_id: int = 5, *, position: int = MAX_POSITION, version: int = VERSION, credentials: bytes = b""
    ) -> cm.BackupQuery:
        return cm.BackupQuery(correlation_id, STREAM, version, position, self.channel, credentials)

    def heartbeat(self, correlation_id: int = 6, credentials: bytes = b"") -> cm.HeartbeatRequest:
        return cm.HeartbeatRequest(correlation_id, STREAM, self.channel, credentials)

    def notice(
        self, *snapshots: cm.StandbySnapshotSnapshot, correlation_id: int = 7, version: int = VERSION
    ) -> cm.StandbySnapshot:
        return cm.StandbySnapshot(correlation_id, version, STREAM, snapshots, self.channel, b"")


class ArchivedParty(Party):
    """One with an archive of its own, at `name`:5."""

    def __init__(self, world: ClusterWorld, name: str = "backup") -> None:
        super().__init__(world, name)
        self.endpoint = f"{name}:5"
        self.storage = MemoryStorage()
        self.counters = Counters.in_memory(512)
        self.archive = Archive(
            self.driver,
            self.storage,
            self.counters,
            ARCHIVE_SETTINGS,
            Random(world.random.random()),
            world.members[min(world.members)].errors,
            control_channel=f"aeron:tcp?endpoint={self.endpoint}",
            archive_id=70,
        )
        self._syncs = Syncs(self.storage)
        self.client = self.archive_client()
        self._clients = [self.client]
        world.until(lambda: self.client.is_connected)

    def do_work(self, now: Now) -> int:
        work = super().do_work(now) + self._syncs.do_work(now) + self.archive.do_work(now)
        return work + sum(client.do_work(now) for client in self._clients)

    def archive_client(self) -> ArchiveClient:
        """One of its own archive."""
        return ArchiveClient(self.driver, name="party")

    def remote_archive(self, member: Member) -> ArchiveClient:
        """One of a member's archive."""
        client = ArchiveClient(self.driver, control_channel=f"aeron:tcp?endpoint=m{member.id}:5", name="party")
        self._clients.append(client)
        self.world.until(lambda: client.is_connected)
        return client

    def call(self, call: PendingCall) -> int:
        self.world.until(lambda: call.done)
        assert call.error is None, call.error
        return call.relevant_id

    def fetch(self, member: Member, entries: list[Entry]) -> dict[int, int]:
        """Copy the recordings of a member's snapshots; own recordings by those of the member."""
        source = ReplicationSource(f"aeron:tcp?endpoint=m{member.id}:5")
        replication = SnapshotReplication(self.client, self.counters, source, [e.recording_id for e in entries])

        def is_complete() -> bool:
            for signal in self.client.take_signals():
                replication.on_signal(signal)
            replication.poll(self.world.now)
            return replication.is_complete

        self.world.until(is_complete)
        return replication.recordings

    def notice_of(self, entries: list[Entry], recordings: dict[int, int]) -> cm.StandbySnapshot:
        """What a standby says that took the same snapshots."""
        return self.notice(
            *(
                cm.StandbySnapshotSnapshot(
                    recordings[entry.recording_id],
                    entry.leadership_term_id,
                    entry.term_base_log_position,
                    entry.log_position,
                    entry.timestamp,
                    entry.service_id,
                    self.endpoint,
                )
                for entry in entries
            )
        )


class Challenges(AcceptEveryone):
    """Accepts a client that answers the challenge `who?` with the secret, as the principal of that name."""

    def __init__(self) -> None:
        self._answers: dict[int, bytes] = {}

    def on_connected_session(self, now: Now, proxy: SessionProxy) -> None:
        proxy.challenge(b"who?")

    def on_challenge_response(self, now: Now, session_id: int, encoded_credentials: bytes) -> None:
        self._answers[session_id] = encoded_credentials

    def on_challenged_session(self, now: Now, proxy: SessionProxy) -> None:
        answer = self._answers.pop(proxy.session_id, None)
        if answer == b"secret":
            proxy.authenticate(b"principal")
        elif answer is not None:
            proxy.reject()


class PrincipalOnly:
    """Allows the principal everything and others nothing; keeps what it was asked."""

    asked: list[tuple[int, int, int | None, bytes]] = []

    def is_authorised(self, schema_id: int, template_id: int, request_type: int | None, principal: bytes) -> bool:
        self.asked.append((schema_id, template_id, request_type, principal))
        return principal == b"principal"
