"""The interface that an application implements, and the interface of the cluster that it uses.

A service is a deterministic state machine. Every member runs a copy of it and feeds it the same log in the same order,
so that every copy holds the same state. That works only if the state depends on nothing but the callbacks and their
arguments. A service must not read a clock (use `Cluster.time`), draw random numbers, read files, or iterate over a
set, whose order differs between processes.

A minimal service:

    class Counter(ClusteredService):
        def __init__(self) -> None:
            self.total = 0

        def on_session_message(self, session, timestamp, payload, position):
            self.total += 1
            if session is not None:
                session.respond(str(self.total).encode())

The cluster's settings name it as `package.module:Counter`.

An exception of a callback is reported, the entry counts as delivered, and the service continues with the next entry:
deterministic code fails in the same way on every member. A failed `assert` ends the member instead.

Names and meaning follow Aeron Cluster's ClusteredService, Cluster and ClientSession. This module knows nothing
of how a container does it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Protocol

from upheaval_node.ports import Buffer
from upheaval_node.protocol.cluster_messages import CloseReason, ClusterTimeUnit
from upheaval_node.types import ClusterRole

__all__ = [
    "MOCKED_OFFER",
    "ClientSession",
    "CloseReason",
    "Cluster",
    "ClusterRole",
    "ClusterTimeUnit",
    "ClusteredService",
    "SnapshotImage",
    "SnapshotPublication",
]

MOCKED_OFFER: Final = 1
"""The result of `ClientSession.offer` on a member that is not the leader: as if the message had been sent."""


class ClientSession(Protocol):
    """One client of the cluster. Every member has a session for it; only the leader's session is connected to the
    client.
    """

    @property
    def id(self) -> int:
        """The cluster session id, the same on every member."""

    @property
    def response_stream_id(self) -> int:
        """The stream of the egress, as the client requested it (SessionConnectRequest.responseStreamId)."""

    @property
    def response_channel(self) -> str:
        """The channel of the egress, as the client requested it (SessionConnectRequest.responseChannel)."""

    @property
    def encoded_principal(self) -> bytes:
        """The principal that the cluster's authenticator gave the client; empty without authentication."""

    @property
    def is_closing(self) -> bool:
        """Whether this service has asked to close the session, while the log has no close entry yet."""

    @property
    def is_connected(self) -> bool:
        """Whether messages reach the client, which is so only on the leader. Other members need not build a
        response.
        """

    def offer(self, *parts: Buffer) -> int:
        """Send one message, which consists of `parts` in order, to the client.

        Returns a positive stream position when the transport took the message, or a negative result of `media.api`
        (NOT_CONNECTED, BACK_PRESSURED, CLOSED, MAX_POSITION_EXCEEDED). With a negative result nothing was sent, and the
        caller has to retry. Any member but the leader sends nothing and returns MOCKED_OFFER. Raises `UsageError` for a
        message that is too long, and in callbacks that must not send.
        """

    def respond(self, *parts: Buffer) -> bool:
        """Send like `offer`, but queue the message when the transport does not take it now, and send it later in order.

        This is what a service normally uses, because a callback cannot wait. Returns False when the message was
        dropped: the bounded queue of this session is full, or its egress is closed. The client then gets no answer.
        Queued messages are dropped when the session closes or the member stops leading. Raises as `offer` does.
        """

    def close(self) -> bool:
        """Ask the cluster to close this session, see `Cluster.close_client_session`."""


