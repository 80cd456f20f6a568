"""The promises about client sessions and about messages of services, judged by the log.

This module knows nothing of files; it gets facts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from upheaval.checkers.checker import by_log
from upheaval.checkers.evidence.events import ServiceMessage, SessionFacts
from upheaval.checkers.promises import Promise
from upheaval.checkers.services.shipped import LEDGER, OFFERING, TALLY, is_shipped, services_of
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval_node.protocol.cluster_messages import CloseReason
from upheaval_node.service.services.tally import MESSAGES_AN_OFFER

_REASONS: Final = {int(reason): reason.name for reason in CloseReason}
_SERVICE_SHIFT: Final = 56


def judge_sessions(sessions: Mapping[int, SessionFacts]) -> list[Result]:
    """Judge the sessions of a log."""
    if not sessions:
        return [NotApplicable(Promise.SESSIONS_KEPT, "the log has no session")]
    for session_id in sorted(sessions):
        broken = _broken(sessions[session_id])
        if broken:
            position, what = broken
            detail = f"session {session_id} {what}"
            return [Finding(Promise.SESSIONS_KEPT, Verdict.INVALID, detail, position=position)]
    reasons = Counter(reason for facts in sessions.values() for _, reason in facts.closed)
    closed = ", ".join(f"{count} by {_REASONS[reason]}" for reason, count in sorted(reasons.items()))
    opened = sum(bool(facts.opened) for facts in sessions.values())
    return [Finding(Promise.SESSIONS_KEPT, Verdict.VALID, f"{opened} sessions opened, closed: {closed or 'none'}")]


def _broken(facts: SessionFacts) -> tuple[int, str] | None:
    """The log position of the first violation in the session, and its description; None if there is none."""
    if not facts.opened:
        at = facts.first_message if facts.first_message >= 0 else facts.closed[0][0]
        return at, f"never opened, but is in the log at position {at}"
    if len(facts.opened) > 1:
        return facts.opened[1], f"opened at position {facts.opened[0]} and again at position {facts.opened[1]}"
    if len(facts.closed) > 1:
        return facts.closed[1][0], f"closed at position {facts.closed[0][0]} and again at position {facts.closed[1][0]}"
    if 0 <= facts.first_message < facts.opened[0]:
        what = f"has a message at position {facts.first_message} and opened only at position {facts.opened[0]}"
        return facts.first_message, what
    for position, reason in facts.closed:
        if position < facts.opened[0]:
            return position, f"closed at position {position} and opened only at position {facts.opened[0]}"
        if reason not in _REASONS:
            return position, f"closed at position {position} for unknown reason {reason}"
        if facts.last_message > position:
            what = f"closed at position {position} and has a message at position {facts.last_message}"
            return facts.last_message, what
    return None


def judge_service_messages(messages: Iterable[ServiceMessage], services: Sequence[str] = ()) -> list[Result]:
    """Check that the messages of each service are numbered without gaps and duplicates.

    `services` are the names of the run's services by id; empty if unknown. Of a shipped service, also check that it can
    have offered each message.
    """
    last: dict[int, int] = {}
    count = 0
    for message in messages:
        service_id = message.number >> _SERVICE_SHIFT & 0x7F
        first = -(1 << 63) + (service_id << _SERVICE_SHIFT)
        before = last.get(service_id, first)
        number = message.number - first
        if message.number != before + 1:
            what = "is there again" if message.number <= before else f"comes after message {before - first}"
            detail = f"message {number} of service {service_id} at position {message.position} {what}"
            return [Finding(Promise.SERVICE_MESSAGES_ONCE, Verdict.INVALID, detail, position=message.position)]
        why = _why_not_offered(message, service_id, number, services)
        if why:
            detail = f"message {number} of service {service_id} at position {message.position} {why}"
            return [Finding(Promise.SERVICE_MESSAGES_ONCE, Verdict.INVALID, detail, position=message.position)]
        last[service_id] = message.number
        count += 1
    if not count:
        return [NotApplicable(Promise.SERVICE_MESSAGES_ONCE, "no service put a message into the log")]
    return [
        Finding(Promise.SERVICE_MESSAGES_ONCE, Verdict.VALID, f"{count} messages of {len(last)} services, in order")
    ]


def _why_not_offered(message: ServiceMessage, service_id: int, number: int, services: Sequence[str]) -> str:
    """Why the service cannot have offered the message; empty if it can."""
    if not services:
        return ""
    if service_id >= len(services):
        return f"is of no service: each member runs {len(services)}"
    name = services[service_id]
    if is_shipped(name) and name not in OFFERING:
        return f"was not offered by it: {name} offers none"
    if name == LEDGER and message.credit is None:
        return f"was not offered by it: it is not the second step of a transfer, and {name} offers nothing else"
    if name == TALLY and number * MESSAGES_AN_OFFER > message.requests:
        return (
            f"was not offered by it: {name} offers one for {MESSAGES_AN_OFFER} messages of clients, and the log has "
            f"{message.requests} before it"
        )
    return ""


SESSIONS: Final = by_log("sessions", (Promise.SESSIONS_KEPT,), lambda _, log: judge_sessions(log.events.sessions))
SERVICE_MESSAGES: Final = by_log(
    "service-messages",
    (Promise.SERVICE_MESSAGES_ONCE,),
    lambda evidence, log: judge_service_messages(log.events.service_messages, services_of(evidence.manifest)),
)
