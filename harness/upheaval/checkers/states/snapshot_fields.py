"""The expected fields of snapshots: those that follow from the log, and those that must be equal on all members.

Sessions, terms, message numbers and markers follow from the log alone. Timers and pending messages are requests of the
service: the replay of a shipped service gives them; for other services, members are compared with each other. This
module knows the layout of snapshots (Aeron Cluster: streams 106 and 107); it knows no files.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.states.replay import ExpectedState, LoggedMessage
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.protocol.message import Message, with_values
from upheaval_node.types import MAX_POSITION, NULL_VALUE, Position, TermId

Kind = TypeVar("Kind", bound=Message)

REPLAYED_SERVICE: Final = 0
"""The service that the manifest names first. All other services are only compared between members."""
_MODULE_TYPE: Final = 1
_SERVICE_TYPE: Final = 2
_PENDING_CAPACITY: Final = 4096
_RECORD_HEADER: Final = 8
"""Bytes of a record header of Agrona's ring buffer, which aligns records to 8 bytes."""
_SERVICE_SHIFT: Final = 56
_OF_LEADERS: Final = (cm.CloseReason.CLIENT_ACTION, cm.CloseReason.TIMEOUT)
"""The reasons for which a leader closes a session. Other members learn of it from the log; their snapshots have no
reason.
"""


@dataclass(frozen=True, slots=True)
class PendingMessage(Message):
    """A message, with its header, that a service has offered and that is not in the log yet."""

    leadership_term_id: int
    cluster_session_id: int
    timestamp: int
    payload: bytes


Content = Sequence[Message]
"""The content of a snapshot: all messages of a module; of a service, those before its state."""


@dataclass(frozen=True, slots=True)
class Place:
    """The log at a request for a snapshot. `leaders` are all members that have led a term by then."""

    position: int
    leadership_term_id: int
    time_unit: int
    app_version: int
    next_session_id: int
    sessions: tuple[tuple[int, cm.SessionOpenEvent], ...]
    """The open sessions by id, each with the end position of its event."""
    logged: Mapping[int, int]
    """The number of the last message in the log, by service."""
    leaders: frozenset[int]


@dataclass(frozen=True, slots=True)
class Origin:
    """The owner of a snapshot (-1 for a companion), and whether it may have started from another owner's snapshot.

    `services` is its number of services, as far as its snapshots show.
    """

    member_id: int
    is_copied: bool
    services: int


# --- from the log ---


def places(log: Iterable[LoggedMessage]) -> Iterator[Place]:
    """Yield every place at which the log asks for a snapshot."""
    term = cm.NewLeadershipTermEvent()
    sessions: dict[int, tuple[int, cm.SessionOpenEvent]] = {}
    logged: dict[int, int] = {}
    leaders: set[int] = set()
    next_session_id = 1
    for message in log:
        if is_session_message(message.content):
            _, session_id, _ = session_header.unpack_session_header(message.content)
            if session_id < 0:
                logged[_service_of(session_id)] = session_id
            continue
        try:
            event = decode_message(message.content)
        except DecodeError:
            continue
        match event:
            case cm.NewLeadershipTermEvent():
                term = event
                leaders.add(event.leader_member_id)
            case cm.SessionOpenEvent():
                sessions[event.cluster_session_id] = (message.position, event)
                next_session_id = max(next_session_id, event.cluster_session_id + 1)
            case cm.SessionCloseEvent():
                sessions.pop(event.cluster_session_id, None)
            case cm.ClusterActionRequest() if event.action == cm.ClusterAction.SNAPSHOT:
                yield Place(
                    message.position,
                    term.leadership_term_id,
                    term.time_unit,
                    term.app_version,
                    next_session_id,
                    tuple(sessions[session] for session in sorted(sessions)),
                    dict(logged),
                    frozenset(leaders),
                )


def _service_of(number: int) -> int:
    return number >> _SERVICE_SHIFT & 0x7F


def _first_number(service_id: int) -> int:
    """The number before a service's first message."""
    return -(1 << 63) + (service_id << _SERVICE_SHIFT)


# --- reading ---


def service_content(messages: Sequence[bytes]) -> tuple[Content, Sequence[bytes]]:
    """Split a service snapshot into markers with sorted sessions, and the state. Raises `DecodeError` if it is
    truncated.
    """
    head: list[Message] = []
    marks = 0
    for index, message in enumerate(messages):
        head.append(_decoded(message))
        marks += isinstance(head[-1], cm.SnapshotMarker)
        if marks == 2:
            return _in_order(head, cm.ClientSession, _session_id), messages[index + 1 :]
    raise DecodeError("the snapshot of the service has no end")


