"""Runs a service over a recorded log, without a cluster, to compute the state that every member should have.

The service is the node's own code. Its environment (sessions, timers, messages to the log) is implemented here a second
time, from the log alone. This module knows nothing of files or of other members.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.own.effects import Effects
from upheaval_node.errors import DecodeError, NodeError, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.service.api import ClientSession, ClusteredService, ClusterRole, ClusterTimeUnit
from upheaval_node.service.loader import SHORT_NAMES, load_service

_LONGEST_MESSAGE: Final = 64 * 1024
_CONTROL_LIMIT: Final = 16 * 1024
_LONGEST_TERM: Final = 1 << 30
_OF_OTHER_SERVICES: Final = -(1 << 63) + (1 << 56)
"""The session ids of messages that a member's first service put into the log are below this number."""
_FAILURES: Final = (ArithmeticError, LookupError, ValueError, TypeError, NodeError)
_SNAPSHOT_FLAGS: Final = (0, NULL_INT32, 1)
"""The flags of snapshot requests; 1 leaves the snapshot to standbys (Aeron Cluster: ClusterActionRequest)."""


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message of the log; `position` is its end."""

    position: int
    content: bytes
    term_length: int = _LONGEST_TERM
    """Bytes of a term of the log."""


@dataclass(frozen=True, slots=True)
class OpenSession:
    """An open session, as the snapshot of a cluster holds it."""

    id: int
    response_stream_id: int = 0
    response_channel: str = ""
    encoded_principal: bytes = b""


@dataclass(frozen=True, slots=True)
class ExpectedState:
    """The expected content of a snapshot at a position. `timers` are (id, deadline).

    `offered` counts the messages that the service offered; `pending` are those that are not in the log yet.
    """

    position: int
    messages: tuple[bytes, ...]
    sessions: tuple[int, ...]
    timers: tuple[tuple[int, int], ...]
    offered: int
    pending: tuple[bytes, ...]
    time: int = 0
    """The cluster time of the log entry at the position."""
    time_unit: ClusterTimeUnit = ClusterTimeUnit.MILLIS
    opened: tuple["OpenSession", ...] = ()
    """The details of `sessions`, as a snapshot holds them. May lack some sessions."""


@dataclass(frozen=True, slots=True)
class Member:
    """The member that runs a service, as far as the service can observe it."""

    member_id: int = -1
    role: ClusterRole = ClusterRole.FOLLOWER
    does_background_work: bool = False
    follows_terms: bool = False
    """Whether the log's terms set the role: leader in the member's own terms, otherwise follower. `role` holds before
    them.
    """


_NOBODY: Final = Member()
_OF_PROBES: Final = 1 << 48
"""A bit that no session id of a cluster ever has."""


@dataclass(slots=True)
class _Record:
    """What a service did since the start of the last entry."""

    egress: list[tuple[int, bytes]] = field(default_factory=list)
    offers: list[bytes] = field(default_factory=list)
    timers: list[tuple[int, int | None]] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Session:
    """Implements `api.ClientSession` without a client."""

    id: int
    response_stream_id: int = 0
    response_channel: str = ""
    encoded_principal: bytes = b""
    is_closing: bool = False
    is_connected: bool = False
    heard: list[bytes] | None = None
    """The answers that it received; None if the replay does not keep them."""
    record: _Record | None = None

    def offer(self, *parts: Buffer) -> int:
        if self.heard is not None:
            self.heard.append(b"".join(parts))
        if self.record is not None:
            self.record.egress.append((self.id, b"".join(parts)))
        return max(sum(map(len, parts)), 1)

    def respond(self, *parts: Buffer) -> bool:
        return bool(self.offer(*parts))

    def close(self) -> bool:
        self.is_closing = True
        if self.record is not None:
            self.record.closed.append(self.id)
        return True


@dataclass(slots=True)
class _Cluster:
    """Implements `api.Cluster`."""

    member_id: int = -1
    role: ClusterRole = ClusterRole.FOLLOWER
    log_position: int = 0
    time: int = 0
    time_unit: ClusterTimeUnit = ClusterTimeUnit.MILLIS
    sessions: dict[int, ClientSession] = field(default_factory=dict)
    timers: dict[int, int] = field(default_factory=dict)
    offered: int = 0
    term_length: int = _LONGEST_TERM
    """As a member, it knows the log's only when it has joined it: from the first message on."""
    pending: deque[bytes] = field(default_factory=deque)
    record: _Record = field(default_factory=_Record)

    @property
    def client_sessions(self) -> Mapping[int, ClientSession]:
        return self.sessions

    def client_session(self, session_id: int) -> ClientSession | None:
        return self.sessions.get(session_id)

    def close_client_session(self, session_id: int) -> bool:
        if session_id in self.sessions:
            self.record.closed.append(session_id)
        return session_id in self.sessions

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        self.timers[correlation_id] = deadline
        self.record.timers.append((correlation_id, deadline))
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        self.timers.pop(correlation_id, None)
        self.record.timers.append((correlation_id, None))
        return True

    def offer(self, *parts: Buffer) -> int:
        message = b"".join(parts)
        # It must fit into the control stream and into the log, which take an eighth of a term.
        longest = min(self.term_length // 8, _CONTROL_LIMIT) - session_header.LENGTH
        if len(message) > longest:
            raise UsageError(f"message of {len(message)} bytes for the log, limit is {longest}")
        self.offered += 1
        self.pending.append(message)
        self.record.offers.append(self.pending[-1])
        return max(len(self.pending[-1]), 1)


class StateWriter:
    """Implements `api.SnapshotPublication`: keeps the messages of a snapshot."""

    max_message_length = _LONGEST_MESSAGE

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def offer(self, *parts: Buffer) -> int:
        """Take a message. Returns how many there are."""
        self.messages.append(b"".join(parts))
        return len(self.messages)


class StateImage:
    """Implements `api.SnapshotImage` for messages in memory."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = iter(messages)

    def read(self) -> bytes | None:
        """The next message; None after the last."""
        return next(self._messages, None)


def can_replay(service: str) -> bool:
    """Whether the service is a shipped one. A user's code is not run to judge its state."""
    return service in SHORT_NAMES


class _Failing(suppress):
    """Suppresses the given exceptions and remembers the last one."""

    last: BaseException | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> bool:
        if not super().__exit__(kind, error, place):
            return False
        self.last = error
        return True


class Replay:
    """Runs one service from the start of its log, or from the state in a snapshot."""

    def __init__(
        self,
        service: str,
        state: ExpectedState | None = None,
        *,
        is_own: bool = False,
        hears: bool = False,
        member: Member = _NOBODY,
    ) -> None:
        """`is_own`: a user's service, which may raise any exception. `hears`: keep answers for `heard`."""
        self._cluster = _Cluster(member.member_id)
        self._hears = hears
        self._failing = _Failing(*((Exception,) if is_own else _FAILURES))
        self._does_background_work = member.does_background_work
        self.form_error: Exception | None = None
        """What the canonical form raised last."""
        self._service = load_service(service)
        if state is not None:
            self._cluster.log_position, self._cluster.time = state.position, state.time
            self._cluster.time_unit = state.time_unit
            opened = {session.id: session for session in state.opened}
            self._cluster.sessions = {
                session_id: self._session(opened.get(session_id, OpenSession(session_id)))
                for session_id in state.sessions
            }
            self._cluster.timers = dict(state.timers)
            self._cluster.offered = state.offered
            self._cluster.pending = deque(state.pending)
        self._service.on_start(self._cluster, None if state is None else StateImage(state.messages))
        self._follows_terms = member.follows_terms
        self._change_role(member.role)

    def _change_role(self, role: ClusterRole) -> None:
        if role is not self._cluster.role:
            self._cluster.role = role
            with self._failing:
                self._service.on_role_change(role)

    def _session(self, opened: OpenSession) -> _Session:
        return _Session(
            opened.id,
            opened.response_stream_id,
            opened.response_channel,
            opened.encoded_principal,
            heard=[] if self._hears else None,
            record=self._cluster.record if self._hears else None,
        )

    @property
    def service(self) -> ClusteredService:
        """The running instance."""
        return self._service

    def is_open(self, session_id: int) -> bool:
        """Whether the session is open at this place of the log."""
        return session_id in self._cluster.sessions

    def heard(self, session_id: int) -> list[bytes]:
        """The answers that a session received since the last call."""
        session = self._cluster.sessions.get(session_id)
        if not isinstance(session, _Session) or session.heard is None:
            return []
        heard, session.heard = session.heard, []
        return heard

    def state(self) -> ExpectedState:
        """The content of a snapshot at this place of the log."""
        writer = StateWriter()
        self._service.on_take_snapshot(writer)
        cluster = self._cluster
        timers = tuple(sorted(cluster.timers.items()))
        return ExpectedState(
            cluster.log_position,
            tuple(writer.messages),
            tuple(sorted(cluster.sessions)),
            timers,
            cluster.offered,
            tuple(cluster.pending),
            cluster.time,
            cluster.time_unit,
            tuple(
                OpenSession(session.id, session.response_stream_id, session.response_channel, session.encoded_principal)
                for _, session in sorted(cluster.sessions.items())
            ),
        )

    def apply(self, message: LoggedMessage) -> bool:
        """Apply a message. Returns whether the log asks for a snapshot here. As in a member, a failed message counts as
        applied.
        """
        asks = self._apply(message)
        if self._does_background_work:
            with self._failing:
                self._service.do_background_work(message.position)
        return asks

    def _apply(self, message: LoggedMessage) -> bool:
        self._cluster.log_position, self._cluster.term_length = message.position, message.term_length
        content = message.content
        if is_session_message(content):
            self._apply_message(content, message.position)
            return False
        try:
            decoded = decode_message(content)
        except DecodeError:
            return False
        if isinstance(decoded, cm.ClusterActionRequest):
            self._cluster.time = decoded.timestamp
            return is_snapshot(decoded)
        # A failure in the service's code leaves the same state on every member.
        with self._failing:
            self._apply_event(decoded)
        return False

    def _apply_message(self, content: bytes, position: int) -> None:
        _, session_id, timestamp = session_header.unpack_session_header(content)
        self._cluster.time = timestamp
        if is_own_message(session_id) and self._cluster.pending:
            self._cluster.pending.popleft()
        payload = memoryview(content)[session_header.LENGTH :]
        with self._failing:
            self._service.on_session_message(self._cluster.sessions.get(session_id), timestamp, payload, position)

    def _apply_event(self, event: object) -> None:
        cluster = self._cluster
        match event:
            case cm.TimerEvent():
                cluster.time = event.timestamp
                cluster.timers.pop(event.correlation_id, None)
                self._service.on_timer_event(event.correlation_id, event.timestamp)
            case cm.SessionOpenEvent():
                cluster.time = event.timestamp
                session = self._session(
                    OpenSession(
                        event.cluster_session_id,
                        event.response_stream_id,
                        event.response_channel,
                        event.encoded_principal,
                    )
                )
                cluster.sessions[session.id] = session
                self._service.on_session_open(session, event.timestamp)
            case cm.SessionCloseEvent():
                cluster.time = event.timestamp
                closed = cluster.sessions.pop(event.cluster_session_id, None)
                if closed is not None:
                    self._service.on_session_close(closed, event.timestamp, cm.CloseReason(event.close_reason))
            case cm.NewLeadershipTermEvent():
                cluster.time = event.timestamp
                with suppress(ValueError):
                    cluster.time_unit = ClusterTimeUnit(event.time_unit)
                if self._follows_terms:
                    # Between two of its own terms a leader is a follower for a moment, as in an election.
                    self._change_role(ClusterRole.FOLLOWER)
                    if event.leader_member_id == cluster.member_id:
                        self._change_role(ClusterRole.LEADER)
                self._service.on_new_leadership_term_event(
                    leadership_term_id=event.leadership_term_id,
                    log_position=event.log_position,
                    timestamp=event.timestamp,
                    term_base_log_position=event.term_base_log_position,
                    leader_member_id=event.leader_member_id,
                    log_session_id=event.log_session_id,
                    time_unit=cluster.time_unit,
                    app_version=event.app_version,
                )

    def watch(self, message: LoggedMessage) -> tuple[tuple[bytes, ...], BaseException | None]:
        """Apply a message. Returns the answers to all clients (with `hears`) and the exception of the service."""
        for session_id in self._cluster.sessions:
            self.heard(session_id)
        self._failing.last = None
        self.apply(message)
        heard = tuple(answer for session_id in self._cluster.sessions for answer in self.heard(session_id))
        return heard, self._failing.last

    def follow(self, message: LoggedMessage) -> Effects:
        """Apply a message. Returns the effects of the service; egress only with `hears`."""
        self._failing.last = None
        self.apply(message)
        return self._effects()

    def _effects(self) -> Effects:
        record, failure = self._cluster.record, self._failing.last
        raised = "" if failure is None else type(failure).__name__
        effects = Effects(
            tuple(record.egress), tuple(record.offers), tuple(record.timers), tuple(record.closed), raised
        )
        for done in (record.egress, record.offers, record.timers, record.closed):
            done.clear()
        return effects

    def form(self, messages: Sequence[bytes]) -> tuple[bytes, ...]:
        """The part of a state that is compared: the service's canonical form. The whole state if there is none or it
        raises.
        """
        if not self.has_form:
            return tuple(messages)
        try:
            return (bytes(self._service.canonical(b"".join(messages))),)
        except Exception as error:  # noqa: BLE001 - whatever the service's code raises
            self.form_error = error
            return tuple(messages)

    @property
    def has_form(self) -> bool:
        """Whether the service defines a canonical form."""
        return getattr(type(self._service), "canonical", None) is not ClusteredService.canonical

    def probe(self, request: LoggedMessage) -> Effects:
        """The effects of the service if a client sent a request of the log once more.

        If the request's session is closed, it is sent in a new one, because a service knows only open sessions.
        """
        _, session_id, _ = session_header.unpack_session_header(request.content)
        cluster, self._failing.last = self._cluster, None
        cluster.term_length = request.term_length
        if session_id not in cluster.sessions:
            session_id |= _OF_PROBES
        if session_id not in cluster.sessions:
            cluster.sessions[session_id] = self._session(OpenSession(session_id))
            with self._failing:
                self._service.on_session_open(cluster.sessions[session_id], cluster.time)
        payload = memoryview(request.content)[session_header.LENGTH :]
        with self._failing:
            self._service.on_session_message(cluster.sessions[session_id], cluster.time, payload, cluster.log_position)
        return self._effects()


def is_request(message: LoggedMessage) -> bool:
    """Whether a client sent the message."""
    content = message.content
    return is_session_message(content) and session_header.unpack_session_header(content)[1] >= 0


def is_own_message(session_id: int) -> bool:
    """Whether that is the session id of a message from a member's first service."""
    return session_id < _OF_OTHER_SERVICES


def is_snapshot(request: cm.ClusterActionRequest) -> bool:
    """Whether services take a snapshot at this request."""
    return request.action == cm.ClusterAction.SNAPSHOT and request.flags in _SNAPSHOT_FLAGS


def state_hash(state: Sequence[bytes]) -> str:
    """The SHA-256 of a service's messages, each preceded by its length."""
    whole = hashlib.sha256()
    for message in state:
        whole.update(len(message).to_bytes(8, "little") + message)
    return whole.hexdigest()


def expected_states(service: str, log: Sequence[LoggedMessage]) -> Iterator[ExpectedState]:
    """Yield the state at each snapshot that the log asks for."""
    replay = Replay(service)
    for message in log:
        if replay.apply(message):
            yield replay.state()
