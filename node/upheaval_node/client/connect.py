"""Connects a client's session (Aeron Cluster: asynchronous connect).

A state machine that is polled; `states` has its theory. It ends with an `Established` session or an error. It knows
nothing of what a client does with its session afterwards.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple, assert_never

from upheaval_node.client.ingress import Ingress, parse_received_endpoints
from upheaval_node.client.ports import ClientMedia, EgressSubscription
from upheaval_node.client.states import LEGAL_CONNECT_MOVES, ConnectState
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.errors import NodeError, PeerError, TimeoutExpired
from upheaval_node.media.api import Break, Image, Message
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel, is_response_channel
from upheaval_node.protocol.codec import NULL_INT64
from upheaval_node.protocol.constants import CLUSTER_PROTOCOL_VERSION
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import MS, NOT_YET, NULL_VALUE, MemberId, Now, S, SessionId, TermId

MESSAGE_TIMEOUT_NS: Final = 5 * S
MAX_CLIENT_NAME_LENGTH: Final = 100
POLL_LIMIT: Final = 10

RETRY_INTERVAL_NS: Final = 20 * MS
"""The pause in nanoseconds before a message that the transport did not take is sent again."""

LEADER_GRACE_NS: Final = 500 * MS
"""The nanoseconds for which a redirected client waits for the leader's connection before it asks any other member."""


class ClusterError(NodeError):
    """The cluster answered the connect request with an error."""


class AuthenticationError(ClusterError):
    """The cluster did not accept the credentials."""


class Established(NamedTuple):
    """A session as the leader opened it."""

    session_id: SessionId
    leadership_term_id: TermId
    leader_member_id: MemberId
    leader_heartbeat_timeout_ns: int
    egress_image: Image


def response_channel(source: Random) -> str:
    """An egress channel that needs no port of the client: messages come back on the connections that the client dials.

    Any process that knows the token can request the egress, so a runtime passes a `Random` that others cannot predict.
    """
    return f"aeron:tcp?control-mode=response|response-correlation-id={source.getrandbits(62) + 1}"


