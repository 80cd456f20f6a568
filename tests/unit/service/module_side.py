"""The consensus module's side of a service container, made by hand, over a real media driver and virtual time.

It owns the counters, the log and the two control streams, and does nothing by itself: a test says what is sent, how
far the log is committed, and when time passes.
"""

from collections.abc import Callable, Sequence
from random import Random

from upheaval_node import counters as counter_types
from upheaval_node.counters import Counter, Counters
from upheaval_node.errors import NetworkError, TerminationError
from upheaval_node.media.api import Message
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Agent, Connection, ConnectionHandler, Listener, Network
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.protocol.message import Message as Entry
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.api import (
    ClientSession,
    CloseReason,
    Cluster,
    ClusteredService,
    ClusterRole,
    ClusterTimeUnit,
    SnapshotImage,
)
from upheaval_node.service.container import ServiceContainer
from upheaval_node.settings import ClusterSettings, MediaSettings
from upheaval_node.types import MAX_POSITION, MS, Now

LOG_CHANNEL = "aeron:ipc?init-term-id=0|term-id=0|term-offset=0|term-length=64k|session-id=77"
LOG_SESSION_ID = 77
MAX_ROUNDS = 200


class NoNetwork:
    """For a member that is alone: nothing can be listened to or dialled."""

    def listen(self, address: str, accept: Callable[[Connection], ConnectionHandler]) -> Listener:
        raise NetworkError(f"no network to listen on {address}")

    def dial(self, address: str, handler: ConnectionHandler) -> Connection:
        raise NetworkError(f"no network to dial {address}")


class Records:
    """Takes errors and trace events, and keeps them."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, str]] = []
        self.events: list[str] = []
        self.fields: list[dict[str, int | str | bool | None]] = []
        """Of each event."""

    def report(self, now: Now, kind: str, text: str) -> None:
        self.errors.append((kind, text))

    def emit(self, now: Now, event: str, **fields: int | str | bool | None) -> None:
        self.events.append(event)
        self.fields.append(fields)


class Recorder(ClusteredService):
    """A service that writes down every callback, and runs what a test puts into `during`."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.during: dict[str, Callable[[], object]] = {}
        self.cluster: Cluster | None = None

    def _called(self, name: str, *arguments: object) -> None:
        self.calls.append((name, *arguments))
        if name in self.during:
            self.during[name]()

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        self.cluster = cluster
        self._called("start", snapshot_image)

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        self._called("open", session.id, timestamp)

    def on_session_close(self, session: ClientSession, timestamp: int, reason: CloseReason) -> None:
        self._called("close", session.id, timestamp, reason)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        self._called("message", session.id if session else None, timestamp, bytes(payload), position)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self._called("timer", correlation_id, timestamp)

    def on_role_change(self, role: ClusterRole) -> None:
        self._called("role", role)

    def on_new_leadership_term_event(
        self,
        *,
        leadership_term_id: int,
        log_position: int,
        timestamp: int,
        term_base_log_position: int,
        leader_member_id: int,
        log_session_id: int,
        time_unit: ClusterTimeUnit,
        app_version: int,
    ) -> None:
        self._called("term", leadership_term_id, timestamp, leader_member_id, time_unit)

    def on_terminate(self, cluster: Cluster) -> None:
        self._called("terminate", cluster.log_position)

    def do_background_work(self, now_ns: int) -> int:
        if "background" in self.during:
            self.during.pop("background")()
        return 0

    def named(self, name: str) -> list[tuple[object, ...]]:
        return [call for call in self.calls if call[0] == name]