class Cluster(Protocol):
    """The cluster as the service sees it at the current log entry."""

    @property
    def member_id(self) -> int:
        """The id of the member that runs this service. The state must not depend on it."""

    @property
    def role(self) -> ClusterRole:
        """The current role of the member, FOLLOWER before the first term. The state must not depend on it."""

    @property
    def log_position(self) -> int:
        """The log position after the current entry, in bytes."""

    @property
    def time(self) -> int:
        """The timestamp of the current entry, in `time_unit`. It is the same on every member."""

    @property
    def time_unit(self) -> ClusterTimeUnit:
        """The unit of `time`, timestamps and deadlines. It is the same on every member and never changes."""

    @property
    def client_sessions(self) -> Mapping[int, ClientSession]:
        """The open sessions by id. Do not keep it across callbacks."""

    def client_session(self, session_id: int) -> ClientSession | None:
        """The open session with this id, or None."""

    def close_client_session(self, session_id: int) -> bool:
        """Ask the consensus module to close a session. `on_session_close` follows with the close entry in the log.

        Returns True when the request was sent now or before, False when it could not be sent now. Raises `UsageError`
        for an unknown session.
        """

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Ask for `on_timer_event(correlation_id)` at or after `deadline` (cluster time, in `time_unit`).

        The request replaces a timer with the same id. All services of the member share the ids, and each gets every
        expiry. Every member makes the request; the leader's expiry goes through the log. A request that the transport
        does not take now is kept and sent later. Returns True. Raises `UsageError` when the consensus module is not
        connected.
        """

    def cancel_timer(self, correlation_id: int) -> bool:
        """Cancel a timer; kept and sent like a `schedule_timer`. It may still fire if its expiry is already in
        the log.
        """

    def offer(self, *parts: Buffer) -> int:
        """Offer a message of the service itself to the log, as every member does.

        It comes back as `on_session_message` without a session, to all services, exactly once under any leader. A
        message that the transport does not take now is kept and sent later. Returns a positive number. Raises
        `UsageError` when the consensus module is not connected, and for a message longer than 32 bytes less than an
        eighth of the log's term, at most 16 KiB.
        """


class SnapshotPublication(Protocol):
    """Takes the state of a service, which the archive records.

    `offer` takes every message at once, keeps a copy, and returns a positive number. It raises `UsageError` for a
    message that is longer than `max_message_length`.
    """

    @property
    def max_message_length(self) -> int:
        """The longest message in bytes: an eighth of the snapshot's term."""

    def offer(self, *parts: Buffer) -> int:
        """Write one message, which consists of `parts` in order."""


class SnapshotImage(Protocol):
    """Returns the state of a service: the messages that it wrote, in the same order.

    A service that finds them damaged raises `DecodeError`. The next start of the member then uses the previous
    snapshot.
    """

    def read(self) -> bytes | None:
        """The next message, or None after the last one."""


class ClusteredService(ABC):
    """The application. Override the callbacks it needs; only `on_session_message` is required.

    Callbacks marked *must not send* may read from `Cluster`, but sending to clients, offering to the log, closing
    sessions and timers raise `UsageError` there.
    """

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        """The container has started; keep `cluster`. With a snapshot, load the state from it. *Must not send.*"""

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        """A client connected."""

    def on_session_close(self, session: ClientSession, timestamp: int, reason: CloseReason) -> None:
        """A client has gone. The cluster no longer knows the session, and nothing can be sent to it."""

    @abstractmethod
    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        """A message from a client or, with `session` None, a message that a service has offered to the log.

        `payload` is valid only during the call: keep a `bytes(payload)`. `position` is the log position after the
        entry.
        """

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        """A timer fired. Every member gets this call at the same log position."""

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        """Write the whole state. Equal states must give equal messages on every member, because states are compared.

        *Must not send* to clients or the log.
        """

    def canonical(self, snapshot: bytes) -> bytes:
        """The part or form of a snapshot that is compared between members and with a replay of the log.

        `snapshot` is all of its messages joined, which is also the default result. An override must return the same
        bytes for equal states, whichever instance is called. Members never call it; only checkers do.
        """
        return snapshot

    def on_role_change(self, role: ClusterRole) -> None:
        """The member became leader or follower. The state must not depend on it. *Must not send.*"""

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
        """A leader was elected: a new leadership term begins at this entry of the log."""

    def on_terminate(self, cluster: Cluster) -> None:
        """The container ends. *Must not send.*"""

    def do_background_work(self, now_ns: int) -> int:  # noqa: ARG002 - for those who override it
        """Work outside the log, after each turn of the service and at least every 10 ms. It must not change the state.

        *Must not send.* `now_ns` is a monotonic clock. Returns the amount of work done; if it is not 0, the next call
        comes at once.
        """
        return 0
