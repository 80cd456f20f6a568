"""Parts of a consensus module on a real media driver, without the module around them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from support.cluster_world import RecordedTrace, members_string
from support.media_world import World
from support.memory_storage import MemoryStorage
from upheaval_node.cluster.authentication import (
    AcceptEveryone,
    Authenticator,
    AuthorisationService,
    authorisation_named,
)
from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.sessions import SessionManager
from upheaval_node.counters import Counters
from upheaval_node.media.api import Message, Publication, Subscription
from upheaval_node.media.driver import MediaDriver
from upheaval_node.protocol import cluster_messages as cm, codec
from upheaval_node.settings import ClusterSettings, MemberSettings
from upheaval_node.types import MS, Now

TERM = 7
LOG_CHANNEL = "aeron:ipc?term-length=64k|mtu=1408|alias=log"


@dataclass
class Leader:
    """A leadership as sessions see it; without a log it is a follower's."""

    active_log: LogPublisher | None = None
    leadership_term_id: int = TERM
    leader_member_id: int = 0
    forwarded: list[codec.Message] = field(default_factory=list)

    def send_to_leader(self, now: Now, message: codec.Message) -> bool:
        if self.active_log is None:
            self.forwarded.append(message)
        return self.active_log is None


class PartsWorld(World):
    """One member's driver, a log that a subscription reads, and drivers of clients."""

    def __init__(
        self,
        *,
        max_sessions: int = 10,
        seed: int = 1,
        authenticator: Authenticator | None = None,
        authorisation: AuthorisationService | None = None,
    ) -> None:
        super().__init__(seed=seed)
        self.media = self.driver()
        self.trace = RecordedTrace()
        settings = MemberSettings(cluster=ClusterSettings(max_sessions=max_sessions))
        self.context = ModuleContext(
            self.media, MemoryStorage(), Counters.in_memory(), settings, members_string(3), 0, self.trace, self.errors
        )
        self.log_subscription: Subscription = self.media.add_subscription("aeron:ipc", 100)
        self.log_publication: Publication = self.media.add_publication(LOG_CHANNEL, 100)
        self.leader = Leader(LogPublisher(self.log_publication))
        self.sessions = SessionManager(
            self.context, self.leader, authenticator or AcceptEveryone(), authorisation or authorisation_named("")
        )
        self.settle()

    def client_driver(self) -> MediaDriver:
        return self.driver()

    def read_log(self, limit: int = 1 << 20) -> list[tuple[codec.Message, bytes]]:
        """The entries that are in the log now: message and, after a session header, payload."""
        entries: list[tuple[codec.Message, bytes]] = []

        def take(message: Message) -> None:
            decoded = cm.SCHEMA.decode_with_end(message.payload)
            assert decoded is not None
            entries.append((decoded[0], bytes(message.payload[decoded[1] :])))

        self.log_subscription.poll(take, limit)
        return entries

    def until_true(self, condition: Callable[[], bool], ms: int = 5000) -> None:
        for _ in range(0, ms, 20):
            self.settle()
            if condition():
                return
            self.ns += 20 * MS
        raise AssertionError("the condition does not come true")