class ModuleSide:
    """The member around one container."""

    def __init__(self, service: ClusteredService | None = None, network: Network | None = None) -> None:
        self.now = Now(1_000_000_000, 1_700_000_000_000)
        self.service = service or Recorder()
        self.records = Records()
        self.counters = Counters.in_memory(64)
        self.media = MediaDriver(network or NoNetwork(), StaticResolver(), MediaSettings(), Random(1), None)
        self.others: list[Agent] = []
        self.received: list[Entry] = []
        self.service_messages: list[tuple[int, bytes]] = []
        self.container = ServiceContainer(
            self.media,
            self.counters,
            self.service,
            ClusterSettings(),
            tracer=self.records,
            errors=self.records,
        )
        self.to_service = self.media.add_publication("aeron:ipc?term-length=128k", 104)
        self.from_service = self.media.add_subscription("aeron:ipc?term-length=128k", 105)
        self.log = self.media.add_publication(LOG_CHANNEL, LOG_STREAM_ID)
        self.commit: Counter | None = None
        self.recovery: Counter | None = None

    @property
    def recorder(self) -> Recorder:
        assert isinstance(self.service, Recorder)
        return self.service

    @property
    def acks(self) -> list[tuple[int, int, int]]:
        """(ack id, log position, relevant id) of every ServiceAck so far."""
        return [(m.ack_id, m.log_position, m.relevant_id) for m in self.received if isinstance(m, cm.ServiceAck)]

    # --- time ---

    def run(self) -> None:
        """Let every part work until none finds anything to do."""
        for _ in range(MAX_ROUNDS):
            work = self.media.do_work(self.now) + self.container.do_work(self.now)
            work += self.from_service.poll(self._on_message, 10)
            work += sum(agent.do_work(self.now) for agent in self.others)
            if work == 0:
                return
        raise AssertionError(f"still at work after {MAX_ROUNDS} rounds")

    def run_for(self, milliseconds: int) -> None:
        for _ in range(0, milliseconds, 10):
            self.now = Now(self.now.ns + 10 * MS, self.now.epoch_ms + 10)
            self.run()

    def run_to_termination(self) -> TerminationError:
        for _ in range(200):
            try:
                self.run_for(10)
            except TerminationError as error:
                self.take_messages()
                return error
        raise AssertionError("the container did not end")

    def take_messages(self) -> None:
        """Read what the container sent before it ended."""
        self.media.do_work(self.now)
        self.from_service.poll(self._on_message, 10)

    # --- what a module does ---

    def start(self, *, term_id: int = -1, log_position: int = 0, commit_position: int = 0) -> None:
        """Publish the counters, and take the first ack."""
        self.commit = self.counters.allocate(
            counter_types.COMMIT_POSITION, counter_types.cluster_key(0), "commit", commit_position
        )
        key = counter_types.recovery_state_key(term_id, log_position, 0, 0, [])
        self.recovery = self.counters.allocate(counter_types.RECOVERY_STATE, key, "recovery")
        self.run_for(10)

    def commit_to(self, position: int) -> None:
        assert self.commit is not None
        self.commit.set(position)
        self.run()

    def commit_all(self) -> None:
        self.commit_to(self.log.position)

    def tell(self, message: Entry) -> None:
        assert self.to_service.offer(cm.SCHEMA.encode(message)) > 0
        self.run()

    def join(
        self,
        role: ClusterRole = ClusterRole.LEADER,
        *,
        position: int = 0,
        max_position: int = MAX_POSITION,
        channel: str = "aeron:ipc",
        session_id: int = LOG_SESSION_ID,
        is_startup: bool = False,
    ) -> None:
        self.tell(
            cm.JoinLog(
                log_position=position,
                max_log_position=max_position,
                member_id=2,
                log_session_id=session_id,
                log_stream_id=LOG_STREAM_ID,
                is_startup=is_startup,
                role=role,
                log_channel=channel,
            )
        )

    def append(self, *entries: Entry) -> int:
        """Append entries to the log without committing them; returns the position after the last."""
        for entry in entries:
            assert self.log.offer(cm.SCHEMA.encode(entry)) > 0
        return self.log.position

    def append_messages(self, session_id: int, payloads: Sequence[bytes], timestamp: int = 5) -> int:
        for payload in payloads:
            assert self.log.offer(pack_session_header(1, session_id, timestamp), payload) > 0
        return self.log.position

    def _on_message(self, message: Message) -> None:
        decoded = cm.SCHEMA.decode(message.payload)
        assert decoded is not None
        self.received.append(decoded)
        if isinstance(decoded, cm.SessionMessageHeader):
            self.service_messages.append((decoded.cluster_session_id, bytes(message.payload[32:])))


def session_open(session_id: int, channel: str = "aeron:tcp?endpoint=client:1", timestamp: int = 1) -> Entry:
    return cm.SessionOpenEvent(
        leadership_term_id=1,
        correlation_id=9,
        cluster_session_id=session_id,
        timestamp=timestamp,
        response_stream_id=102,
        response_channel=channel,
        encoded_principal=b"somebody",
    )


def session_close(session_id: int, timestamp: int = 8) -> Entry:
    return cm.SessionCloseEvent(
        leadership_term_id=1,
        cluster_session_id=session_id,
        timestamp=timestamp,
        close_reason=cm.CloseReason.CLIENT_ACTION,
    )


def new_term(term_id: int = 1, app_version: int = 1, timestamp: int = 2) -> Entry:
    return cm.NewLeadershipTermEvent(
        leadership_term_id=term_id,
        log_position=96,
        timestamp=timestamp,
        term_base_log_position=0,
        leader_member_id=2,
        log_session_id=LOG_SESSION_ID,
        time_unit=cm.ClusterTimeUnit.MILLIS,
        app_version=app_version,
    )
