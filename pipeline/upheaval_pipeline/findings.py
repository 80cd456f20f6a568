"""From the evidence rows of the Spark jobs to findings, under the rules of `upheaval.checkers`. Plain Python."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from upheaval.checkers import witness
from upheaval.checkers.leaders import ONE_LEADER_A_TERM, LeaderClaim, one_leader_a_term
from upheaval.checkers.logs import LOGS_COMPLETE, LOGS_EQUAL
from upheaval.checkers.run import converged, finals, traffic
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.errors import UsageError
from upheaval.history import Function
from upheaval.run_folder import Manifest, RunFolder
from upheaval_pipeline.tables import line_number


@dataclass(frozen=True)
class Evidence:
    """What a job found out: a number, and a text (of a judgement: its first violation, or None)."""

    kind: str
    key: int | None
    number: int | None
    text: str | None


class _Rows:
    def __init__(self, rows: Sequence[Evidence]) -> None:
        self._rows = rows

    def all(self, kind: str) -> list[Evidence]:
        return sorted((row for row in self._rows if row.kind == kind), key=lambda row: row.key or 0)

    def one(self, kind: str) -> Evidence:
        return self.all(kind)[0]


def findings(run: RunFolder, manifest: Manifest, evidence: Sequence[Evidence]) -> Iterator[Finding]:
    """The findings in the order of `upheaval verify`. Raises `UsageError` for a malformed line."""
    rows = _Rows(evidence)
    _require_readable(run, rows)
    yield converged(manifest)
    yield _traffic(rows)
    yield _leaders(run, manifest, rows)
    yield _complete(manifest, rows)
    yield _equal(manifest, rows)
    yield from _history(rows)


def _require_readable(run: RunFolder, rows: _Rows) -> None:
    for kind in ("bad history", "bad trace"):
        for row in rows.all(kind):
            raise UsageError(str(row.text))
    for row in rows.all("id twice"):
        number = line_number(run.history_file, row.number or 0)
        raise UsageError(f"{run.history_file}:{number}: operation id {row.key} is there twice")


def _traffic(rows: _Rows) -> Finding:
    counts = dict.fromkeys(Function, 0)
    unknown = 0
    for row in rows.all("traffic"):
        outcome, function = str(row.text).split()
        if outcome == "ok":
            counts[Function(function)] += row.number or 0
        elif outcome == "unknown":
            unknown += row.number or 0
    return traffic(counts, unknown)


def _leaders(run: RunFolder, manifest: Manifest, rows: _Rows) -> Finding:
    claims: list[LeaderClaim] = []
    for row in rows.all("term"):
        assert row.key is not None
        assert row.number is not None
        if row.text is not None:
            return Finding(ONE_LEADER_A_TERM, Verdict.INVALID, f"term {row.key} has {row.text}")
        claims.append(LeaderClaim(row.key, row.number, ""))
    for member_id in range(manifest.members):
        if not run.member(member_id).trace.exists():
            return Finding(ONE_LEADER_A_TERM, Verdict.UNKNOWN, f"the trace of member {member_id} is missing")
    return one_leader_a_term(claims)


def _missing(manifest: Manifest, rows: _Rows) -> str | None:
    readable = {row.key for row in rows.all("log")}
    reasons = {row.key: row.text for row in rows.all("no log")}
    for member_id in range(manifest.members):
        if member_id not in readable:
            return reasons.get(member_id) or f"member {member_id} has no log"
    return None


def _complete(manifest: Manifest, rows: _Rows) -> Finding:
    ends = {row.key: row for row in rows.all("log")}
    for final in finals(manifest):
        row = ends.get(final.member_id)
        if row is not None and (row.number or 0) < final.append_position:
            fault = json.loads(str(row.text)).get("fault")
            why = f" ({fault})" if fault else ""
            detail = (
                f"the log of member {final.member_id} ends at position {row.number}, "
                f"its final position is {final.append_position}{why}"
            )
            return Finding(LOGS_COMPLETE, Verdict.INVALID, detail)
    problem = _problem(manifest, rows)
    if problem:
        return Finding(LOGS_COMPLETE, Verdict.UNKNOWN, problem)
    positions = sorted({row.number or 0 for row in ends.values()})
    where = f"position {positions[0]}" if len(positions) == 1 else f"positions {positions[0]} to {positions[-1]}"
    return Finding(LOGS_COMPLETE, Verdict.VALID, f"{len(ends)} logs end at {where}")


def _equal(manifest: Manifest, rows: _Rows) -> Finding:
    difference = rows.one("difference").text
    if difference is not None:
        return Finding(LOGS_EQUAL, Verdict.INVALID if finals(manifest) else Verdict.UNKNOWN, difference)
    problem = _problem(manifest, rows)
    if problem:
        return Finding(LOGS_EQUAL, Verdict.UNKNOWN, problem)
    low = min(final.commit_position for final in finals(manifest))
    count = len(rows.all("log"))
    return Finding(LOGS_EQUAL, Verdict.VALID, f"{count} logs compared frame by frame up to position {low}")


def _problem(manifest: Manifest, rows: _Rows) -> str | None:
    missing = _missing(manifest, rows)
    if missing is None and not finals(manifest):
        return "the manifest has no final positions: no converge phase"
    return missing


def _history(rows: _Rows) -> list[Finding]:
    promises = (
        witness.ACKNOWLEDGED_NOT_LOST,
        witness.APPLIED_ONCE,
        witness.LINEARIZABLE,
        witness.HISTORY_COMPLETE,
    )
    reason = _unjudgeable(rows)
    if reason:
        return [Finding(promise, Verdict.UNKNOWN, reason) for promise in promises]
    acknowledged, once, results = rows.one("acknowledged"), rows.one("applied once"), rows.one("results")
    real_time, explained = rows.one("real time"), rows.one("explained")
    entries = explained.number or 0
    order = results.text or real_time.text
    return [
        _finding(promises[0], acknowledged.text, f"{acknowledged.number} acknowledged operations found in the log"),
        _finding(promises[1], once.text, f"{entries} operations in the log, each once"),
        _finding(promises[2], order, f"{results.number or 0} results agree with the order of the log"),
        _finding(
            promises[3], explained.text, f"all {entries} operations in the log are in the history", Verdict.UNKNOWN
        ),
    ]


def _unjudgeable(rows: _Rows) -> str | None:
    logs = rows.all("log")
    if not logs:
        return "there is no readable log"
    longest = max(logs, key=lambda row: (row.number or 0, -(row.key or 0)))
    start = int(json.loads(str(longest.text))["log_start"])
    if start > 0:
        return f"the log begins at position {start}: what came before it is gone"
    if not rows.all("traffic"):
        return "there is no history"
    return None


def _finding(promise: str, violation: str | None, kept: str, broken: Verdict = Verdict.INVALID) -> Finding:
    return Finding(promise, Verdict.VALID, kept) if violation is None else Finding(promise, broken, violation)
