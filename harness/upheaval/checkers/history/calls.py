"""Judges the calls of a history: requests to a user's service, whose payloads and answers are opaque here.

A call is found in the log by the digest of its payload. Payloads may repeat, so counts are compared: how often a
payload was acknowledged, sent, and recorded; `placed_calls` compares them in each session. This module knows nothing of
files; it gets operations and log entries.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Operation, Outcome

_SHOWN_DIGITS = 16


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A log message to a user's service. `position` is its end."""

    position: int
    digest: str
    session: int = field(default=-1, compare=False)
    """The cluster session of the sender; -1 if it was not read."""
    term: int = field(default=-1, compare=False)
    """The leadership term of the entry; -1 if it was not read."""
    timestamp: int = field(default=0, compare=False)
    """The cluster time."""


@dataclass(slots=True)
class CallCount:
    """The counts of one payload. `last_position` is the position of its last message in the log; -1 if there
    is none.
    """

    name: str
    acknowledged: int = 0
    sent: int = 0
    in_log: int = 0
    last_position: int = -1


@dataclass(frozen=True, slots=True)
class CountedCalls:
    """The counts by payload digest, and the first log entry that the history does not explain."""

    counts: Mapping[str, CallCount]
    unexplained: CallEntry | None = None


def shown_digest(digest: str) -> str:
    """A prefix of the digest, long enough to tell payloads apart."""
    return digest[:_SHOWN_DIGITS]


def count_calls(calls: Iterable[Operation], entries: Iterable[CallEntry]) -> CountedCalls:
    """Count each payload in a history and its log."""
    counts: dict[str, CallCount] = {}
    for call in calls:
        count = counts.setdefault(str(call.value), CallCount(call.key))
        count.acknowledged += call.outcome is Outcome.OK
        count.sent += call.outcome is not Outcome.FAIL
    unexplained: CallEntry | None = None
    for entry in entries:
        known = counts.get(entry.digest)
        if known is None:
            unexplained = unexplained or entry
            continue
        known.in_log += 1
        known.last_position = entry.position
    return CountedCalls(counts, unexplained)


def not_lost(counted: CountedCalls) -> Finding:
    """The finding on calls of which `place_calls` finds none lost."""
    total = sum(count.acknowledged for count in counted.counts.values())
    return Finding(
        Promise.ACKNOWLEDGED_NOT_LOST, Verdict.VALID, f"{total} acknowledged calls found in the log by their payload"
    )


def once(counted: CountedCalls) -> Finding:
    """Check that no payload is in the log more often than it was sent.

    A message does not show who sent it twice, so the verdict is never worse than unknown.
    """
    counts = counted.counts
    for digest, count in counts.items():
        if count.in_log > count.sent:
            detail = (
                f"call {count.name} with payload {shown_digest(digest)} was sent {count.sent} times and is in the "
                f"log {count.in_log} times, last at position {count.last_position}: the cluster made one of them, "
                "or its sender is not in the history"
            )
            return Finding(Promise.APPLIED_ONCE, Verdict.UNKNOWN, detail, position=count.last_position)
    total = sum(count.in_log for count in counts.values())
    return Finding(Promise.APPLIED_ONCE, Verdict.VALID, f"{total} calls in the log, none more often than it was sent")


def explained(counted: CountedCalls) -> Finding:
    """Check that the history has every payload of the log."""
    counts, unexplained = counted.counts, counted.unexplained
    if unexplained is not None:
        detail = (
            f"the message with payload {shown_digest(unexplained.digest)} at position {unexplained.position} "
            "is not in the history"
        )
        return Finding(Promise.HISTORY_COMPLETE, Verdict.UNKNOWN, detail, position=unexplained.position)
    total = sum(count.in_log for count in counts.values())
    return Finding(Promise.HISTORY_COMPLETE, Verdict.VALID, f"all {total} calls in the log are in the history")
