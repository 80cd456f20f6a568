"""Notifies every member of the snapshots that this standby took: StandbySnapshot, between two heartbeats.

Theory of operation. A member does not acknowledge a notice, and one that cannot take requests drops it. So each member
is asked for a heartbeat first, sent the notice when it has answered, and asked again: the second answer shows that it
still took requests after the notice. Without an answer in time the sequence starts again, so a member may receive a
notice twice, which is idempotent. A newer snapshot replaces one that was not announced yet. Source of the messages:
Aeron Cluster, standby snapshot notification. The module does not know how snapshots are taken.
"""

from collections.abc import Callable, Sequence
from typing import Final

from upheaval_node.backup.queries import answer_channel
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.errors import DecodeError, NodeError
from upheaval_node.media.api import Media, Message as Received, Publication
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import CLUSTER_PROTOCOL_VERSION, CONSENSUS_STREAM_ID, STANDBY_RESPONSE_STREAM_ID
from upheaval_node.protocol.message import Message
from upheaval_node.standby.notice_states import LEGAL_MOVES, NoticeState
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import MS, NEVER_NS, NOT_YET, NULL_VALUE, Now

FRAGMENT_LIMIT: Final = 10
SEND_INTERVAL_NS: Final = 20 * MS
"""The pause before a failed send is retried, in nanoseconds."""

Snapshot = tuple[cm.StandbySnapshotSnapshot, ...]
Report = Callable[[Now, str, str], None]
"""Takes the kind and the text of an error that does not end the standby."""


class _Peer:
    """One member and the progress of its notice.

    `heartbeat_id` is the id of the outstanding heartbeat, -1 without one. `challenged` are the ids that the member may
    not challenge again: an answer takes work.
    """

    def __init__(self, media: Media, endpoint: str) -> None:
        self.endpoint = endpoint
        self._states = StateMachine(f"notice to {endpoint}", NoticeState.IDLE, LEGAL_MOVES)
        self.heartbeat_id = NULL_VALUE
        self.notice_id = NULL_VALUE
        self.challenged: set[int] = set()
        self.deadline_ns = NEVER_NS
        self._media = media
        self._publication: Publication | None = None

    @property
    def state(self) -> NoticeState:
        """The progress of the notice."""
        return self._states.current

    def enter(self, state: NoticeState) -> None:
        """Enter `state`, with no heartbeat outstanding."""
        self._states.enter(state)
        self.heartbeat_id = NULL_VALUE

    def send(self, message: Message) -> bool:
        """Try once to send."""
        publication = self._publication
        if publication is None or publication.is_closed:
            channel = Channel("tcp", {"endpoint": self.endpoint, "alias": "consensus"})
            publication = self._publication = self._media.add_publication(str(channel), CONSENSUS_STREAM_ID)
        return publication.is_connected and publication.offer(cm.SCHEMA.encode(message)) > 0

    def close(self) -> None:
        publication, self._publication = self._publication, None
        if publication is not None:
            publication.close()


