"""The effects of a copy of a service at each entry of a log, as plain values.

A player of a log, in any language, turns each log entry into an `Entry`, and what the service did there into `Effects`.
`cuts` compares the effects of two copies; `asked_of_log` compares those of one copy with the log itself. This module
reads no files and runs no code.
"""

from dataclasses import dataclass
from enum import StrEnum


class EntryKind(StrEnum):
    """The sender of a log entry, or what it demands of members."""

    REQUEST = "request"
    """A message of a client."""
    OWN_MESSAGE = "own-message"
    """A message that this service offered to the log."""
    TIMER = "timer"
    SESSION_OPEN = "session-open"
    SESSION_CLOSE = "session-close"
    TERM = "term"
    SNAPSHOT = "snapshot"
    """A request for a snapshot."""
    OTHER = "other"
    """An entry that this service does not see, or a message of another service of the same member."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A log entry. `position` is its end in bytes, `timestamp` the cluster time in the log's unit.

    `subject` is the session of a request, an opening or a closing, or the correlation id of a timer. `payload` is a
    message without its header. `text` describes the entry for readers: "the message 'x' of session 1".
    """

    position: int
    kind: EntryKind
    timestamp: int
    subject: int = 0
    payload: bytes = b""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Effects:
    """What one copy did while it handled one entry, in order.

    `egress` has (session, message) for all clients, and `offers` the messages for the log. `timers` has (correlation
    id, deadline) in cluster time; the deadline is None for a cancellation. `closed` are the sessions that it asked to
    close. `raised` is the type of an exception that the service let through; empty if there was none.
    """

    egress: tuple[tuple[int, bytes], ...] = ()
    offers: tuple[bytes, ...] = ()
    timers: tuple[tuple[int, int | None], ...] = ()
    closed: tuple[int, ...] = ()
    raised: str = ""
