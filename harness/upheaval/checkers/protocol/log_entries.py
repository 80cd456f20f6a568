"""The promises about log entries: all are of kinds that a cluster appends, and none is from clients during a
suspension.

Judged by the log itself. This module knows nothing of files.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source, of_whole_log
from upheaval.checkers.evidence.events import OF_CLIENTS, EntryKind, LogEvents
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.calls import CallEntry
from upheaval.checkers.promises import Promise
from upheaval.checkers.services.shipped import are_shipped, services_of
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import OWN_SYSTEM


def judge_kinds(
    events: LogEvents, unreadable: tuple[int, str] | None = None, calls: Sequence[CallEntry] = ()
) -> list[Result]:
    """Judge the kinds of entries: a message of another stream is invalid, an unknown template unknown.

    `unreadable` is the end of the first unreadable message, and the reason. `calls` are requests that no service of the
    run can read.
    """
    promise = Promise.ENTRIES_KNOWN
    for entry in sorted(events.strange, key=lambda entry: entry.name is None):
        if entry.name is not None:
            detail = f"the entry at position {entry.position} is a {entry.name}, which no log has"
            return [Finding(promise, Verdict.INVALID, detail, position=entry.position)]
        detail = f"the entry at position {entry.position} is of unknown template {entry.template_id}"
        return [Finding(promise, Verdict.UNKNOWN, detail, position=entry.position)]
    if unreadable is not None:
        position, why = unreadable
        detail = f"the entry at position {position} cannot be read: {why}"
        return [Finding(promise, Verdict.UNKNOWN, detail, position=position)]
    for call in calls:
        detail = f"the message of session {call.session} at position {call.position} is one that no client sends"
        return [Finding(promise, Verdict.UNKNOWN, detail, position=call.position)]
    if not events.entries:
        return [NotApplicable(promise, "the log has no entry")]
    return [Finding(promise, Verdict.VALID, f"{events.entries} entries, each of a kind that a cluster appends")]


def judge_suspensions(events: LogEvents, kinds: Sequence[EntryKind]) -> list[Result]:
    """Check that no entry of these kinds is between the suspension of the cluster and its resumption."""
    promise = Promise.SUSPENDED_TAKES_NOTHING
    if not events.suspensions:
        return [NotApplicable(promise, "the log does not suspend the cluster")]
    entries = [entry for kind, entry in events.while_suspended.items() if kind in kinds]
    if not entries:
        detail = f"suspended {events.suspensions} times, and nothing was appended meanwhile"
        return [Finding(promise, Verdict.VALID, detail)]
    first = min(entries, key=lambda entry: entry.position)
    detail = f"{first.kind} at position {first.position}, where the log has the cluster suspended from {first.since} on"
    return [Finding(promise, Verdict.INVALID, detail, position=first.position)]


def _check(evidence: Evidence) -> Iterable[Result]:
    log = evidence.logs.witness
    if log is None:
        yield NotApplicable(Promise.ENTRIES_KNOWN, evidence.why_no_log)
    else:
        # Only a user's own code can read what other clients or libraries send to the user's service.
        is_known = are_shipped(services_of(evidence.manifest)) and evidence.operations and not evidence.calls
        yield from judge_kinds(log.events, log.unreadable, log.calls if is_known else ())
    yield from _check_suspensions(evidence)


# In Aeron, only messages from clients are known to wait during a suspension.
_check_suspensions: Final = of_whole_log(
    (Promise.SUSPENDED_TAKES_NOTHING,),
    lambda evidence, log: judge_suspensions(
        log.events, tuple(EntryKind) if evidence.manifest.system == OWN_SYSTEM else OF_CLIENTS
    ),
)

LOG_ENTRIES: Final = Checker(
    "log-entries", (Promise.ENTRIES_KNOWN, Promise.SUSPENDED_TAKES_NOTHING), OF_LOG | {Source.HISTORY}, _check
)