class SnapshotNotices:
    """The notices of the latest snapshot to the members at `endpoints`."""

    def __init__(
        self,
        media: Media,
        endpoints: Sequence[str],
        response_endpoint: str,
        credentials: CredentialsSupplier,
        report: Report,
        *,
        timeout_ns: int,
    ) -> None:
        """`timeout_ns` is the time that a member has to answer."""
        self._media = media
        self._credentials = credentials
        self._report = report
        self._timeout_ns = timeout_ns
        self._peers = [_Peer(media, endpoint) for endpoint in endpoints]
        self._snapshot: Snapshot = ()
        self._now = NOT_YET
        self._close_at_ns = NEVER_NS
        channel = str(Channel("tcp", {"endpoint": response_endpoint, "alias": "standby"}))
        self._endpoint = response_endpoint
        self._subscription = media.add_subscription(channel, STANDBY_RESPONSE_STREAM_ID)

    @property
    def is_busy(self) -> bool:
        """Whether a notice to a member is still due."""
        return any(peer.state is not NoticeState.IDLE for peer in self._peers)

    def notify(self, snapshot: Snapshot) -> None:
        """Start to notify all members of a snapshot."""
        self._snapshot = snapshot
        for peer in self._peers:
            if peer.state is not NoticeState.PROBING:
                peer.enter(NoticeState.PROBING)

    def do_work(self, now: Now) -> int:
        """Receive answers and send what is due to each member."""
        self._now = now
        work = self._subscription.poll(self._on_message, FRAGMENT_LIMIT)
        for peer in self._peers:
            if peer.state is not NoticeState.IDLE:
                work += self._advance(now, peer)
        if self.is_busy:
            self._close_at_ns = now.ns + self._timeout_ns
        elif now.ns >= self._close_at_ns:
            # The publication is not needed before the next snapshot. Until now a member could still challenge the
            # notice.
            self._close_at_ns = NEVER_NS
            for peer in self._peers:
                peer.close()
        return work

    def next_deadline_ns(self) -> int:
        """The next attempt to send, the earliest time-out, or the end of idle connections."""
        if not self.is_busy:
            return self._close_at_ns
        if any(peer.state is not NoticeState.IDLE and peer.heartbeat_id == NULL_VALUE for peer in self._peers):
            return self._now.ns + SEND_INTERVAL_NS
        return min(peer.deadline_ns for peer in self._peers if peer.state is not NoticeState.IDLE)

    def close(self) -> None:
        """Close all channels. A notice in flight is lost."""
        for peer in self._peers:
            peer.close()
        self._subscription.close()

    # --- sending ---

    def _advance(self, now: Now, peer: _Peer) -> int:
        if peer.heartbeat_id == NULL_VALUE:
            return self._send_heartbeat(now, peer)
        if now.ns < peer.deadline_ns:
            return 0
        peer.heartbeat_id = NULL_VALUE
        if peer.state is NoticeState.SENT:
            peer.enter(NoticeState.PROBING)
        return 1

    def _send_heartbeat(self, now: Now, peer: _Peer) -> int:
        response_channel = answer_channel(self._endpoint, self._subscription)
        if response_channel is None:
            return 0
        heartbeat_id = self._media.next_correlation_id()
        request = cm.HeartbeatRequest(
            correlation_id=heartbeat_id,
            response_stream_id=STANDBY_RESPONSE_STREAM_ID,
            response_channel=response_channel,
            encoded_credentials=self._credentials.encoded_credentials(),
        )
        if not self._send(now, peer, request):
            return 0
        peer.heartbeat_id = heartbeat_id
        peer.deadline_ns = now.ns + self._timeout_ns
        return 1

    def _send_notice(self, now: Now, peer: _Peer) -> None:
        """A notice that cannot be sent now is retried after another heartbeat."""
        notice_id = self._media.next_correlation_id()
        notice = cm.StandbySnapshot(
            correlation_id=notice_id,
            version=CLUSTER_PROTOCOL_VERSION,
            response_stream_id=STANDBY_RESPONSE_STREAM_ID,
            snapshots=self._snapshot,
            response_channel=answer_channel(self._endpoint, self._subscription) or "",
            encoded_credentials=self._credentials.encoded_credentials(),
        )
        peer.heartbeat_id = NULL_VALUE
        if self._send(now, peer, notice):
            peer.notice_id = notice_id
            peer.enter(NoticeState.SENT)

    def _send(self, now: Now, peer: _Peer, message: Message) -> bool:
        try:
            return peer.send(message)
        except NodeError as error:
            self._report(now, "notice", f"{peer.endpoint}: {error}")
            return False

    # --- answers ---

    def _on_message(self, received: Received) -> None:
        try:
            message = cm.SCHEMA.decode(received.payload)
        except DecodeError as error:
            self._report(self._now, "notice", f"{received.image.source_identity}: {error}")
            received.image.reject(str(error))
            return
        match message:
            case cm.HeartbeatResponse():
                self._on_heartbeat(message.correlation_id)
            case cm.Challenge():
                self._on_challenge(message)
            case cm.SessionEvent() if message.code in (cm.EventCode.ERROR, cm.EventCode.AUTHENTICATION_REJECTED):
                self._on_refusal(message)
            case _:
                return

    def _peer_of(self, correlation_id: int) -> _Peer | None:
        for peer in self._peers:
            if correlation_id != NULL_VALUE and correlation_id in (peer.heartbeat_id, peer.notice_id):
                return peer
        return None

    def _on_heartbeat(self, correlation_id: int) -> None:
        peer = self._peer_of(correlation_id)
        if peer is None or correlation_id != peer.heartbeat_id:
            return
        if peer.state is NoticeState.PROBING:
            self._send_notice(self._now, peer)
        elif peer.state is NoticeState.SENT:
            peer.enter(NoticeState.IDLE)

    def _on_challenge(self, challenge: cm.Challenge) -> None:
        """The id of the answer replaces the request's."""
        peer = self._peer_of(challenge.correlation_id)
        if peer is None or challenge.correlation_id in peer.challenged:
            return
        answer_id = self._media.next_correlation_id()
        known = peer.challenged & {peer.heartbeat_id, peer.notice_id}
        peer.challenged = known | {challenge.correlation_id, answer_id}
        answer = cm.ChallengeResponse(
            correlation_id=answer_id,
            cluster_session_id=challenge.cluster_session_id,
            encoded_credentials=self._credentials.on_challenge(challenge.encoded_challenge),
        )
        if not self._send(self._now, peer, answer):
            return
        if challenge.correlation_id == peer.heartbeat_id:
            peer.heartbeat_id = answer_id
        else:
            peer.notice_id = answer_id

    def _on_refusal(self, event: cm.SessionEvent) -> None:
        """A member that refuses the notice gets no further one before the next snapshot."""
        peer = self._peer_of(event.correlation_id)
        if peer is None:
            return
        code = event.code.name if isinstance(event.code, cm.EventCode) else str(event.code)
        self._report(self._now, "notice", f"{peer.endpoint}: {code}: {event.detail[:256]}")
        peer.notice_id = NULL_VALUE
        if peer.state is not NoticeState.IDLE:
            peer.enter(NoticeState.IDLE)