def module_content(messages: Iterable[bytes]) -> Content:
    """All messages, with timers and sessions sorted. Raises `DecodeError` if the snapshot is truncated."""
    content = [_decoded(message) for message in messages]
    if sum(isinstance(message, cm.SnapshotMarker) for message in content) < 2:
        raise DecodeError("the snapshot of the consensus module has no end")
    return _in_order(_in_order(content, cm.Timer, _expiry), cm.ClusterSession, _session_id)


def _in_order(content: Content, kind: type[Kind], key: Callable[[Kind], Any]) -> Content:
    """The content with the messages of one kind sorted, because members keep them in any order."""
    ordered = iter(sorted((message for message in content if isinstance(message, kind)), key=key))
    return [next(ordered) if isinstance(message, kind) else message for message in content]


def _decoded(message: bytes) -> Message:
    if is_session_message(message):
        return PendingMessage(*session_header.unpack_session_header(message), message[session_header.LENGTH :])
    decoded = decode_message(message)
    if decoded is None:
        raise DecodeError("the snapshot has a message of an unknown kind")
    return decoded


def _session_id(session: cm.ClientSession | cm.ClusterSession) -> int:
    return session.cluster_session_id


def _expiry(timer: cm.Timer) -> tuple[int, int]:
    return timer.deadline, timer.correlation_id


# --- judging ---


def service_difference(content: Content, place: Place) -> str:
    """How sessions and markers of a service differ from the log; empty if they do not."""
    sessions = [
        cm.ClientSession(
            cluster_session_id=event.cluster_session_id,
            response_stream_id=event.response_stream_id,
            response_channel=event.response_channel,
            encoded_principal=event.encoded_principal,
        )
        for _, event in place.sessions
    ]
    begin, end = _markers(content, place, _SERVICE_TYPE)
    return _missing_session(content, place) or _difference(content, [begin, *sessions, end], "the log gives")


def module_difference(content: Content, place: Place, expected: ExpectedState | None, origin: Origin) -> str:
    """How a module differs from the log. `expected` is the replayed state of its service; None if that is not
    replayed.
    """
    trackers = [tracker for tracker in content if isinstance(tracker, cm.PendingMessageTracker)]
    services = max(len(trackers), origin.services)
    return (
        _missing_session(content, place)
        or (_timer_difference(content, expected, is_alone=services == 1) if expected else "")
        or (_number_difference(trackers, expected) if expected else "")
        or _difference(content, _module_content(content, place, services, expected, origin), "the log gives")
    )


def members_difference(content: Content, others: Content, other: str) -> str:
    """How the module of a member differs from that of `other` at the same position; empty if it does not."""
    return _difference(_shared(content), _shared(others), f"{other} has")


def differing_field(content: Content, others: Content) -> str:
    """The first field, as `Kind.field`, in which two members' modules differ. Only `Kind` if the kinds of messages
    differ.
    """
    return _field(_shared(content), _shared(others))


def field_not_of_log(content: Content, place: Place, expected: ExpectedState | None, origin: Origin) -> str:
    """The first field in which a module differs from the log. Requires that `module_difference` found a difference."""
    trackers = [tracker for tracker in content if isinstance(tracker, cm.PendingMessageTracker)]
    if _missing_session(content, place):
        return cm.ClusterSession.__name__
    if expected and _timer_difference(content, expected, is_alone=max(len(trackers), origin.services) == 1):
        return cm.Timer.__name__
    if expected and _number_difference(trackers, expected):
        return f"{cm.PendingMessageTracker.__name__}.next_service_session_id"
    services = max(len(trackers), origin.services)
    return _field(content, _module_content(content, place, services, expected, origin))


def _field(content: Content, wanted: Content) -> str:
    for one, other in zip(content, wanted, strict=False):
        if type(one) is not type(other):
            return type(one).__name__
        if one != other:
            name = next(name for name in _names(one) if getattr(one, name) != getattr(other, name))
            return f"{type(one).__name__}.{name}"
    return next((type(message).__name__ for message in content[len(wanted) :]), "")


