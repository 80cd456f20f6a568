"""Which log message is which call of the history, by payload digest and session.

A session has one call at a time, so its calls with equal payloads are in the log in the order of their invocations. A
call that was given up may or may not be there. This module knows operations and entries of a log; it knows no files,
and judges no answer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from upheaval.checkers.history.calls import CallEntry, shown_digest
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Operation, Outcome

_Key = tuple[str, int | None]
_NO_SESSION: Final = None


@dataclass(slots=True)
class PlacedCalls:
    """The calls by the position of their log message. `broken` holds findings on lost and duplicate calls."""

    by_position: dict[int, Operation] = field(default_factory=dict)
    unplaced: Operation | None = None
    """The first acknowledged call whose log position cannot be determined."""
    broken: list[Finding] = field(default_factory=list)


def place_calls(calls: Iterable[Operation], entries: Sequence[CallEntry]) -> PlacedCalls:
    """Find the log position of each call. Without a session, a payload must have been sent once and be in the
    log once.
    """
    sent: dict[_Key, list[Operation]] = defaultdict(list)
    ordered = sorted((call for call in calls if call.outcome is not Outcome.FAIL), key=lambda call: call.invoke_ns)
    without_session = {str(call.value) for call in ordered if call.session is None}
    for call in ordered:
        sent[_key(str(call.value), call.session, without_session)].append(call)
    in_log: dict[_Key, list[int]] = defaultdict(list)
    for entry in entries:
        in_log[_key(entry.digest, entry.session, without_session)].append(entry.position)
    placed = PlacedCalls()
    for key, of_key in sent.items():
        _place(key, of_key, in_log.get(key, []), placed)
    placed.broken += _duplicates(sent, in_log, entries)
    return placed


def _key(digest: str, session: int | None, without_session: set[str]) -> _Key:
    return digest, _NO_SESSION if digest in without_session else session


def _place(key: _Key, calls: Sequence[Operation], positions: Sequence[int], placed: PlacedCalls) -> None:
    acknowledged = [call for call in calls if call.outcome is Outcome.OK]
    if len(positions) < len(acknowledged):
        placed.broken.append(_lost(key, acknowledged, len(positions)))
    elif key[1] is _NO_SESSION and (len(calls) > 1 or len(positions) > 1):
        placed.unplaced = _first(placed.unplaced, acknowledged)
    else:
        certain = _certain(calls, len(positions))
        placed.by_position.update(zip(positions, certain, strict=False))
        later = [call for call in calls[len(certain) :] if call.outcome is Outcome.OK]
        placed.unplaced = _first(placed.unplaced, later)


def _certain(calls: Sequence[Operation], in_log: int) -> Sequence[Operation]:
    """The calls of a session that have a certain place. A call after one that was given up has none if the log lacks
    some.
    """
    given_up = next((index for index, call in enumerate(calls) if call.outcome is not Outcome.OK), len(calls))
    has_later = any(call.outcome is Outcome.OK for call in calls[given_up:])
    return calls[:given_up] if in_log < len(calls) and has_later else calls


def _first(known: Operation | None, calls: Sequence[Operation]) -> Operation | None:
    return min([*([known] if known else []), *calls], key=lambda call: call.invoke_ns, default=None)


def _lost(key: _Key, acknowledged: Sequence[Operation], there: int) -> Finding:
    digest, session = key
    where = "" if session is _NO_SESSION else f" in session {session}"
    call = acknowledged[there]
    detail = (
        f"call {call.key} (operation {call.id}) with payload {shown_digest(digest)} was acknowledged "
        f"{len(acknowledged)} times{where} and is in the log {there} times"
    )
    return Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, detail, operation=call.id)


def _duplicates(
    sent: Mapping[_Key, Sequence[Operation]], in_log: Mapping[_Key, Sequence[int]], entries: Sequence[CallEntry]
) -> list[Finding]:
    """The first duplicate in a session, if a later call of that session in the log is known to the history.

    Up to that later call the history is complete. The end of a history may be missing if a client process was killed.
    """
    known_until: dict[int | None, int] = {}
    seen: Counter[_Key] = Counter()
    for entry in entries:
        key = entry.digest, entry.session
        seen[key] += 1
        if seen[key] <= len(sent.get(key, ())):
            known_until[entry.session] = entry.position
    for (digest, session), calls in sent.items():
        extra = in_log.get((digest, session), [])[len(calls) :]
        if session is not _NO_SESSION and extra and extra[0] < known_until.get(session, -1):
            detail = (
                f"call {calls[-1].key} (operation {calls[-1].id}) with payload {shown_digest(digest)} was sent "
                f"{len(calls)} times in session {session} and is in the log again at position {extra[0]}"
            )
            return [Finding(Promise.APPLIED_ONCE, Verdict.INVALID, detail, position=extra[0], operation=calls[-1].id)]
    return []
