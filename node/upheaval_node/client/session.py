"""`ClusterClient`: a session with the cluster that follows the leader (Aeron Cluster: AeronCluster client).

Nothing in here blocks or reads a clock. The owner calls `do_work` and `poll` whenever there was input or the deadline
passed. The state changes only in these calls and by the results of sends. A positive result of `offer` means that the
transport took the message, not that it is in the log: a leader that is about to lose its leadership drops it silently.
"""

from collections.abc import Callable, Mapping
from random import Random
from struct import Struct
from typing import Final, Protocol

from upheaval_node.client.connect import (
    MAX_CLIENT_NAME_LENGTH,
    MESSAGE_TIMEOUT_NS,
    POLL_LIMIT,
    RETRY_INTERVAL_NS,
    Connector,
    response_channel,
)
from upheaval_node.client.ingress import Ingress, parse_ingress_endpoints, parse_received_endpoints
from upheaval_node.client.ports import ClientMedia, EgressSubscription
from upheaval_node.client.states import LEGAL_MOVES, ClientState, ConnectState
from upheaval_node.credentials import CredentialsSupplier, NoCredentials
from upheaval_node.errors import NodeError, PeerError, TimeoutExpired, UsageError
from upheaval_node.media.api import CLOSED, MAX_POSITION_EXCEEDED, NOT_CONNECTED, Image, Message
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.channel import is_response_channel
from upheaval_node.protocol.constants import EGRESS_STREAM_ID, INGRESS_STREAM_ID
from upheaval_node.protocol.session_header import ANY_VERSION_MASK, ANY_VERSION_WORD, pack_session_header
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import NEVER_NS, NOT_YET, NULL_TERM_ID, NULL_VALUE, MemberId, Now, S, SessionId, TermId

KEEP_ALIVE_INTERVAL_NS: Final = S
SEND_ATTEMPTS: Final = 3
DEFAULT_LEADER_HEARTBEAT_TIMEOUT_NS: Final = 10 * S
"""The assumed leader heartbeat time-out of a cluster that does not send it (Aeron's default)."""

_HEADER: Final = Struct("<qqqq")

MessageHandler = Callable[[int, Buffer], None]
"""Takes (timestamp, payload) of a service message. May raise `media.api.Abort` and `Break`."""


class EgressListener(Protocol):
    """Receives the events of a client, apart from service messages."""

    def on_session_event(self, event: cm.SessionEvent) -> None:
        """The cluster closed the session, or refused something (SessionEvent)."""

    def on_new_leader(self, event: cm.NewLeaderEvent) -> None:
        """There is a new leader (NewLeaderEvent), which the client already follows."""

    def on_admin_response(self, response: cm.AdminResponse) -> None:
        """The cluster answered a snapshot request (AdminResponse)."""


class _Deaf:
    def on_session_event(self, event: cm.SessionEvent) -> None: ...
    def on_new_leader(self, event: cm.NewLeaderEvent) -> None: ...
    def on_admin_response(self, response: cm.AdminResponse) -> None: ...