def app_version(content: Content) -> int:
    """The application version of the member that recorded the content."""
    return next(message.app_version for message in content if isinstance(message, cm.SnapshotMarker))


def _shared(content: Content) -> Content:
    """The content without the values that members need not share: used buffer size, term of the service, minor version
    of the application, and the close reason of a session that the member decided to close as leader.
    """
    shared: list[Message] = []
    for message in content:
        match message:
            case cm.PendingMessageTracker() | cm.ConsensusModule():
                shared.append(with_values(message, pending_message_capacity=0))
            case PendingMessage():
                shared.append(with_values(message, leadership_term_id=0))
            case cm.SnapshotMarker():
                shared.append(with_values(message, app_version=message.app_version >> 16))
            case cm.ClusterSession():
                shared.append(with_values(message, close_reason=NULL_INT32))
            case _:
                shared.append(message)
    return shared


def missing_sessions(content: Content, place: Place) -> frozenset[int]:
    """The ids of the sessions that are open in the log and not in the snapshot."""
    return frozenset(event.cluster_session_id for _, event in place.sessions) - _sessions_in(content)


def _sessions_in(content: Content) -> frozenset[int]:
    return frozenset(
        session.cluster_session_id for session in content if isinstance(session, cm.ClientSession | cm.ClusterSession)
    )


def _missing_session(content: Content, place: Place) -> str:
    opened, held = {event.cluster_session_id for _, event in place.sessions}, _sessions_in(content)
    if opened - held:
        return f"misses session {min(opened - held)}, which is open there"
    if held - opened:
        return f"has session {min(held - opened)}, which is not open there"
    return ""


def _timer_difference(content: Content, expected: ExpectedState, *, is_alone: bool) -> str:
    held = {(timer.correlation_id, timer.deadline) for timer in content if isinstance(timer, cm.Timer)}
    lost, extra = set(expected.timers) - held, held - set(expected.timers)
    if lost:
        return f"misses timer {min(lost)[0]} of deadline {min(lost)[1]}"
    if extra and is_alone:
        return f"has timer {min(extra)[0]} of deadline {min(extra)[1]}, which the log does not give"
    return ""


def _number_difference(trackers: Iterable[cm.PendingMessageTracker], expected: ExpectedState) -> str:
    first = _first_number(REPLAYED_SERVICE)
    numbers = [tracker.next_service_session_id for tracker in trackers if tracker.service_id == REPLAYED_SERVICE]
    number = numbers[0] - first if numbers else 1
    if number == 1 + expected.offered:
        return ""
    return f"goes on with message {number} of service {REPLAYED_SERVICE}, the log gives {expected.offered + 1}"


def _module_content(
    content: Content, place: Place, services: int, expected: ExpectedState | None, origin: Origin
) -> Content:
    """The required content of the module. Where several values are right, it has the actual one."""
    held = {
        session.cluster_session_id: session.close_reason
        for session in content
        if isinstance(session, cm.ClusterSession)
    }
    allowed = _close_reasons(place, origin, is_replayed=expected is not None and services == 1)
    sessions = [
        cm.ClusterSession(
            cluster_session_id=event.cluster_session_id,
            correlation_id=event.correlation_id,
            opened_log_position=Position(position),
            time_of_last_activity=NULL_VALUE,
            close_reason=reason if (reason := held[event.cluster_session_id]) in allowed else NULL_INT32,
            response_stream_id=event.response_stream_id,
            response_channel=event.response_channel,
        )
        for position, event in place.sessions
    ]
    timers = [timer for timer in content if isinstance(timer, cm.Timer)]
    trackers: list[cm.PendingMessageTracker] = []
    messages: list[Message] = []
    for service_id in range(services):
        tracker, pending = _on_their_way(content, place, service_id, expected)
        trackers.append(tracker)
        messages += [tracker, *pending]
    state = cm.ConsensusModule(
        next_session_id=place.next_session_id,
        next_service_session_id=trackers[0].next_service_session_id if trackers else 0,
        log_service_session_id=trackers[0].log_service_session_id if trackers else 0,
        pending_message_capacity=trackers[0].pending_message_capacity if trackers else 0,
    )
    begin, end = _markers(content, place, _MODULE_TYPE)
    return [begin, state, *sessions, *timers, *messages, end]


