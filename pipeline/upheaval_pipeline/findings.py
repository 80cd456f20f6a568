"""From the evidence of the Spark jobs to findings, by the rules and in the words of `upheaval.checkers`. Plain Python.

What broke a promise is put together again from its evidence and shown to the function that judges it in this process.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from upheaval.checkers import run as in_process
from upheaval.checkers import witness
from upheaval.checkers.calls import CallCount, CallEntry, judge_counts, shown_digest
from upheaval.checkers.faults import faults_proved
from upheaval.checkers.leaders import LeaderClaim, one_leader_a_term
from upheaval.checkers.promises import Promise
from upheaval.checkers.stalls import Stall
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.checkers.witness import LogEntry
from upheaval.errors import UsageError
from upheaval.records import Function, Manifest, Operation, Outcome, parse_fault
from upheaval_pipeline.evidence import Evidence
from upheaval_pipeline.judged_events import events_of, requests_of
from upheaval_pipeline.run_tables import RunTables
from upheaval_pipeline.tables import line_number

_PROMISES = (
    Promise.ACKNOWLEDGED_NOT_LOST,
    Promise.APPLIED_ONCE,
    Promise.LINEARIZABLE,
    Promise.HISTORY_COMPLETE,
)


class _Rows:
    def __init__(self, rows: Sequence[Evidence]) -> None:
        self._rows = rows

    def all(self, kind: str) -> list[Evidence]:
        return sorted((row for row in self._rows if row.kind == kind), key=lambda row: row.key or 0)

    def one(self, kind: str) -> Evidence:
        return self.all(kind)[0]

    def told(self, kind: str) -> dict[str, Any] | None:
        """What breaks a promise, None when nothing does."""
        text = self.one(kind).text
        return None if text is None else json.loads(text)


def findings(run: RunTables, evidence: Sequence[Evidence]) -> Iterator[Finding]:
    """The findings in the order of `upheaval verify`. Raises `UsageError` for a malformed line."""
    rows = _Rows(evidence)
    _require_readable(run, rows)
    yield in_process.converged(run.manifest)
    yield _traffic(rows)
    yield faults_proved((parse_fault(told) for _, told in _told(rows.all("fault"))), run.manifest)
    yield from run.aside.orders
    yield _leaders(run, rows)
    yield _complete(run.manifest, rows)
    yield _equal(run.manifest, rows)
    yield from _history(rows)
    yield from _events(run, rows)


def _require_readable(run: RunTables, rows: _Rows) -> None:
    bad = {found["source"]: (row.number or 0, found["reason"]) for row, found in _told(rows.all("bad line"))}
    again = [_id_twice(run.name, run.history_file, row) for row in rows.all("id twice")]
    first = min([*([bad["history"]] if "history" in bad else []), *again], default=None)
    first = first or bad.get("faults") or bad.get("trace")
    if first is not None:
        raise UsageError(first[1])


def _id_twice(name: str, file: Path | None, row: Evidence) -> tuple[int, str]:
    offset = row.number or 0
    if file is None:
        return offset, f"{name}: duplicate operation id {row.key}, again at byte {offset} of the history"
    number = line_number(file, offset)
    return number, f"{file}:{number}: duplicate operation id {row.key}"


def _told(rows: Sequence[Evidence]) -> list[tuple[Evidence, Any]]:
    return [(row, json.loads(str(row.text))) for row in rows]


def _traffic(rows: _Rows) -> Finding:
    counts = dict.fromkeys(Function, 0)
    unknown = 0
    for row in rows.all("traffic"):
        outcome, function = str(row.text).split()
        if outcome == "ok":
            counts[Function(function)] += row.number or 0
        elif outcome == "unknown":
            unknown += row.number or 0
    return in_process.traffic(counts, unknown)


def _leaders(run: RunTables, rows: _Rows) -> Finding:
    claims: list[LeaderClaim] = []
    contradictions: list[tuple[list[int], list[LeaderClaim]]] = []
    for row, told in _told(rows.all("term")):
        found = [LeaderClaim(row.key or 0, claim["leader"], claim["source"]) for claim in told]
        claims.append(found[0])
        if len(found) > 1:
            contradictions.append((told[1]["by"], found))
    if contradictions:
        return one_leader_a_term(min(contradictions)[1])
    for member_id in range(run.manifest.members):
        if member_id not in run.traced:
            return Finding(Promise.ONE_LEADER_A_TERM, Verdict.UNKNOWN, f"the trace of member {member_id} is missing")
    return one_leader_a_term(claims)


def _complete(manifest: Manifest, rows: _Rows) -> Finding:
    ends: dict[int | None, tuple[int, Any]] = {row.key: (row.number or 0, told) for row, told in _told(rows.all("log"))}
    for final in in_process.finals(manifest):
        end, told = ends.get(final.member_id, (final.append_position, {}))
        if end < final.append_position:
            why = f" ({told['fault']})" if told.get("fault") else ""
            detail = (
                f"the log of member {final.member_id} ends at position {end}, "
                f"its final position is {final.append_position}{why}{_what_follows(rows, told.get('next'))}"
            )
            return Finding(Promise.LOGS_COMPLETE, Verdict.INVALID, detail)
    problem = _problem(manifest, rows)
    if problem:
        return Finding(Promise.LOGS_COMPLETE, Verdict.UNKNOWN, problem)
    positions = sorted({end for end, _ in ends.values()})
    where = f"position {positions[0]}" if len(positions) == 1 else f"positions {positions[0]} to {positions[-1]}"
    return Finding(Promise.LOGS_COMPLETE, Verdict.VALID, f"{len(ends)} logs end at {where}")


def _what_follows(rows: _Rows, entry: Any) -> str:
    if entry is None:
        return ""
    return (
        f"; member {_longest(rows).key} goes on with operation id={entry['id']} {entry['f']} {entry['key']} "
        f"at position {entry['position']}"
    )


def _longest(rows: _Rows) -> Evidence:
    return max(rows.all("log"), key=lambda row: (row.number or 0, -(row.key or 0)))


def _problem(manifest: Manifest, rows: _Rows) -> str | None:
    readable = {row.key for row in rows.all("log")}
    reasons = {row.key: row.text for row in rows.all("no log")}
    for member_id in range(manifest.members):
        if member_id not in readable:
            return reasons.get(member_id) or f"member {member_id} has no log"
    return None if in_process.finals(manifest) else "the manifest has no final positions: no converge phase"


def _equal(manifest: Manifest, rows: _Rows) -> Finding:
    finals = in_process.finals(manifest)
    differences = _told(rows.all("difference"))
    if differences:
        detail = min(_in_segments(rows, row, told) for row, told in differences)[-1]
        return Finding(Promise.LOGS_EQUAL, Verdict.INVALID if finals else Verdict.UNKNOWN, detail)
    problem = _problem(manifest, rows)
    if problem:
        return Finding(Promise.LOGS_EQUAL, Verdict.UNKNOWN, problem)
    low = min(final.commit_position for final in finals)
    count = len(rows.all("log"))
    return Finding(Promise.LOGS_EQUAL, Verdict.VALID, f"{count} logs compared frame by frame up to position {low}")


def _in_segments(rows: _Rows, row: Evidence, told: Any) -> tuple[int, int, str]:
    """In-process, segments are compared one after the other, and in each one the logs with the first of them."""
    segment_length = json.loads(str(_longest(rows).text))["segment_length"]
    shown = [_frame(told.get(side)) for side in ("a", "b")]
    detail = (
        f"members {told['one']['member']} and {row.key} differ at position {row.number}: {shown[0]} against {shown[1]}"
    )
    return (row.number or 0) // segment_length, row.key or 0, detail


def _frame(frame: Any) -> str:
    """What a frame says, as `upheaval.checkers.logs` describes it."""
    if frame is None:
        return "no frame"
    said = frame.get("said") or {}
    if said.get("operation_id") is not None:
        value = json.loads(said["value"])
        return f"operation id={said['operation_id']} {said['f']} {said['key']} {value!r}"
    if said.get("f") == Function.CALL:
        return f"a call with payload {shown_digest(json.loads(said['value']))}"
    if said.get("type") == "NewLeadershipTermEvent":
        fields = json.loads(said["fields"])
        return f"leadership term {fields['leadership_term_id']} of member {fields['leader_member_id']}"
    return "another frame"


def _history(rows: _Rows) -> list[Finding]:
    reason = _unjudgeable(rows)
    if reason:
        return [Finding(promise, Verdict.UNKNOWN, reason) for promise in _PROMISES]
    of_shipped = [_acknowledged(rows), _applied_once(rows), _linearizable(rows), _explained(rows)]
    calls = rows.one("calls")
    if not calls.number:
        return of_shipped
    of_calls = _calls(json.loads(str(calls.text)))
    is_shipped = any(not str(row.text).endswith(f" {Function.CALL}") for row in rows.all("traffic"))
    has_others = is_shipped or rows.one("explained").number
    return in_process.merged(of_shipped, of_calls) if has_others else of_calls


def _events(run: RunTables, rows: _Rows) -> Iterator[Finding]:
    """Sessions, messages of services, timers and money, of logs that are there from their beginning; what is aside."""
    if rows.all("log") and int(json.loads(str(_longest(rows).text))["log_start"]) == 0:
        found = events_of(rows.all("session"), rows.all("event"))
        operations, entries = requests_of(rows.all("own request"))
        yield from in_process.judge_events(found, operations, entries, lambda: _longest_stall(rows))
    yield from run.aside.snapshots


def _longest_stall(rows: _Rows) -> Stall | None:
    return next((Stall(row.number or 0, str(row.text)) for row in rows.all("stall")), None)


def _unjudgeable(rows: _Rows) -> str | None:
    if not rows.all("log"):
        return "no readable log"
    start = int(json.loads(str(_longest(rows).text))["log_start"])
    if start > 0:
        return f"the log begins at position {start}: what came before it is gone"
    return None if rows.all("traffic") else "no history"


def _acknowledged(rows: _Rows) -> Finding:
    row, told = rows.one("acknowledged"), rows.told("acknowledged")
    if told is None:
        detail = f"{row.number} acknowledged operations found in the log"
        return Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.VALID, detail)
    entries = {told["id"]: _entry(told)} if "position" in told else {}
    return _broken(witness.acknowledged_not_lost([_operation(told)], entries), "is in the log in other words")


def _applied_once(rows: _Rows) -> Finding:
    row, told = rows.one("applied once"), rows.told("applied once")
    if told is None:
        return Finding(Promise.APPLIED_ONCE, Verdict.VALID, f"{row.number} operations in the log, each once")
    entry = _entry(told)
    if told.get("first", entry.position) < entry.position:
        return witness.applied_once([], [LogEntry(told["first"], entry.id, entry.f, entry.key, None), entry])
    return witness.applied_once([_operation(told)], [entry])


def _linearizable(rows: _Rows) -> Finding:
    row, told = rows.one("results"), rows.told("real time")
    late = None if told is None else witness.overtaken(_operation(told), told["at"], told["later"])
    if row.text is not None and (told is None or (row.key or 0) <= told["at"]):
        return Finding(Promise.LINEARIZABLE, Verdict.INVALID, row.text)
    detail = f"{row.number or 0} results agree with the order of the log"
    return late or Finding(Promise.LINEARIZABLE, Verdict.VALID, detail)


def _explained(rows: _Rows) -> Finding:
    row, told = rows.one("explained"), rows.told("explained")
    if told is None:
        detail = f"all {row.number} operations in the log are in the history"
        return Finding(Promise.HISTORY_COMPLETE, Verdict.VALID, detail)
    return witness.history_complete([], [_entry(told)])


def _calls(told: Any) -> list[Finding]:
    """Payloads that break a promise, and all others as one that keeps them."""
    counts: dict[str, CallCount] = {}
    for name in ("lost", "again"):
        if name in told:
            count = json.loads(told[name])
            digest = json.loads(count["payload"])
            counts[digest] = CallCount(
                count["name"], count["acknowledged"], count["sent"], count["in_log"], count.get("last_position", -1)
            )
    if not counts:
        counts[""] = CallCount("", told["acknowledged"], told["sent"], told["in_log"])
    unexplained = None
    if "unexplained" in told:
        entry = json.loads(told["unexplained"])
        unexplained = CallEntry(entry["at"], json.loads(entry["payload"]))
    found = judge_counts(counts, unexplained)
    whole = judge_counts({"": CallCount("", told["acknowledged"], told["sent"], told["in_log"])}, unexplained)
    return [one if one.verdict is not Verdict.VALID else other for one, other in zip(found, whole, strict=True)]


def _broken(finding: Finding, otherwise: str) -> Finding:
    """What was found broken by its text stays so, even where the values that the texts spell are equal."""
    if finding.verdict is not Verdict.VALID:
        return finding
    return Finding(finding.promise, Verdict.INVALID, f"an acknowledged operation {otherwise}")


def _operation(told: Any) -> Operation:
    """An operation as it was sent. Times are not told: nobody shows them."""
    outcome = Outcome(told.get("sent_outcome", Outcome.OK))
    answered = outcome is Outcome.OK
    return Operation(
        id=told["id"],
        process=0,
        f=Function(told["sent_f"]),
        key=told["sent_key"],
        value=json.loads(told["sent_value"]),
        invoke_ns=0,
        complete_ns=0 if answered else None,
        outcome=outcome,
        result=json.loads(told["sent_result"]) if answered else None,
        position=told.get("sent_position"),
    )


def _entry(told: Any) -> LogEntry:
    return LogEntry(told["position"], told["id"], Function(told["f"]), told["key"], json.loads(told["value"]))
