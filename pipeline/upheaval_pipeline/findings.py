"""From the evidence of the Spark jobs to findings, by the rules and in the words of `upheaval.checkers`. Plain Python.

What broke a promise is put together again from its evidence and shown to the function that judges it in this process.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from upheaval.checkers import run as in_process
from upheaval.checkers.history import witness
from upheaval.checkers.evidence.absence import check_asked_snapshots
from upheaval.checkers.history.calls import CallCount, CallEntry, judge_counts
from upheaval.checkers.history.clients import Clients
from upheaval.checkers.evidence.events import StrayEntry
from upheaval.checkers.evidence.faults import faults_proved
from upheaval.checkers.protocol.leaders import LeaderClaim, one_leader_a_term
from upheaval.checkers.evidence.logs import (
    NO_FRAME,
    OTHER_FRAME,
    Difference,
    Frame,
    LogEnd,
    Missing,
    Shown,
    TermEntry,
    completeness,
    differing_frames,
    equality,
    header_facts,
    why_not_whole,
)
from upheaval.checkers.evidence.positions import LogBounds, final_positions, finals_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.evidence.recordings import TYPE_DATA, TYPE_PAD
from upheaval.checkers.evidence.stalls import Stall
from upheaval.checkers.verdict import Finding, Verdict, trace_missing
from upheaval.checkers.history.witness import LogEntry
from upheaval.errors import UsageError
from upheaval.records import Function, Manifest, Operation, Outcome, parse_fault
from upheaval_pipeline.evidence import Evidence
from upheaval_pipeline.judged_events import events_of, operation_of, requests_of
from upheaval_pipeline.run_tables import Run
from upheaval_pipeline.tables import line_number


class _Rows:
    def __init__(self, rows: Sequence[Evidence]) -> None:
        self._rows = rows

    def all(self, kind: str) -> list[Evidence]:
        return sorted((row for row in self._rows if row.kind == kind), key=lambda row: row.key or 0)

    def one(self, kind: str) -> Evidence:
        """Where the run has nothing of the kind there is no row, which is as good as one that says so."""
        return next(iter(self.all(kind)), Evidence(kind, None, None, None))

    def told(self, kind: str) -> dict[str, Any] | None:
        """What breaks a promise, None when nothing does."""
        text = self.one(kind).text
        return None if text is None else json.loads(text)


def findings(run: Run, evidence: Sequence[Evidence], bounds: LogBounds) -> Iterator[Finding]:
    """The findings in the order of `upheaval verify`. Raises `UsageError` for a malformed line."""
    rows = _Rows(evidence)
    _require_readable(run, rows)
    yield in_process.converged(run.manifest)
    yield _traffic(rows)
    yield faults_proved((parse_fault(told) for _, told in _told(rows.all("fault"))), run.manifest)
    yield from run.aside.commands
    yield _leaders(run, rows)
    yield _final_positions(run, rows, bounds)
    yield _complete(run.manifest, rows)
    yield _equal(run.manifest, rows)
    yield from in_process.joined(_history(rows, bounds), run.aside.model)
    yield from _events(run, rows)
    absent = check_asked_snapshots(_asked_snapshots(rows), run.manifest, run.aside.taken)
    yield from in_process.merged(run.aside.files, absent)


def _asked_snapshots(rows: _Rows) -> list[int]:
    if not _has_whole_log(rows):
        return []
    return events_of([], rows.all("event"), []).snapshots


def _require_readable(run: Run, rows: _Rows) -> None:
    bad = {found["source"]: (row.number or 0, found["reason"]) for row, found in _told(rows.all("bad line"))}
    again = [_id_twice(run.name, run.history_file, row) for row in rows.all("id twice")]
    first = min([*([bad["history"]] if "history" in bad else []), *again], default=None)
    first = first or bad.get("faults") or bad.get("trace")
    if first is not None:
        raise UsageError(first[1])
    if run.aside.malformed:
        raise UsageError(run.aside.malformed)


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
    for row, told in _told(rows.all("traffic")):
        if told["outcome"] == Outcome.OK:
            counts[Function(told["f"])] += row.number or 0
        elif told["outcome"] == Outcome.UNKNOWN:
            unknown += row.number or 0
    return in_process.traffic(counts, unknown)


def _leaders(run: Run, rows: _Rows) -> Finding:
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
            return trace_missing(Promise.ONE_LEADER_A_TERM, member_id)
    return one_leader_a_term(claims)


def _final_positions(run: Run, rows: _Rows, bounds: LogBounds) -> Finding:
    ends = {row.key or 0: row.number or 0 for row in rows.all("log")}
    told = rows.told("past the end")
    past = None if told is None else operation_of(told)
    return final_positions(run.manifest, run.aside.positions, ends, bounds, past, rows.one("past commit").number)


def _complete(manifest: Manifest, rows: _Rows) -> Finding:
    ends = {row.key or 0: LogEnd(row.number or 0, told["fault"]) for row, told in _told(rows.all("log"))}
    missed = {row.key or 0: told for row, told in _told(rows.all("next"))}

    def following(member_id: int, _position: int) -> tuple[int, LogEntry] | None:
        entry = missed.get(member_id)
        return None if entry is None else (_longest(rows).key or 0, _entry({"value": "null", **entry}))

    return completeness(ends, finals_of(manifest), _missing(manifest, rows), following)


def _longest(rows: _Rows) -> Evidence:
    return max(rows.all("log"), key=lambda row: (row.number or 0, -(row.key or 0)))


def _missing(manifest: Manifest, rows: _Rows) -> Missing | None:
    readable = {row.key for row in rows.all("log")}
    reasons = {row.key: row.text for row in rows.all("no log")}
    absent = (member_id for member_id in range(manifest.members) if member_id not in readable)
    return next((Missing(each, reasons.get(each) or f"member {each} has no log") for each in absent), None)


def _equal(manifest: Manifest, rows: _Rows) -> Finding:
    differences = _told(rows.all("difference"))
    first = min((_in_segments(rows, row) for row, _ in differences), default=None)
    difference = next((_difference(row, told) for row, told in differences if _in_segments(rows, row) == first), None)
    return equality(len(rows.all("log")), finals_of(manifest), _missing(manifest, rows), difference)


def _in_segments(rows: _Rows, row: Evidence) -> tuple[int, int]:
    """In-process, segments are compared one after the other, and in each one the logs with the first of them."""
    segment_length = json.loads(str(_longest(rows).text))["segment_length"]
    return (row.number or 0) // segment_length, row.key or 0


def _difference(row: Evidence, told: Any) -> Difference:
    members = told["one"]["member"], row.key or 0
    return differing_frames(members, row.number or 0, shown_frame(told.get("a")), shown_frame(told.get("b")))


def shown_frame(frame: Any) -> Shown:
    """What a row of the recording says of a frame; None where a log has none there."""
    if frame is None:
        return Shown(NO_FRAME, {})
    kind = TYPE_PAD if frame["kind"] == "padding" else TYPE_DATA
    facts = header_facts(frame["length"], frame["flags"], kind, frame["stream_id"], frame["term_id"], frame["reserved"])
    said = json.loads((frame.get("said") or {}).get("fields", "{}"))
    return Shown(_frame(frame), {**facts, **said})


def _frame(frame: Any) -> Frame:
    said = frame.get("said") or {}
    if said.get("operation_id") is not None:
        return _entry({**said, "id": said["operation_id"], "position": -1})
    if said.get("f") == Function.CALL:
        return CallEntry(-1, json.loads(said["value"]))
    if said.get("type") == "NewLeadershipTermEvent":
        fields = json.loads(said["fields"])
        return TermEntry(fields["leadership_term_id"], fields["leader_member_id"], -1)
    return OTHER_FRAME


def _history(rows: _Rows, bounds: LogBounds) -> list[Finding]:
    logs, traffic = rows.all("log"), rows.all("traffic")
    if not logs:
        return in_process.unjudgeable("no readable log")
    why = _why_not_whole(rows) or (None if traffic else "no history")
    if why:
        return in_process.unjudgeable(why, _log_start(rows))
    of_shipped = [_acknowledged(rows, bounds), _applied_once(rows), _linearizable(rows), _explained(rows)]
    calls = rows.one("calls")
    if not calls.number:
        return of_shipped
    of_calls = _calls(json.loads(str(calls.text)))
    is_shipped = any(told["f"] != Function.CALL for _, told in _told(traffic))
    has_others = is_shipped or rows.one("explained").number
    return in_process.merged(of_shipped, of_calls) if has_others else of_calls


def _events(run: Run, rows: _Rows) -> Iterator[Finding]:
    """Sessions, messages of services, timers and money, of logs that are there from their beginning; what is aside."""
    if _has_whole_log(rows):
        found = events_of(rows.all("session"), rows.all("event"), rows.all("term times"))
        found.with_term, found.stray = rows.one("terms").number or 0, _stray(rows)
        operations, entries = requests_of(rows.all("own request"))
        clients, clocks = _clients(rows), run.aside.clocks
        slow = [operation_of(told) for _, told in _told(rows.all("slow answer"))]
        yield from in_process.judge_events(
            found,
            operations,
            entries,
            clients,
            clocks,
            run.aside.clients,
            slow,
            lambda: _longest_stall(rows),
            run.manifest.system,
        )
    yield from run.aside.snapshots


def _has_whole_log(rows: _Rows) -> bool:
    return bool(rows.all("log")) and _why_not_whole(rows) is None


def _why_not_whole(rows: _Rows) -> str | None:
    row = rows.one("unreadable")
    unreadable = None if row.number is None else (row.number, str(row.text))
    return why_not_whole(_log_start(rows), unreadable)


def _log_start(rows: _Rows) -> int:
    return int(json.loads(str(_longest(rows).text))["log_start"])


def _stray(rows: _Rows) -> StrayEntry | None:
    told = rows.told("terms")
    if told is None:
        return None
    stray = told["stray"]
    return StrayEntry(stray["type"], stray["end_position"], stray["term"], stray.get("due"))


def _clients(rows: _Rows) -> Clients:
    again, elsewhere, overtaken, skipped = map(rows.told, ("again", "elsewhere", "overtaken", "skipped"))
    return Clients(
        rows.one("again").number or 0,
        rows.one("elsewhere").number or 0,
        None if again is None else (_sent(again, again["earlier"]), _sent(again)),
        None if elsewhere is None else (_sent(elsewhere), _placed(elsewhere)),
        None if overtaken is None else (_sent(overtaken), _sent(overtaken, overtaken["later"]), overtaken["position"]),
        None if skipped is None else (_sent(skipped), _around(skipped["before"]), _around(skipped["after"])),
    )


def _around(told: Any) -> LogEntry:
    """An entry of which only the place is shown."""
    return LogEntry(told["at"], 0, Function.READ, "", None, term=told["term"])


def _sent(told: Any, operation_id: int | None = None) -> Operation:
    """The operation, or one of which only the id is shown."""
    sent = replace(operation_of(told), process=told.get("process", 0), session=told.get("sent_session"))
    return sent if operation_id is None else replace(sent, id=operation_id)


def _placed(told: Any) -> LogEntry:
    sent = operation_of(told)
    return LogEntry(told["position"], sent.id, sent.f, sent.key, sent.value, session=told["session"])


def _longest_stall(rows: _Rows) -> Stall | None:
    return next((Stall(row.number or 0, str(row.text)) for row in rows.all("stall")), None)


def _acknowledged(rows: _Rows, bounds: LogBounds) -> Finding:
    row, told = rows.one("acknowledged"), rows.told("acknowledged")
    if told is None:
        return witness.all_found(row.number or 0)
    entries = {told["id"]: _entry(told)} if "position" in told else {}
    found = witness.acknowledged_not_lost([operation_of(told)], entries, bounds)
    if found.verdict is not Verdict.VALID:
        return found
    # What was found broken by its text stays so, even where the values that the texts spell are equal.
    detail = "an acknowledged operation is in the log in other words"
    return replace(found, verdict=Verdict.INVALID, detail=detail, position=told.get("position"), operation=told["id"])


def _applied_once(rows: _Rows) -> Finding:
    row, told = rows.one("applied once"), rows.told("applied once")
    if told is None:
        return witness.each_once(row.number or 0)
    entry = _entry(told)
    if told.get("first", entry.position) < entry.position:
        return witness.applied_once([], [LogEntry(told["first"], entry.id, entry.f, entry.key, None), entry])
    return witness.applied_once([operation_of(told)], [entry])


def _linearizable(rows: _Rows) -> Finding:
    row, told = rows.one("results"), rows.told("real time")
    late = None if told is None else witness.overtaken(operation_of(told), told["at"], told["later"])
    wrong = rows.told("results")
    if wrong is not None and (told is None or wrong["position"] <= told["at"]):
        about = {"position": wrong["position"], "operation": wrong["operation"]}
        return Finding(Promise.LINEARIZABLE, Verdict.INVALID, wrong["violation"], **about)
    return late or witness.all_agree(row.number or 0)


def _explained(rows: _Rows) -> Finding:
    row, told = rows.one("explained"), rows.told("explained")
    return witness.all_known(row.number or 0) if told is None else witness.history_complete([], [_entry(told)])


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


def _entry(told: Any) -> LogEntry:
    return LogEntry(told["position"], told["id"], Function(told["f"]), told["key"], json.loads(told["value"]))
