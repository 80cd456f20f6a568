"""Receives on the consensus stream: decodes each message and calls the handler method of its name.

Bytes that are no message cost their sender the image, and nothing else. Knows no message's meaning.
"""

from collections.abc import Callable
from typing import Final, Protocol

from upheaval_node.cluster.claimed_names import contradiction
from upheaval_node.cluster.module_context import ModuleContext, trace_fields
from upheaval_node.errors import DecodeError
from upheaval_node.media import api
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.codec import Message
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

FRAGMENT_LIMIT: Final = 10


class ConsensusHandler(Protocol):
    """One method a message of the consensus stream. Raises `NodeError` for what goes wrong.

    `peer` is where the message comes from that is being handled.
    """

    peer: str

    def on_canvass_position(self, now: Now, message: cm.CanvassPosition) -> None:
        """A member in its canvass says where its log ends, as it does again and again."""

    def on_request_vote(self, now: Now, message: cm.RequestVote) -> None:
        """A candidate asks for a vote in its term."""

    def on_vote(self, now: Now, message: cm.Vote) -> None:
        """The answer to a request for a vote."""

    def on_new_leadership_term(self, now: Now, message: cm.NewLeadershipTerm) -> None:
        """A leader announces its term, or which term comes after that of the receiver's log."""

    def on_append_position(self, now: Now, message: cm.AppendPosition) -> None:
        """A follower says how far it has recorded the log."""

    def on_commit_position(self, now: Now, message: cm.CommitPosition) -> None:
        """The leader says how far a quorum has recorded the log."""

    def on_catchup_position(self, now: Now, message: cm.CatchupPosition) -> None:
        """A follower asks for a replay of the log from its position on."""

    def on_stop_catchup(self, now: Now, message: cm.StopCatchup) -> None:
        """The leader has ended the replay: the follower has the live log."""

    def on_termination_position(self, now: Now, message: cm.TerminationPosition) -> None:
        """The leader says at which position members end."""

    def on_termination_ack(self, now: Now, message: cm.TerminationAck) -> None:
        """A follower has reached the position at which it ends."""

    def on_challenge_response(self, now: Now, message: cm.ChallengeResponse) -> None:
        """The answer of a backup or a standby that was challenged."""

    def on_backup_query(self, now: Now, message: cm.BackupQuery) -> None:
        """A backup asks what there is to copy."""

    def on_heartbeat_request(self, now: Now, message: cm.HeartbeatRequest) -> None:
        """A standby asks for a sign of life."""

    def on_standby_snapshot(self, now: Now, message: cm.StandbySnapshot) -> None:
        """A standby tells of snapshots that it has taken."""


class ConsensusAdapter:
    """Polls the consensus subscription."""

    def __init__(self, context: ModuleContext, handler: ConsensusHandler) -> None:
        self._context = context
        self._handler = handler
        channel = Channel("tcp", {"endpoint": context.own.endpoints.consensus, "alias": "consensus"})
        self._subscription = context.media.add_subscription(str(channel), CONSENSUS_STREAM_ID)
        self._now = Now(0, 0)
        # The types of handler and key belong together line by line, which a type of dict cannot say.
        self._handlers: dict[type[Message], Callable[..., None]] = {
            cm.CanvassPosition: handler.on_canvass_position,
            cm.RequestVote: handler.on_request_vote,
            cm.Vote: handler.on_vote,
            cm.NewLeadershipTerm: handler.on_new_leadership_term,
            cm.AppendPosition: handler.on_append_position,
            cm.CommitPosition: handler.on_commit_position,
            cm.CatchupPosition: handler.on_catchup_position,
            cm.StopCatchup: handler.on_stop_catchup,
            cm.TerminationPosition: handler.on_termination_position,
            cm.TerminationAck: handler.on_termination_ack,
            cm.ChallengeResponse: handler.on_challenge_response,
            cm.BackupQuery: handler.on_backup_query,
            cm.HeartbeatRequest: handler.on_heartbeat_request,
            cm.StandbySnapshot: handler.on_standby_snapshot,
        }

    def poll(self, now: Now) -> int:
        """Handle what arrived; what a handler raises is its caller's to judge."""
        self._now = now
        return self._subscription.poll(self._on_message, FRAGMENT_LIMIT)

    def close(self) -> None:
        """Hear nothing more on the consensus stream."""
        self._subscription.close()

    def _on_message(self, received: api.Message) -> None:
        now = self._now
        try:
            message = cm.SCHEMA.decode(received.payload)
        except DecodeError as error:
            self._context.ignored.note(now, received.image.source_identity, "bytes that are not a message", error)
            received.image.reject(str(error))
            return
        handle = None if message is None else self._handlers.get(type(message))
        if message is None or handle is None:
            name = "another schema" if message is None else type(message).__name__
            peer = received.image.source_identity
            self._context.ignored.note(now, peer, "messages of another stream", name, may_be_late=True)
        elif wrong := contradiction(received.image.source_identity, message):
            self._context.ignored.note(now, received.image.source_identity, "messages under another name", wrong)
        else:
            self._context.tracer.emit(now, TraceKind.RECEIVE, **trace_fields(message))
            self._handler.peer = received.image.source_identity
            handle(now, message)
