"""The members' side of a cluster client, made by hand, over media drivers on a memory network and virtual time.

A member keeps what it receives and answers only when a test says so.
"""

from random import Random

from support.media_world import World
from upheaval_node.client.session import ClusterClient
from upheaval_node.client.states import ClientState
from upheaval_node.media.api import Message, Publication
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message as ClusterMessage
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.types import Now

ENDPOINTS = {0: "m0:9002", 1: "m1:9002", 2: "m2:9002"}
ENDPOINT_LIST = ",".join(f"{member_id}={endpoint}" for member_id, endpoint in ENDPOINTS.items())
SESSION_ID = 42
CONNECTION_TIMEOUT_NS = 500_000_000
LEADER_HEARTBEAT_TIMEOUT_NS = 1_000_000_000


class MemberSide:
    """One member: an ingress and an egress to the last client that asked."""

    def __init__(self, world: World, member_id: int) -> None:
        self.member_id = member_id
        self.world = world
        self.media = world.driver()
        self.received: list[ClusterMessage] = []
        self.payloads: list[bytes] = []
        self.images: list[int] = []
        self.egress: Publication | None = None
        self.ingress = self.media.add_subscription(f"aeron:tcp?endpoint={ENDPOINTS[member_id]}", 101)
        world.agents.append(self)

    def do_work(self, now: Now) -> int:
        return self.ingress.poll(self._on_message, 10)

    def _on_message(self, message: Message) -> None:
        decoded = cm.SCHEMA.decode(message.payload)
        assert decoded is not None
        self.received.append(decoded)
        if isinstance(decoded, cm.SessionMessageHeader):
            self.payloads.append(bytes(message.payload[32:]))

    def last(self, kind: type[ClusterMessage]) -> ClusterMessage:
        return [message for message in self.received if isinstance(message, kind)][-1]

    def count(self, kind: type[ClusterMessage]) -> int:
        return sum(isinstance(message, kind) for message in self.received)

    @property
    def request(self) -> cm.SessionConnectRequest:
        request = self.last(cm.SessionConnectRequest)
        assert isinstance(request, cm.SessionConnectRequest)
        return request

    # --- answers ---

    def open_egress(self, request: cm.SessionConnectRequest) -> None:
        self.egress = self.media.add_publication(request.response_channel, request.response_stream_id)
        self.world.settle()

    def send(self, *parts: Buffer) -> None:
        assert self.egress is not None
        assert self.egress.offer(*parts) > 0
        self.world.settle()

    def answer(
        self,
        code: cm.EventCode,
        detail: str = "",
        *,
        leader: int | None = None,
        term: int = 3,
        correlation_id: int | None = None,
    ) -> None:
        """A SessionEvent for the connect request, or the challenge response, that came last."""
        if self.egress is None:
            self.open_egress(self.request)
        last = next(
            m for m in reversed(self.received) if isinstance(m, cm.SessionConnectRequest | cm.ChallengeResponse)
        )
        event = cm.SessionEvent(
            cluster_session_id=SESSION_ID if code is cm.EventCode.OK else -1,
            correlation_id=last.correlation_id if correlation_id is None else correlation_id,
            leadership_term_id=term,
            leader_member_id=self.member_id if leader is None else leader,
            code=code,
            version=768,
            leader_heartbeat_timeout_ns=LEADER_HEARTBEAT_TIMEOUT_NS,
            detail=detail,
        )
        self.send(cm.SCHEMA.encode(event))

    def new_leader(self, request: cm.SessionConnectRequest, *, term: int = 4, endpoints: str = ENDPOINT_LIST) -> None:
        if self.egress is None:
            self.open_egress(request)
        event = cm.NewLeaderEvent(
            leadership_term_id=term,
            cluster_session_id=SESSION_ID,
            leader_member_id=self.member_id,
            ingress_endpoints=endpoints,
        )
        self.send(cm.SCHEMA.encode(event))

    def message(self, payload: bytes, *, session_id: int = SESSION_ID) -> None:
        self.send(pack_session_header(3, session_id, 77), payload)

    def stop(self) -> None:
        """The member's process is gone: its listeners and connections too."""
        self.world.agents.remove(self)
        self.world.agents.remove(self.media)
        self.media.close()


class ClientSide:
    """A client that is polled by the world, with everything that it heard."""

    def __init__(self, world: World, members: dict[int, str] | None = None, **settings: object) -> None:
        self.media = world.driver(connection_timeout_ns=CONNECTION_TIMEOUT_NS)
        self.messages: list[tuple[int, bytes]] = []
        self.events: list[ClusterMessage] = []
        self.client = ClusterClient(
            self.media,
            ENDPOINTS if members is None else members,
            random=Random(5),
            listener=self,
            **settings,  # type: ignore[arg-type]
        )
        world.agents.append(self)

    @property
    def state(self) -> ClientState:
        return self.client.state

    def do_work(self, now: Now) -> int:
        return self.client.do_work(now) + self.client.poll(self._on_message)

    def _on_message(self, timestamp: int, payload: Buffer) -> None:
        self.messages.append((timestamp, bytes(payload)))

    def on_session_event(self, event: cm.SessionEvent) -> None:
        self.events.append(event)

    def on_new_leader(self, event: cm.NewLeaderEvent) -> None:
        self.events.append(event)

    def on_admin_response(self, response: cm.AdminResponse) -> None:
        self.events.append(response)
