"""One client of the cluster as its consensus module sees it: state, channel to the client, and owed events.

Theory of operation. A connect request creates a session, which gets a publication to the client (INIT, CONNECTING,
CONNECTED). The authenticator may challenge the client, and then accepts or refuses it. An accepted session becomes OPEN
with its entry in the log. It is CLOSING from the decision to end it until the log has the close entry. Knows nothing of
who is leader.
"""

from dataclasses import InitVar, dataclass, field
from enum import IntEnum, auto
from typing import Final

from upheaval_node.counters import Counter
from upheaval_node.errors import NodeError
from upheaval_node.media.api import Image
from upheaval_node.media.shared_publications import SharedPublication, SharedPublications
from upheaval_node.peer_faults import host_of
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import client_channel
from upheaval_node.protocol.message import Message
from upheaval_node.state_machine import StateMachine
from upheaval_node.types import NULL_POSITION, Position, SessionId


class SessionState(IntEnum):
    """The states of a session, from its connect request to its end (Aeron Cluster: ClusterSession.State)."""

    INIT = 0
    CONNECTING = auto()
    CONNECTED = auto()
    CHALLENGED = auto()
    AUTHENTICATED = auto()
    REJECTED = auto()
    OPEN = auto()
    CLOSING = auto()
    INVALID = auto()
    CLOSED = auto()


S = SessionState

_ENDS: Final = frozenset({S.REJECTED, S.INVALID, S.CLOSED})

LEGAL_MOVES: Final[dict[SessionState, frozenset[SessionState]]] = {
    S.INIT: _ENDS | {S.CONNECTING},
    S.CONNECTING: _ENDS | {S.CONNECTED},
    S.CONNECTED: _ENDS | {S.CHALLENGED, S.AUTHENTICATED},
    S.CHALLENGED: _ENDS | {S.AUTHENTICATED},
    S.AUTHENTICATED: _ENDS | {S.OPEN},
    S.REJECTED: frozenset({S.INVALID, S.CLOSED}),
    S.OPEN: frozenset({S.CLOSING, S.CLOSED}),
    S.CLOSING: frozenset({S.CLOSED}),
    S.INVALID: frozenset({S.CLOSED}),
    # The start of an election undoes a close that was not committed.
    S.CLOSED: frozenset({S.CLOSING}),
}


@dataclass(slots=True, eq=False)
class ClusterSession:
    """One session. `opened_log_position` is the end of its open event in the log, -1 before that."""

    id: SessionId
    correlation_id: int
    response_stream_id: int
    response_channel: str
    time_of_last_activity_ns: int
    initial: InitVar[SessionState] = SessionState.INIT
    principal: bytes = b""
    opened_log_position: Position = NULL_POSITION
    close_reason: cm.CloseReason | None = None
    event_code: cm.EventCode = cm.EventCode.OK
    event_detail: str = ""
    owes_open_event: bool = False
    owes_new_leader_event: bool = False
    ingress_image: Image | None = None
    counter: Counter | None = None
    _publication: SharedPublication | None = field(default=None, repr=False)
    _states: StateMachine[SessionState] = field(init=False, repr=False)

    def __post_init__(self, initial: SessionState) -> None:
        """Begin in `initial`: a session from the log or a snapshot is already open, or closing."""
        self._states = StateMachine(f"session {self.id}", initial, LEGAL_MOVES)

    @property
    def state(self) -> SessionState:
        """The state of the session between its connect request and its end."""
        return self._states.current

    def enter(self, state: SessionState) -> None:
        """Move to `state`."""
        self._states.enter(state)

    def is_spoken_for_by(self, image: Image) -> bool:
        """Whether an image has the client's certificate name, or its host, as far as known.

        Aeron accepts messages for a session from any sender that knows its id, and ids are easy to guess.
        """
        own = self.ingress_image
        return own is None or own is image or host_of(own.source_identity) == host_of(image.source_identity)

    # --- the channel to the client ---

    def connect(self, publications: SharedPublications) -> None:
        """Begin to connect to the client. Raises `NodeError` and changes nothing when the channel is unusable."""
        if self._publication is None:
            channel = client_channel(self.response_channel)
            self._publication = publications.add_publication(channel, self.response_stream_id)

    @property
    def is_connected(self) -> bool:
        """Whether the client has connected to its egress."""
        return self._publication is not None and self._publication.is_connected

    def send(self, message: Message) -> bool:
        """Make one attempt to send. Returns False when the message was not sent."""
        publication = self._publication
        if publication is None or not publication.is_connected:
            return False
        try:
            return publication.offer(cm.SCHEMA.encode(message)) > 0
        except NodeError:
            return False

    def disconnect(self) -> None:
        """Close the egress. The session remains."""
        publication, self._publication = self._publication, None
        if publication is not None:
            publication.close()

    # --- ends ---

    def reject(self, code: cm.EventCode, detail: str) -> None:
        """Refuse the session. `code` and `detail` are the client's answer."""
        self.event_code = code
        self.event_detail = detail
        self.enter(SessionState.REJECTED)

    def closing(self, reason: cm.CloseReason) -> None:
        """Decide to end the session. Its last activity is set far back, so that the next check ends it."""
        self.close_reason = reason
        self.time_of_last_activity_ns = 0
        if self.state is not SessionState.CLOSING:
            self.enter(SessionState.CLOSING)

    def close(self) -> None:
        """End the session, which is owed nothing more. Its channel closes after what was already sent."""
        self.disconnect()
        self.ingress_image = None
        if self.counter is not None:
            self.counter.close()
            self.counter = None
        if self.state is not SessionState.CLOSED:
            self.enter(SessionState.CLOSED)