def _close_reasons(place: Place, origin: Origin, *, is_replayed: bool) -> Collection[int]:
    """The allowed close reasons of open sessions. Shipped services close no sessions."""
    allowed = {NULL_INT32} if is_replayed else {NULL_INT32, cm.CloseReason.SERVICE_ACTION}
    return allowed.union(_OF_LEADERS) if origin.is_copied or origin.member_id in place.leaders else allowed


def _on_their_way(
    content: Content, place: Place, service_id: int, expected: ExpectedState | None
) -> tuple[cm.PendingMessageTracker, Content]:
    logged = place.logged.get(service_id, _first_number(service_id))
    messages = (message for message in content if isinstance(message, PendingMessage))
    held = [message for message in messages if _service_of(message.cluster_session_id) == service_id]
    payloads: Sequence[bytes] = [message.payload for message in held]
    if expected is not None and service_id == REPLAYED_SERVICE:
        payloads = expected.pending
    # Our members write no term; Aeron's write the term in which the service offered the message.
    terms = [_term_of(message, place) for message in held]
    terms += [0] * (len(payloads) - len(terms))
    pending = [
        PendingMessage(term, logged + 1 + index, MAX_POSITION, payload)
        for index, (term, payload) in enumerate(zip(terms, payloads, strict=False))
    ]
    capacity = _capacity(content, service_id, payloads)
    return cm.PendingMessageTracker(logged + 1 + len(pending), logged, capacity, service_id), pending


def _term_of(message: PendingMessage, place: Place) -> int:
    return message.leadership_term_id if 0 <= message.leadership_term_id <= place.leadership_term_id else 0


def _capacity(content: Content, service_id: int, payloads: Sequence[bytes]) -> int:
    """The allowed capacity. Our members write a constant; Aeron's write the used buffer size, which may include
    padding.
    """
    trackers = (tracker for tracker in content if isinstance(tracker, cm.PendingMessageTracker))
    held = next((tracker.pending_message_capacity for tracker in trackers if tracker.service_id == service_id), -1)
    used = sum(_RECORD_HEADER + session_header.LENGTH + len(payload) + 7 & -8 for payload in payloads)
    is_used = held % 8 == 0 and (held >= used if payloads else held == 0)
    return held if is_used else _PENDING_CAPACITY


def _markers(content: Content, place: Place, type_id: int) -> tuple[cm.SnapshotMarker, cm.SnapshotMarker]:
    """The two required markers. Members may have different minor versions of the application."""
    version = app_version(content)
    begin = cm.SnapshotMarker(
        type_id=type_id,
        log_position=Position(place.position),
        leadership_term_id=TermId(place.leadership_term_id),
        index=0,
        mark=cm.SnapshotMark.BEGIN,
        time_unit=place.time_unit,
        app_version=version if version >> 16 == place.app_version >> 16 else place.app_version,
    )
    return begin, with_values(begin, mark=cm.SnapshotMark.END)


def _difference(held: Content, wanted: Content, who: str) -> str:
    """The first message and field that differs from what `who` wants; empty if none does."""
    for one, other in zip(held, wanted, strict=False):
        if one == other:
            continue
        if type(one) is not type(other):
            return f"has {_shown(one)}, where {who} {_shown(other)}"
        name = next(name for name in _names(one) if getattr(one, name) != getattr(other, name))
        return f"has {name} {_value(getattr(one, name))} in {_shown(other)}, {who} {_value(getattr(other, name))}"
    if len(held) > len(wanted):
        return f"goes on with {_shown(held[len(wanted)])}"
    if len(held) < len(wanted):
        return f"misses {_shown(wanted[len(held)])}"
    return ""


def _names(message: Any) -> list[str]:
    return list(message.__match_args__)


def _shown(message: Message) -> str:
    match message:
        case cm.SnapshotMarker():
            return "its first marker" if message.mark == cm.SnapshotMark.BEGIN else "its last marker"
        case cm.ConsensusModule():
            return "the state of the module"
        case cm.ClientSession() | cm.ClusterSession():
            return f"session {message.cluster_session_id}"
        case cm.Timer():
            return f"timer {message.correlation_id}"
        case cm.PendingMessageTracker():
            return f"the tracker of service {message.service_id}"
        case PendingMessage():
            service_id = _service_of(message.cluster_session_id)
            return f"message {message.cluster_session_id - _first_number(service_id)} of service {service_id}"
    return f"a {type(message).__name__}"


def _value(value: Any) -> str:
    return repr(value[:100]) if isinstance(value, bytes | str) else f"{value:d}"
