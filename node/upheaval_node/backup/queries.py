"""The conversation of a backup with one member at a time: query, challenge, answer.

Theory of operation. Requests go out on the publication of a group; answers come on the backup's own consensus channel,
both on stream 108. At most one request is outstanding. If a member does not answer in time, the next one is queried.
Source: Aeron Cluster, backup query. The backup interprets the answers.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from upheaval_node.backup.publication_group import PublicationGroup
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.errors import DecodeError, PeerError
from upheaval_node.media.api import Media, Message, Publication, Subscription
from upheaval_node.ports import ErrorSink
from upheaval_node.protocol import cluster_messages as cm, codec
from upheaval_node.protocol.channel import Channel, split_endpoint
from upheaval_node.protocol.constants import CLUSTER_PROTOCOL_VERSION, CONSENSUS_STREAM_ID
from upheaval_node.types import MAX_POSITION, NOT_YET, NULL_VALUE, Now

FRAGMENT_LIMIT: Final = 10

Answer = cm.BackupResponse | cm.SessionEvent
"""The messages that are passed on: answers to the outstanding request, and every backup response."""


class RefusedError(PeerError):
    """A member refuses to answer this backup, with the reason."""


class MemberQueries:
    """`endpoint` is the backup's own endpoint, `timeout_ns` the time that a member has to answer."""

    def __init__(
        self,
        media: Media,
        endpoint: str,
        members: Sequence[str],
        *,
        timeout_ns: int,
        credentials: CredentialsSupplier,
        random: Random,
        errors: ErrorSink,
    ) -> None:
        self._media = media
        self._timeout_ns = timeout_ns
        self._credentials = credentials
        self._errors = errors
        self._endpoint = endpoint
        channel = Channel("tcp", {"endpoint": endpoint, "alias": "consensus"})
        self._subscription = media.add_subscription(str(channel), CONSENSUS_STREAM_ID)
        self.group = PublicationGroup(members, self._add_publication)
        self.group.shuffle(random)
        self._correlation_id = NULL_VALUE
        self._asked_ns: int | None = None
        self._may_be_challenged = False
        self._answers: list[Answer] = []
        self._now = NOT_YET

    @property
    def correlation_id(self) -> int:
        """The correlation id of the outstanding request, or -1."""
        return self._correlation_id

    def is_ours(self, correlation_id: int) -> bool:
        """Whether it is the correlation id of the outstanding request; always False without one."""
        return correlation_id not in (NULL_VALUE, codec.NULL_INT64) and correlation_id == self._correlation_id

    def forget(self) -> None:
        """Forget the outstanding request."""
        self._correlation_id = NULL_VALUE

    def begin(self, now: Now) -> None:
        """Begin a round of queries: with the connected member, if any, else with the next one."""
        self.forget()
        self._asked_ns = now.ns

    def ask(self, now: Now) -> int:
        """Send the next request when it is due."""
        current = self.group.current
        is_late = self._asked_ns is None or now.ns > self._asked_ns + self._timeout_ns
        if current is None or current.is_closed or is_late:
            self.forget()
            self._asked_ns = now.ns
            self.group.next()
            return 1
        if self._correlation_id == NULL_VALUE and current.is_connected:
            return self._send_query(now, current)
        return 0

    def next_deadline_ns(self) -> int:
        """The time-out of the outstanding request; 0, which is at once, without one."""
        return 0 if self._asked_ns is None else self._asked_ns + self._timeout_ns + 1

    def poll(self, now: Now) -> list[Answer]:
        """Receive messages. A sender of undecodable bytes loses its stream, but nothing else happens."""
        self._now = now
        self._answers = []
        self._subscription.poll(self._on_message, FRAGMENT_LIMIT)
        return self._answers

    def close(self) -> None:
        """Close the publication and the own channel."""
        self.group.close_current()
        self._subscription.close()

    # --- steps ---

    def _add_publication(self, endpoint: str) -> Publication:
        channel = Channel("tcp", {"endpoint": endpoint, "alias": "consensus"})
        return self._media.add_publication(str(channel), CONSENSUS_STREAM_ID)

    def _send_query(self, now: Now, publication: Publication) -> int:
        response_channel = answer_channel(self._endpoint, self._subscription)
        if response_channel is None:
            return 0
        query = cm.BackupQuery(
            correlation_id=self._media.next_correlation_id(),
            response_stream_id=CONSENSUS_STREAM_ID,
            version=CLUSTER_PROTOCOL_VERSION,
            log_position=MAX_POSITION,
            response_channel=response_channel,
            encoded_credentials=self._credentials.encoded_credentials(),
        )
        if publication.offer(cm.SCHEMA.encode(query)) <= 0:
            return 0
        self._correlation_id = query.correlation_id
        self._asked_ns = now.ns
        self._may_be_challenged = True
        return 1

    def _on_message(self, received: Message) -> None:
        try:
            message = cm.SCHEMA.decode(received.payload)
        except DecodeError as error:
            self._errors.report(self._now, "backup message", f"{received.image.source_identity}: {error}")
            received.image.reject(str(error))
            return
        match message:
            case cm.BackupResponse():
                self._answers.append(message)
            case cm.SessionEvent() if self.is_ours(message.correlation_id):
                self._answers.append(message)
            case cm.Challenge() if self.is_ours(message.correlation_id) and self._may_be_challenged:
                self._answer_challenge(message)
            case _:
                pass

    def _answer_challenge(self, challenge: cm.Challenge) -> None:
        """Once per query: an answer takes work, so a member must not ask for it again and again."""
        self._may_be_challenged = False
        publication = self.group.current
        answer = cm.ChallengeResponse(
            correlation_id=self._media.next_correlation_id(),
            cluster_session_id=challenge.cluster_session_id,
            encoded_credentials=self._credentials.on_challenge(challenge.encoded_challenge),
        )
        if publication is None or publication.offer(cm.SCHEMA.encode(answer)) <= 0:
            raise PeerError("the answer to a challenge cannot be sent")
        self._correlation_id = answer.correlation_id


def answer_channel(endpoint: str, subscription: Subscription) -> str | None:
    """The channel of answers to a subscription at `endpoint`; None while the bound port for port 0 is unknown."""
    if split_endpoint(endpoint)[1] == 0:
        resolved = subscription.resolved_endpoint
        if resolved is None:
            return None
        endpoint = f"{endpoint.rpartition(':')[0]}:{split_endpoint(resolved)[1]}"
    return str(Channel("tcp", {"endpoint": endpoint}))
