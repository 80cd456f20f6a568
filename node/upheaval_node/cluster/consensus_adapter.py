"""Receives on the consensus stream: decodes each message and calls the handler method of its name.

Bytes that are not a message cost their sender the image, and nothing else. Does not know what any message means.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.cluster.claimed_names import contradiction
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_messages import ConsensusMessages
from upheaval_node.errors import DecodeError
from upheaval_node.media import api
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import CONSENSUS_STREAM_ID
from upheaval_node.protocol.describe import trace_fields
from upheaval_node.protocol.message import Message
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import NOT_YET, Now

FRAGMENT_LIMIT: Final = 10


class ConsensusAdapter:
    """Polls the consensus subscription."""

    def __init__(self, context: ModuleContext, handler: ConsensusMessages) -> None:
        self._context = context
        self._handler = handler
        channel = Channel("tcp", {"endpoint": context.own.endpoints.consensus, "alias": "consensus"})
        self._subscription = context.media.add_subscription(str(channel), CONSENSUS_STREAM_ID)
        self._now = NOT_YET
        # Handler and key have matching types on each line, which the type of a dict cannot express.
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
        """Handle the messages that arrived. Lets errors of a handler through."""
        self._now = now
        return self._subscription.poll(self._on_message, FRAGMENT_LIMIT)

    def close(self) -> None:
        """Close the subscription to the consensus stream."""
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
