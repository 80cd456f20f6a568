"""What a copy of a service does at each entry of a log, as plain values.

A player of a log to a service, in whatever language, makes one `Entry` of each entry of the log and one
`Effects` of what the service did there. `cuts` compares the effects of two copies, `asked_of_log` those of one with the
log itself. This module reads no files and runs no code.
"""

from dataclasses import dataclass
from enum import StrEnum


class EntryKind(StrEnum):
    """Who caused an entry of the log, or what it asks of members."""

    REQUEST = "request"
    """A client's message."""
    OWN_MESSAGE = "own-message"
    """What this service offered to the log."""
    TIMER = "timer"
    SESSION_OPEN = "session-open"
    SESSION_CLOSE = "session-close"
    TERM = "term"
    SNAPSHOT = "snapshot"
    """Members take a snapshot here."""
    OTHER = "other"
    """Nothing that this service sees, or a message of another service of the same member."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log. `position` is its end in bytes, `timestamp` is cluster time in the log's unit.

    `subject` is the session of a request, an opening or a closing, and the correlation id of a timer. `payload` is a
    message without its header. `text` describes the entry for people: "the message 'x' of session 1".
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

    `egress` has (session, message) of all clients, `offers` the messages for the log, `timers` (correlation id,
    deadline) in cluster time, with the deadline None for a cancellation; `closed` are sessions that it asked to close.
    `raised` is the type of an exception that the service let through, empty without one.
    """

    egress: tuple[tuple[int, bytes], ...] = ()
    offers: tuple[bytes, ...] = ()
    timers: tuple[tuple[int, int | None], ...] = ()
    closed: tuple[int, ...] = ()
    raised: str = ""
