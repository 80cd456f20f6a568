"""Compares what copies of a service in Java did with each other, and with what the log has of the service.

This module knows values only: entries of a log and trails of copies. It runs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.evidence.log_messages import decode_message, is_session_message
from upheaval.checkers.own.java_copies import NOTHING, CopyTrail, Effects, TakenState
from upheaval.checkers.states.replay import LoggedMessage
from upheaval.checkers.states.state_diff import state_difference
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm, session_header

WHOLE: Final = "one that read the whole log"
_TEXT_MAX: Final = 100
_FIRST_OF_SERVICE: Final = -(1 << 63)
_OF_OTHER_SERVICES: Final = _FIRST_OF_SERVICE + (1 << 56)
"""Below it are the numbers of messages that the first service of a member has put into the log."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that a copy did otherwise, in words that follow its name, and the position of the entry."""

    text: str
    position: int


def first_difference(
    log: Sequence[LoggedMessage], whole: CopyTrail, other: CopyTrail, *, hears: bool = True
) -> Difference | None:
    """What `other` did otherwise than `whole`, which began at the first entry.

    Without `hears` messages to sessions and closed sessions are not compared: a leader alone may send them.
    """
    begin = other.plan.begin
    states = {state.entries: state for state in other.states}
    rights = {state.entries: state for state in whole.states}
    for index in range(begin, len(log)):
        entry = log[index]
        right, wrong = whole.effects.get(index, NOTHING), other.effects.get(index, NOTHING)
        text = _effects_difference(right, wrong, hears=hears)
        if text:
            return Difference(f"{text}, {_at(entry)}", entry.position)
        one, two = rights.get(index + 1), states.get(index + 1)
        if one is not None and two is not None and one.digest != two.digest:
            return Difference(f"writes another snapshot {_after(entry)}: {_state_difference(one, two)}", entry.position)
    if other.ended:
        return Difference(other.ended, log[begin - 1].position if begin else 0)
    return None


def _effects_difference(right: Effects, wrong: Effects, *, hears: bool) -> str:
    if hears:
        ones, twos = _by_session(right), _by_session(wrong)
        for session in sorted({*ones, *twos}):
            one, two = ones.get(session, ()), twos.get(session, ())
            if one != two:
                return f"sends session {session} {_messages(two)} where {WHOLE} sends {_messages(one)}"
        if right.closed != wrong.closed:
            return f"closes sessions {list(wrong.closed)} where {WHOLE} closes {list(right.closed)}"
    if right.offers != wrong.offers:
        return f"offers the log {_messages(wrong.offers)} where {WHOLE} offers {_messages(right.offers)}"
    if right.timers != wrong.timers:
        return f"sets {_timers(wrong)} where {WHOLE} sets {_timers(right)}"
    if right.cancelled != wrong.cancelled:
        return f"cancels timers {list(wrong.cancelled)} where {WHOLE} cancels {list(right.cancelled)}"
    if right.raised != wrong.raised:
        return f"{wrong.raised or 'raises nothing'} where {WHOLE} {right.raised or 'raises nothing'}"
    return ""


def _by_session(effects: Effects) -> Mapping[int, tuple[bytes, ...]]:
    """In the order of each session: that among sessions nobody hears."""
    heard: dict[int, tuple[bytes, ...]] = {}
    for session, message in effects.egress:
        heard[session] = (*heard.get(session, ()), message)
    return heard


def _state_difference(one: TakenState, other: TakenState) -> str:
    if one.messages is None or other.messages is None:
        return f"digest {other.digest[:12]} instead of {one.digest[:12]}"
    return state_difference(one.messages, other.messages, (WHOLE, "that one"))


def unlogged_request(log: Sequence[LoggedMessage], whole: CopyTrail, *, is_alone: bool) -> Difference | None:
    """The first message or timer that the log has of the service, and that the service did not ask for before it.

    Timers of other services of a member are in the same log: they are looked at only where it `is_alone`.
    """
    offered: list[bytes] = []
    deadlines: dict[int, int] = {}
    taken = 0
    for index, entry in enumerate(log):
        if _is_of_service(entry.content):
            message = bytes(entry.content[session_header.LENGTH :])
            asked = offered[taken : taken + 1]
            if asked != [message]:
                text = f"the log has the message {_text(message)} of the service, where its replay "
                return Difference(f"{text}offers {_messages(asked)}", entry.position)
            taken += 1
        elif is_alone and (event := _timer_event(entry.content)) is not None:
            deadline = deadlines.pop(event.correlation_id, None)
            if deadline is None or event.timestamp < deadline:
                asks = "has set no such timer" if deadline is None else f"has set it for {deadline}"
                fired = f"the log has timer {event.correlation_id} at time {event.timestamp}"
                return Difference(f"{fired}, where the replay of the service {asks}", entry.position)
        effects = whole.effects.get(index, NOTHING)
        offered += effects.offers
        deadlines.update(effects.timers)
    return None


def _is_of_service(content: bytes) -> bool:
    """Whether the first service of a member put it into the log."""
    if not is_session_message(content):
        return False
    return session_header.unpack_session_header(content)[1] < _OF_OTHER_SERVICES


def _timer_event(content: bytes) -> cm.TimerEvent | None:
    if is_session_message(content):
        return None
    try:
        event = decode_message(content)
    except DecodeError:
        return None
    return event if isinstance(event, cm.TimerEvent) else None


# --- in words ---


def _at(entry: LoggedMessage) -> str:
    return f"at the entry at position {entry.position}, {_entry(entry)}"


def _after(entry: LoggedMessage) -> str:
    return f"after position {entry.position}"


def _entry(entry: LoggedMessage) -> str:
    if is_session_message(entry.content):
        session_id = session_header.unpack_session_header(entry.content)[1]
        whose = f"of session {session_id}" if session_id >= 0 else "of the service to itself"
        return f"the message {_text(entry.content[session_header.LENGTH :])} {whose}"
    try:
        return type(decode_message(entry.content)).__name__
    except DecodeError:
        return f"{len(entry.content)} bytes"


def _messages(messages: Sequence[bytes]) -> str:
    return ", ".join(map(_text, messages)) if messages else "nothing"


def _text(message: bytes) -> str:
    return repr(bytes(message).decode("utf-8", "backslashreplace"))[:_TEXT_MAX]


def _timers(effects: Effects) -> str:
    return ", ".join(f"timer {timer} for {deadline}" for timer, deadline in effects.timers) or "no timer"