class ClusterClient:
    """One session. Implements `ports.Agent`. A session that has ended cannot be reopened.

    `ingress_endpoints` names the members, as `{0: "host:port"}` or `"0=host:port,1=host:port"`. Without an
    `egress_channel` the cluster answers on the connections that the client dials. With a `keep_alive_interval_ns` of
    None the owner sends keep-alives; the cluster closes a session that is silent for 10 s (its default). Of the
    connected members, the client first asks `first_choice` for the session, which need not be the leader.
    """

    def __init__(
        self,
        media: ClientMedia,
        ingress_endpoints: Mapping[int, str] | str,
        *,
        random: Random,
        egress_channel: str | None = None,
        ingress_stream_id: int = INGRESS_STREAM_ID,
        egress_stream_id: int = EGRESS_STREAM_ID,
        credentials: CredentialsSupplier | None = None,
        listener: EgressListener | None = None,
        message_timeout_ns: int = MESSAGE_TIMEOUT_NS,
        new_leader_timeout_ns: int | None = None,
        keep_alive_interval_ns: int | None = KEEP_ALIVE_INTERVAL_NS,
        client_name: str = "",
        first_choice: Callable[[], int | None] = lambda: None,
    ) -> None:
        if len(client_name) > MAX_CLIENT_NAME_LENGTH or not client_name.isascii():
            raise UsageError(f"client name {client_name!r} is not ASCII of at most {MAX_CLIENT_NAME_LENGTH} characters")
        if isinstance(ingress_endpoints, str):
            ingress_endpoints = parse_ingress_endpoints(ingress_endpoints)
        if not ingress_endpoints:
            raise UsageError("a client needs the ingress endpoint of at least one member")
        self.session_id = SessionId(NULL_VALUE)
        self.leader_member_id = NULL_VALUE
        self.leadership_term_id = NULL_TERM_ID
        self.opened_term_id = NULL_TERM_ID
        self.peer_errors = 0
        self.owes_keep_alive = False
        """Whether a keep-alive was not taken. The next turn tries again."""
        self.sent_ns = 0
        """The last turn in which the transport took a message, a keep-alive or the request to close; 0 for none."""
        self.error: NodeError | None = None
        self._states = StateMachine("session", ClientState.CONNECTING, LEGAL_MOVES)
        self._now = NOT_YET
        self._listener = listener or _Deaf()
        self._message_timeout_ns = message_timeout_ns
        self._new_leader_timeout_ns = new_leader_timeout_ns
        self._keep_alive_interval_ns = keep_alive_interval_ns
        self._keep_alive_deadline_ns = NEVER_NS
        self._deadline_ns = NEVER_NS
        egress_channel = egress_channel or response_channel(random)
        self._ingress = Ingress(
            media, ingress_endpoints, ingress_stream_id, keeps_all=is_response_channel(egress_channel)
        )
        self._egress: EgressSubscription | None = None
        self._egress_image: Image | None = None
        self._header = b""
        self._handler: MessageHandler | None = None
        self._connector = Connector(
            media,
            self._ingress,
            egress_channel=egress_channel,
            egress_stream_id=egress_stream_id,
            credentials=credentials or NoCredentials(),
            client_name=client_name,
            message_timeout_ns=message_timeout_ns,
            first_choice=first_choice,
            on_peer_error=self._on_peer_error,
        )

    @property
    def state(self) -> ClientState:
        """The state of the session, see `states`."""
        return self._states.current

    @property
    def is_connected(self) -> bool:
        """Whether messages may be offered: the ingress of the leader is connected."""
        return self._states.current is ClientState.CONNECTED

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended, by `close` or for the reason in `error`."""
        return self._states.current is ClientState.CLOSED

    @property
    def ingress_endpoints(self) -> Mapping[int, str]:
        """The ingress endpoints of the members, as the cluster last sent them."""
        return dict(self._ingress.endpoints)

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Connect, watch the connection and the deadlines, send keep-alives. Never raises a `NodeError`: see
        `error`.
        """
        self._now = now
        match self._states.current:
            case ClientState.CONNECTING:
                return self._connect(now)
            case ClientState.CONNECTED:
                return self._watch(now)
            case ClientState.AWAIT_NEW_LEADER:
                return self._check_deadline(now, "no new leader within the time-out")
            case ClientState.AWAIT_NEW_LEADER_CONNECTION:
                return self._await_leader_connection(now)
            case ClientState.PENDING_CLOSE:
                self.close()
                return 1
            case ClientState.CLOSED:
                return 0

    def next_deadline_ns(self) -> int:
        """The time of the next keep-alive, retry or time-out."""
        match self._states.current:
            case ClientState.CONNECTING:
                return self._connector.next_deadline_ns()
            case ClientState.CONNECTED:
                return self._keep_alive_deadline_ns
            case ClientState.PENDING_CLOSE:
                return 0
            case ClientState.CLOSED:
                return NEVER_NS
            case ClientState.AWAIT_NEW_LEADER:
                return self._deadline_ns
            case ClientState.AWAIT_NEW_LEADER_CONNECTION:
                return min(self._deadline_ns, self._now.ns + RETRY_INTERVAL_NS)

    def poll(self, handler: MessageHandler, limit: int = POLL_LIMIT) -> int:
        """Deliver up to `limit` fragments of the egress: messages to `handler`, events to the listener."""
        if self._egress is None or self._states.current is ClientState.CLOSED:
            return 0
        self._handler = handler
        return self._egress.poll(self._on_message, limit)

    # --- sending ---

    def offer(self, *parts: Buffer) -> int:
        """Send one message to the service. Returns a positive position or a negative result of `media.api`."""
        return self._send(self._header, *parts)

    def send_keep_alive(self) -> bool:
        """Send a SessionKeepAlive. Returns False when the transport did not take it."""
        message = cm.SessionKeepAlive(leadership_term_id=self.leadership_term_id, cluster_session_id=self.session_id)
        return self._try_to_send(cm.SCHEMA.encode(message))

    def send_snapshot_request(self, correlation_id: int) -> bool:
        """Ask the cluster to take a snapshot. Denied by default (Aeron Cluster).

        Returns False when the transport did not take the request; the answer is an AdminResponse.
        """
        message = cm.AdminRequest(
            leadership_term_id=self.leadership_term_id,
            cluster_session_id=self.session_id,
            correlation_id=correlation_id,
            request_type=cm.AdminRequestType.SNAPSHOT,
        )
        return self._try_to_send(cm.SCHEMA.encode(message))

    def close(self) -> None:
        """Close the session with the leader, if it can be reached, and release everything."""
        if self._states.current is ClientState.CLOSED:
            return
        if self._states.current is ClientState.CONNECTED:
            request = cm.SessionCloseRequest(
                leadership_term_id=self.leadership_term_id, cluster_session_id=self.session_id
            )
            self._try_to_send(cm.SCHEMA.encode(request))
        self._states.enter(ClientState.CLOSED)
        self._ingress.close()
        egress = self._egress or self._connector.egress
        if egress is not None:
            egress.close()

    def _try_to_send(self, encoded: bytes) -> bool:
        return any(self._send(encoded) > 0 for _ in range(SEND_ATTEMPTS))

    def _send(self, *parts: Buffer) -> int:
        state = self._states.current
        if state is ClientState.CONNECTED or state is ClientState.AWAIT_NEW_LEADER_CONNECTION:
            publication = self._ingress.publication(self.leader_member_id)
            result = CLOSED if publication is None else publication.offer(*parts)
            if result > 0:
                self.sent_ns = self._now.ns
                if state is not ClientState.CONNECTED:
                    self._enter_connected()
            else:
                self._on_send_failure(result)
            return result
        return CLOSED if state in (ClientState.PENDING_CLOSE, ClientState.CLOSED) else NOT_CONNECTED

    def _on_send_failure(self, result: int) -> None:
        if result == MAX_POSITION_EXCEEDED:
            self.error = NodeError("the ingress stream is at its end")
            self._states.enter(ClientState.PENDING_CLOSE)
        elif result in (NOT_CONNECTED, CLOSED) and self._states.current is ClientState.CONNECTED:
            self._lose_leader()

    # --- states ---

    def _connect(self, now: Now) -> int:
        connector = self._connector
        try:
            work = connector.do_work(now)
        except NodeError as error:
            connector.error = error
            work = 1
        if connector.error is not None:
            self.error = connector.error
            self.close()
        elif connector.state is ConnectState.DONE:
            established = connector.result
            assert established is not None
            self._egress = connector.egress
            self._egress_image = established.egress_image
            self.session_id = established.session_id
            self.opened_term_id = established.leadership_term_id
            self._follow(established.leadership_term_id, established.leader_member_id)
            if self._new_leader_timeout_ns is None:
                heartbeat_ns = established.leader_heartbeat_timeout_ns
                self._new_leader_timeout_ns = 2 * (
                    heartbeat_ns if heartbeat_ns > 0 else DEFAULT_LEADER_HEARTBEAT_TIMEOUT_NS
                )
            self._enter_connected()
        return work

    def _follow(self, leadership_term_id: TermId, leader_member_id: MemberId) -> None:
        self.leadership_term_id = leadership_term_id
        self.leader_member_id = leader_member_id
        self._header = pack_session_header(leadership_term_id, self.session_id, NULL_VALUE)

    def _watch(self, now: Now) -> int:
        assert self._egress_image is not None
        publication = self._ingress.publication(self.leader_member_id)
        if self._egress_image.is_closed or publication is None or not publication.is_connected:
            self._lose_leader()
            return 1
        if now.ns >= self._keep_alive_deadline_ns:
            self._schedule_keep_alive(now)
            self.owes_keep_alive = True
        if self.owes_keep_alive:
            self.owes_keep_alive = not self.send_keep_alive()
            return int(not self.owes_keep_alive)
        return 0

    def _await_leader_connection(self, now: Now) -> int:
        assert self._egress_image is not None
        if self._egress_image.is_closed:
            self._lose_leader()
            return 1
        publication = self._ingress.publication(self.leader_member_id)
        if publication is not None and publication.is_connected and self.send_keep_alive():
            return 1
        return self._check_deadline(now, "no connection to the new leader within the time-out")

    def _check_deadline(self, now: Now, text: str) -> int:
        if now.ns < self._deadline_ns:
            return 0
        self.error = TimeoutExpired(text)
        self.close()
        return 1

    def _lose_leader(self) -> None:
        """Dial every member again: the new leader may answer on any of the connections."""
        assert self._new_leader_timeout_ns is not None
        self._deadline_ns = self._now.ns + self._new_leader_timeout_ns
        self._ingress.hang_up(self.leader_member_id)
        self._ingress.dial_all()
        self._states.enter(ClientState.AWAIT_NEW_LEADER)

    def _enter_connected(self) -> None:
        self._deadline_ns = NEVER_NS
        self.owes_keep_alive = False
        self._schedule_keep_alive(self._now)
        self._states.enter(ClientState.CONNECTED)

    def _schedule_keep_alive(self, now: Now) -> None:
        interval_ns = self._keep_alive_interval_ns
        self._keep_alive_deadline_ns = NEVER_NS if interval_ns is None else now.ns + interval_ns

    # --- egress ---

    def _on_message(self, message: Message) -> None:
        payload = message.payload
        if len(payload) >= session_header.LENGTH:
            word, _, session_id, timestamp = _HEADER.unpack_from(payload)
            if word & ANY_VERSION_MASK == ANY_VERSION_WORD:
                if session_id == self.session_id and self._handler is not None:
                    self._handler(timestamp, payload[session_header.LENGTH :])
                return
        try:
            self._on_event(cm.SCHEMA.decode(payload), message)
        except PeerError as error:
            self._on_peer_error(message, error)

    def _on_event(self, event: object, message: Message) -> None:
        match event:
            case cm.SessionMessageHeader() if event.cluster_session_id == self.session_id:
                if self._handler is not None:
                    self._handler(event.timestamp, message.payload[session_header.LENGTH :])
            case cm.SessionEvent() if event.cluster_session_id == self.session_id:
                if event.code == cm.EventCode.CLOSED and self._is_open:
                    self.error = NodeError(f"the cluster closed the session: {event.detail}")
                    self._states.enter(ClientState.PENDING_CLOSE)
                self._listener.on_session_event(event)
            case cm.NewLeaderEvent() if event.cluster_session_id == self.session_id:
                if self._is_open and event.leadership_term_id >= self.leadership_term_id:
                    self._on_new_leader(event, message.image)
            case cm.AdminResponse() if event.cluster_session_id == self.session_id:
                self._listener.on_admin_response(event)
            case _:
                return

    @property
    def _is_open(self) -> bool:
        return self._states.current not in (ClientState.PENDING_CLOSE, ClientState.CLOSED)

    def _on_new_leader(self, event: cm.NewLeaderEvent, image: Image) -> None:
        endpoints = parse_received_endpoints(event.ingress_endpoints)
        if event.leader_member_id not in endpoints:
            raise PeerError(f"new leader {event.leader_member_id} is not among its own ingress endpoints")
        self._states.enter(ClientState.AWAIT_NEW_LEADER_CONNECTION)
        self._deadline_ns = self._now.ns + self._message_timeout_ns
        self._egress_image = image
        self._follow(event.leadership_term_id, event.leader_member_id)
        self._ingress.replace(endpoints)
        self._ingress.settle_on(event.leader_member_id)
        self._listener.on_new_leader(event)

    def _on_peer_error(self, message: Message, error: PeerError) -> None:
        self.peer_errors += 1
        message.image.reject(str(error))