class Connector:
    """Polled by `do_work` until `result` is complete or `error` is set. The caller finally closes ingress and
    egress.
    """

    def __init__(
        self,
        media: ClientMedia,
        ingress: Ingress,
        *,
        egress_channel: str,
        egress_stream_id: int,
        credentials: CredentialsSupplier,
        client_name: str,
        message_timeout_ns: int,
        first_choice: Callable[[], int | None],
        on_peer_error: Callable[[Message, PeerError], None],
    ) -> None:
        self._states = StateMachine("connecting", ConnectState.CREATE_EGRESS_SUBSCRIPTION, LEGAL_CONNECT_MOVES)
        self.egress: EgressSubscription | None = None
        self.result: Established | None = None
        self.error: NodeError | None = None
        self._media = media
        self._ingress = ingress
        self._egress_channel = Channel.parse(egress_channel)
        self._egress_stream_id = egress_stream_id
        self._credentials = credentials
        self._client_info = f"name={client_name} version=0.3.0"
        self._timeout_ns = message_timeout_ns
        self._on_peer_error = on_peer_error
        self._deadline_ns: int | None = None
        self._now = NOT_YET
        self._preferred: int | None = None
        self._first_choice = first_choice
        self._grace_deadline_ns = 0
        self._member_id = NULL_VALUE
        self._correlation_id = NULL_VALUE
        self._request = b""

    @property
    def state(self) -> ConnectState:
        """The next step of connecting."""
        return self._states.current

    def do_work(self, now: Now) -> int:
        """Take the next step. After the message time-out, `error` names the step that was reached."""
        self._now = now
        if self._deadline_ns is None:
            self._deadline_ns = now.ns + self._timeout_ns
        if now.ns >= self._deadline_ns:
            self.error = self._timed_out()
            return 1
        match self._states.current:
            case ConnectState.CREATE_EGRESS_SUBSCRIPTION:
                self.egress = self._media.add_subscription(str(self._egress_channel), self._egress_stream_id)
                self._states.enter(ConnectState.CREATE_INGRESS_PUBLICATIONS)
                return 1
            case ConnectState.CREATE_INGRESS_PUBLICATIONS:
                self._ingress.dial_all()
                self._preferred = self._first_choice()
                self._states.enter(ConnectState.AWAIT_PUBLICATION_CONNECTED)
                return 1
            case ConnectState.AWAIT_PUBLICATION_CONNECTED:
                return self._await_connected()
            case ConnectState.SEND_MESSAGE:
                return self._send()
            case ConnectState.POLL_RESPONSE:
                return self._poll_response()
            case ConnectState.CONCLUDE_CONNECT:
                self._ingress.settle_on(self._member_id)
                self._states.enter(ConnectState.DONE)
                return 1
            case ConnectState.DONE:
                return 0
            case _ as unreachable:
                assert_never(unreachable)

    def next_deadline_ns(self) -> int:
        """The message time-out, or the next attempt to send before it."""
        if self._deadline_ns is None:
            return 0
        if self._states.current is ConnectState.SEND_MESSAGE:
            return min(self._deadline_ns, self._now.ns + RETRY_INTERVAL_NS)
        if self._states.current is ConnectState.AWAIT_PUBLICATION_CONNECTED and self._now.ns < self._grace_deadline_ns:
            return min(self._deadline_ns, self._grace_deadline_ns)
        return self._deadline_ns

    def _await_connected(self) -> int:
        reply_to = self._reply_to()
        member_id = self._ingress.connected_member(self._preferred)
        if reply_to is None or member_id is None:
            return 0
        if self._preferred is not None and member_id != self._preferred and self._now.ns < self._grace_deadline_ns:
            return 0
        self._member_id = member_id
        self._correlation_id = self._media.next_correlation_id()
        self._request = cm.SCHEMA.encode(
            cm.SessionConnectRequest(
                correlation_id=self._correlation_id,
                response_stream_id=self._egress_stream_id,
                version=CLUSTER_PROTOCOL_VERSION,
                response_channel=reply_to,
                encoded_credentials=self._credentials.encoded_credentials(),
                client_info=self._client_info,
            )
        )
        self._states.enter(ConnectState.SEND_MESSAGE)
        return 1

    def _reply_to(self) -> str | None:
        """The egress channel with the port that was actually bound, None before that."""
        channel = self._egress_channel
        if is_response_channel(str(channel)):
            return str(channel)
        assert self.egress is not None
        endpoint = self.egress.resolved_endpoint
        return None if endpoint is None else str(channel.with_(endpoint=endpoint))

    def _send(self) -> int:
        publication = self._ingress.publication(self._member_id)
        if publication is None or not publication.is_connected:
            return self._try_another_member()
        if publication.offer(self._request) < 0:
            return 0
        self._states.enter(ConnectState.POLL_RESPONSE)
        return 1

    def _poll_response(self) -> int:
        assert self.egress is not None
        work = self.egress.poll(self._on_message, POLL_LIMIT)
        if self._states.current is ConnectState.POLL_RESPONSE and self.error is None:
            publication = self._ingress.publication(self._member_id)
            if publication is None or not publication.is_connected:
                work += self._try_another_member()
        return work

    def _try_another_member(self) -> int:
        self._preferred = None
        self._ingress.dial_all()
        self._states.enter(ConnectState.AWAIT_PUBLICATION_CONNECTED)
        return 1

    def _on_message(self, message: Message) -> None:
        try:
            decoded = cm.SCHEMA.decode(message.payload)
            match decoded:
                case cm.Challenge() if decoded.correlation_id == self._correlation_id:
                    self._on_challenge(decoded)
                case cm.SessionEvent() if decoded.correlation_id == self._correlation_id:
                    self._on_session_event(decoded, message.image)
                case _:
                    return
        except PeerError as error:
            self._on_peer_error(message, error)
            return
        raise Break

    def _on_challenge(self, challenge: cm.Challenge) -> None:
        self._correlation_id = self._media.next_correlation_id()
        answer = cm.ChallengeResponse(
            correlation_id=self._correlation_id,
            cluster_session_id=challenge.cluster_session_id,
            encoded_credentials=self._credentials.on_challenge(challenge.encoded_challenge),
        )
        self._request = cm.SCHEMA.encode(answer)
        self._states.enter(ConnectState.SEND_MESSAGE)

    def _on_session_event(self, event: cm.SessionEvent, image: Image) -> None:
        match event.code:
            case cm.EventCode.OK:
                timeout_ns = event.leader_heartbeat_timeout_ns
                self.result = Established(
                    event.cluster_session_id,
                    event.leadership_term_id,
                    event.leader_member_id,
                    NULL_VALUE if timeout_ns == NULL_INT64 else timeout_ns,
                    image,
                )
                self._states.enter(ConnectState.CONCLUDE_CONNECT)
            case cm.EventCode.REDIRECT:
                self._ingress.replace(parse_received_endpoints(event.detail))
                self._ingress.dial_all()
                self._preferred = event.leader_member_id
                self._grace_deadline_ns = self._now.ns + LEADER_GRACE_NS
                self._states.enter(ConnectState.AWAIT_PUBLICATION_CONNECTED)
            case cm.EventCode.ERROR:
                self.error = ClusterError(f"the cluster refused the session: {event.detail}")
            case cm.EventCode.AUTHENTICATION_REJECTED:
                self.error = AuthenticationError(f"the cluster rejected the credentials: {event.detail}")
            case _:
                # CLOSED and unknown codes concern other sessions of this channel.
                return

    def _timed_out(self) -> TimeoutExpired:
        endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in self._ingress.endpoints.items())
        failures = "".join(f"; member {member}: {text}" for member, text in sorted(self._ingress.failures.items()))
        egress_error = self.egress.error if self.egress is not None else None
        if egress_error:
            failures += f"; egress: {egress_error}"
        return TimeoutExpired(f"no session within the time-out: {self.state.name} at ingress {endpoints}{failures}")
