"""What an application implements to be run by the cluster, and what it can ask of the cluster.

A service is a deterministic state machine. Every member runs a copy of it and feeds it the same log in the same order,
so that every copy holds the same state. That only works if the state depends on nothing but the callbacks and their
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

It is named as `package.module:Counter` where the cluster asks for a service.

An exception out of a callback is reported, the entry counts as delivered, and the service goes on with the next one:
deterministic code fails in the same way on every member. A failed `assert` ends the member instead.

The names and the meaning follow Aeron Cluster's ClusteredService, Cluster and ClientSession. This module knows nothing
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
"""What `ClientSession.offer` returns on a member that is not the leader: as if it had been sent."""


class ClientSession(Protocol):
    """One client of the cluster. Every member knows all of them; only the leader's copy is connected to the client."""

    @property
    def id(self) -> int:
        """The cluster session id, the same on every member."""

    @property
    def response_stream_id(self) -> int:
        """The stream of the egress, as the client asked for it (SessionConnectRequest.responseStreamId)."""

    @property
    def response_channel(self) -> str:
        """The channel of the egress, as the client asked for it (SessionConnectRequest.responseChannel)."""

    @property
    def encoded_principal(self) -> bytes:
        """Who the client is, as the authenticator of the cluster put it; empty without authentication."""

    @property
    def is_closing(self) -> bool:
        """This service asked to close the session, and the log has not said yet that it is closed."""

    @property
    def is_connected(self) -> bool:
        """Whether what is sent here goes to the client: only on the leader. Elsewhere an answer need not be made."""

    def offer(self, *parts: Buffer) -> int:
        """Send one message, made of the parts in order, to the client.

        Returns a positive stream position when the transport took it, or one of the negative results of
        `media.api` (NOT_CONNECTED, BACK_PRESSURED, CLOSED, MAX_POSITION_EXCEEDED): then nothing was sent, and the
        message is the caller's to send again. On any member but the leader it sends nothing and returns
        MOCKED_OFFER. Raises `UsageError` for a message that is too long, and in callbacks that must not send.
        """

    def respond(self, *parts: Buffer) -> bool:
        """Send like `offer`, but keep the message when the transport does not take it now, and send it later in order.

        This is what a service normally uses: a callback cannot wait. False says that the message was dropped because
        the bounded queue of this session is full; the client then gets no answer. What is queued is dropped when the
        session closes or the member stops leading. Raises as `offer` does.
        """

    def close(self) -> bool:
        """Ask the cluster to close this session; see `Cluster.close_client_session`."""


class Cluster(Protocol):
    """The cluster as the service sees it at the log entry that it is processing."""

    @property
    def member_id(self) -> int:
        """The id of the member that this service runs on; the state must not depend on it."""

    @property
    def role(self) -> ClusterRole:
        """The member's role now, FOLLOWER until a term says otherwise; the state must not depend on it."""

    @property
    def log_position(self) -> int:
        """Position in the log after the entry that is being processed, in bytes."""

    @property
    def time(self) -> int:
        """Timestamp of the entry that is being processed, in `time_unit`: the same on every member."""

    @property
    def time_unit(self) -> ClusterTimeUnit:
        """The unit of `time`, timestamps and deadlines, the same on every member for ever."""

    @property
    def client_sessions(self) -> Mapping[int, ClientSession]:
        """The open sessions by id. Do not keep it across callbacks."""

    def client_session(self, session_id: int) -> ClientSession | None:
        """The open session with that id, or None."""

    def close_client_session(self, session_id: int) -> bool:
        """Ask the consensus module to close a session. `on_session_close` follows when the log says so.

        True when the request was sent now or before; False when it could not be sent now. Raises `UsageError` for an
        unknown session.
        """

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Ask for `on_timer_event(correlation_id)` at or after `deadline` (cluster time, in `time_unit`).

        A timer of the same id is replaced. All services of the member share the ids, and each gets every expiry.
        Every member asks; the leader's expiry goes through the log. What the transport does not take now is kept and
        sent later. True; raises `UsageError` when the consensus module is not connected.
        """

    def cancel_timer(self, correlation_id: int) -> bool:
        """Cancel a timer, as `schedule_timer` asks for it. It may still fire if its expiry is in the log."""

    def offer(self, *parts: Buffer) -> int:
        """Put a message from the service itself into the log, on every member alike.

        It comes back as `on_session_message` with no session, to all services, exactly once under any leader.
        What the transport does not take now is kept and sent later. Returns a positive number; raises `UsageError`
        when the consensus module is not connected, and for a message longer than the control channel takes (16 KiB).
        """


class SnapshotPublication(Protocol):
    """Where a service writes its state; what it writes is recorded by the archive.

    `offer` takes every message at once, keeps a copy, and returns a positive number; `UsageError` for one that is
    longer than `max_message_length`.
    """

    @property
    def max_message_length(self) -> int:
        """The longest message in bytes: an eighth of the snapshot's term."""

    def offer(self, *parts: Buffer) -> int:
        """Write one message, made of the parts in order."""


class SnapshotImage(Protocol):
    """From where a service reads its state back: the messages that it wrote, in the same order.

    A service that finds them damaged raises `DecodeError`: then the next start of the member is from the snapshot
    before.
    """

    def read(self) -> bytes | None:
        """The next message, or None after the last one."""


class ClusteredService(ABC):
    """The application. Override what is needed; only `on_session_message` must be there.

    Callbacks marked *must not send* may read from `Cluster`, but sending to clients, offering to the log, closing
    sessions and timers raise `UsageError` there.
    """

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        """The container has started; keep `cluster`. With a snapshot, load the state from it. *Must not send.*"""

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        """A client connected."""

    def on_session_close(self, session: ClientSession, timestamp: int, reason: CloseReason) -> None:
        """A client is gone; the session is no longer known to the cluster and cannot be sent to."""

    @abstractmethod
    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        """A message from a client, or with `session` None one that the services themselves offered to the log.

        `payload` is valid during the call only: take `bytes(payload)` of what is kept. `position` is the log position
        after the entry.
        """

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        """A timer fired. Every member gets this call at the same place in the log."""

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        """Write all of the state, in the same messages for the same state on every member: so states are compared.

        *Must not send* to clients or the log.
        """

    def canonical(self, snapshot: bytes) -> bytes:
        """What of a snapshot, all of its messages joined, is compared between members and with a replay of the log.

        All of it, unless overridden: by a form that is the same for equal states, whatever instance is asked.
        Members never call it; those do who judge a run.
        """
        return snapshot

    def on_role_change(self, role: ClusterRole) -> None:
        """The member became leader or follower. State must not depend on it. *Must not send.*"""

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
        """A leader was elected: the log has a new leadership term here."""

    def on_terminate(self, cluster: Cluster) -> None:
        """The container ends. *Must not send.*"""

    def do_background_work(self, now_ns: int) -> int:  # noqa: ARG002 - for those who override it
        """Work outside the log, after each turn of the service and within 10 ms: it must not change the state.

        *Must not send.* `now_ns` is a monotonic clock. Returns how much was done; at once called again after some.
        """
        return 0
