"""The entries of a recorded log as plain values, and their descriptions."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.own.cuts import shown
from upheaval.checkers.own.effects import Entry, EntryKind
from upheaval.checkers.states.replay import LoggedMessage, is_own_message, is_request, is_snapshot
from upheaval.records import AS_TEXT, Payloads
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.message import Message

_RAISED_MAX: Final = 200


def entries_of(log: Sequence[LoggedMessage], payloads: Payloads = AS_TEXT) -> list[Entry]:
    """The entries as a copy of the member's first service reads them. `payloads` shows messages."""
    return [_entry(message, payloads) for message in log]


def _entry(message: LoggedMessage, payloads: Payloads) -> Entry:
    content, position = message.content, message.position
    text = entry_text(message, payloads)
    if is_session_message(content):
        _, session_id, timestamp = session_header.unpack_session_header(content)
        payload = bytes(content[session_header.LENGTH :])
        if is_request(message):
            return Entry(position, EntryKind.REQUEST, timestamp, session_id, payload, text)
        kind = EntryKind.OWN_MESSAGE if is_own_message(session_id) else EntryKind.OTHER
        return Entry(position, kind, timestamp, 0, payload, text)
    try:
        decoded = decode_message(content)
    except DecodeError:
        decoded = None
    kind, timestamp, subject = _event(decoded)
    return Entry(position, kind, timestamp, subject, b"", text)


def _event(decoded: Message | None) -> tuple[EntryKind, int, int]:
    """The kind, the time and the subject of an event."""
    match decoded:
        case cm.TimerEvent():
            return EntryKind.TIMER, decoded.timestamp, decoded.correlation_id
        case cm.SessionOpenEvent():
            return EntryKind.SESSION_OPEN, decoded.timestamp, decoded.cluster_session_id
        case cm.SessionCloseEvent():
            return EntryKind.SESSION_CLOSE, decoded.timestamp, decoded.cluster_session_id
        case cm.NewLeadershipTermEvent():
            return EntryKind.TERM, decoded.timestamp, decoded.leadership_term_id
        case cm.ClusterActionRequest():
            kind = EntryKind.SNAPSHOT if is_snapshot(decoded) else EntryKind.OTHER
            return kind, decoded.timestamp, 0
    return EntryKind.OTHER, 0, 0


def leader_of_term(message: LoggedMessage) -> tuple[int, ...]:
    """The leader of the term that begins with this entry; empty for any other entry."""
    if is_session_message(message.content):
        return ()
    try:
        event = decode_message(message.content)
    except DecodeError:
        return ()
    return (event.leader_member_id,) if isinstance(event, cm.NewLeadershipTermEvent) else ()


def entry_text(message: LoggedMessage, payloads: Payloads = AS_TEXT) -> str:
    """A description of the entry."""
    content = message.content
    if is_session_message(content):
        session_id = session_header.unpack_session_header(content)[1]
        whose = f"of session {session_id}" if is_request(message) else "of the service to itself"
        return f"the message {shown(content[session_header.LENGTH :], payloads)} {whose}"
    try:
        return type(decode_message(content)).__name__
    except DecodeError:
        return f"{len(content)} bytes"


def raised_text(error: BaseException) -> str:
    """The exception, and the innermost line that raised it."""
    *_, last = traceback.extract_tb(error.__traceback__)
    where = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return f"raises {type(error).__name__}: {error}"[:_RAISED_MAX] + f", at {where}"
