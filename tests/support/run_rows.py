"""Runs as rows of the tables of a lake, without files: what views and questions make of them is asked at once."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.duck import DuckEngine, duck_engine
from upheaval_pipeline.query import Asked, add_views
from upheaval_pipeline.questions import QUESTIONS
from upheaval_pipeline.tables import LAKE_SCHEMAS, SEEDS, VERDICTS
from upheaval_pipeline.verdicts import verdict_rows

MS: Final = 1_000_000
Rows = list[dict[str, Any]]


def bad(promise: Promise = Promise.LOGS_EQUAL, operation: int | None = None, position: int | None = None) -> Finding:
    """A broken promise."""
    return Finding(promise, Verdict.INVALID, "2 of them", operation=operation, position=position)


class Command(NamedTuple):
    """A command of an operator. `members` are those with an observation."""

    what: str
    begin: int
    end: int
    holds: bool = True
    members: Sequence[int] = (0, 1, 2)


class Fault(NamedTuple):
    """A fault, and whether it was proved."""

    what: str
    begin: int
    heal: int | None
    holds: bool = True


@dataclass(frozen=True)
class RunRows:
    """A run of three members; times are in ms. `answers` are begins and ends, an operation's id and position is its
    place in them; `unanswered` are begins. `trace` has events of member 0.
    """

    run: str
    answers: Sequence[tuple[int, int]] = ()
    faults: Sequence[tuple[str, int, int | None] | Fault] = ()
    controls: Sequence[tuple[str, int, int] | Command] = ()
    findings: Sequence[Finding] | None = ()
    """Without any it is valid, with None not judged."""
    labels: Mapping[str, str] = field(default_factory=dict)
    runtime: str = "process"
    scenario: str | None = "bank"
    system: str = "upheaval"
    version: str = "1"
    created: str = "2026-11-01"
    unanswered: Sequence[int] = ()
    trace: Sequence[tuple[int, TraceKind, Mapping[str, Any]]] = ()

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Its rows by the names of their tables."""
        manifest = json.dumps({"system": self.system, "version": self.version})
        controls = [
            {
                "what": one.what,
                "begin_ns": one.begin * MS,
                "end_ns": one.end * MS,
                "leader": 0 if one.holds else -1,
                "members": dict.fromkeys(map(str, one.members)),
                "proof": {"holds": one.holds, "evidence": "seen"},
            }
            for one in (Command(*control) for control in self.controls)
        ]
        yield (
            "runs",
            {
                "run": self.run,
                "folder": f"/runs/{self.run}",
                "runtime": self.runtime,
                "members": 3,
                "created": self.created,
                "manifest": manifest,
                "controls": json.dumps(controls),
                "scenario": self.scenario,
                "labels": list(self.labels.items()),
            },
        )
        for number, (begin, end) in enumerate(self.answers):
            times = {"invoke_ns": begin * MS, "complete_ns": end * MS}
            place = {"run": self.run, "line": number, "id": number, "position": number}
            yield "history", {**place, **times, "process": 0, "f": "write", "key": "k", "outcome": "ok"}
        for number, begin in enumerate(self.unanswered, start=len(self.answers)):
            asked = {"run": self.run, "line": number, "id": number, "invoke_ns": begin * MS}
            yield "history", {**asked, "process": 0, "f": "write", "key": "k", "outcome": "unknown"}
        for line, fault in enumerate(Fault(*fault) for fault in self.faults):
            heal_ns = None if fault.heal is None else fault.heal * MS
            times = {"inject_begin_ns": fault.begin * MS, "heal_end_ns": heal_ns}
            proof = {"holds": fault.holds, "evidence": "seen"}
            yield "faults", {"run": self.run, "line": line, "what": fault.what, **times, "inject_proof": proof}
        for line, (ms, event, fields) in enumerate(self.trace):
            place = {"run": self.run, "member": 0, "line": line, "ts": ms * MS, "event": str(event)}
            yield "trace", {**place, "fields": json.dumps(fields), **fields}
        if self.findings is None:
            return
        findings = tuple(self.findings) or (Finding(Promise.LOGS_EQUAL, Verdict.VALID, "equal"),)
        for batch in verdict_rows({self.run: Report(self.run, findings)}, {self.run: ""}, {}):
            yield from (("verdicts", row) for row in batch.to_pylist())


@contextmanager
def engine_with(runs: Sequence[RunRows], asked: Asked | None = None) -> Iterator[DuckEngine]:
    """DuckDB with these runs in its tables, and the views."""
    by_table: dict[str, Rows] = {}
    for run in runs:
        for table, row in run.rows():
            by_table.setdefault(table, []).append(row)
    with duck_engine() as engine:
        for name, schema in {**LAKE_SCHEMAS, "verdicts": VERDICTS, "seeds": SEEDS}.items():
            columns = arrow_schema(schema).names
            rows = [tuple(row.get(column) for column in columns) for row in by_table.get(name, [])]
            engine.add_rows(name, schema, rows)
        add_views(engine, asked or Asked())
        yield engine


def rows_of(engine: DuckEngine, name: str) -> Rows:
    """The rows of the answer to a question, or of a view."""
    sql = {question.name: question.sql for question in QUESTIONS}.get(name, f"SELECT * FROM {name}")
    answer = engine.answer(sql, 1000)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def answer_to(name: str, runs: Sequence[RunRows], asked: Asked | None = None) -> Rows:
    """The rows of one answer about these runs."""
    with engine_with(runs, asked) as engine:
        return rows_of(engine, name)


def alarms(name: str, rows: Rows) -> Rows:
    """Those that are bad news."""
    (alarm,) = (question.alarm for question in QUESTIONS if question.name == name)
    assert alarm is not None
    return [row for row in rows if alarm(row)]
