"""Runs as rows of the tables of a lake, without files: what views and questions make of them is asked at once."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
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


@dataclass(frozen=True)
class RunRows:
    """A run; times are in ms. `answers` are begins and ends, an operation's id and position is its place in them;
    `unanswered` are begins.
    """

    run: str
    answers: Sequence[tuple[int, int]] = ()
    faults: Sequence[tuple[str, int, int | None]] = ()
    controls: Sequence[tuple[str, int, int]] = ()
    findings: Sequence[Finding] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    runtime: str = "process"
    scenario: str | None = "bank"
    system: str = "upheaval"
    version: str = "1"
    created: str = "2026-11-01"
    unanswered: Sequence[int] = ()

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Its rows by the names of their tables."""
        manifest = json.dumps({"system": self.system, "version": self.version})
        controls = [
            {"what": what, "begin_ns": begin * MS, "end_ns": end * MS, "leader": 0, "members": {}}
            for what, begin, end in self.controls
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
        for line, (what, begin, heal) in enumerate(self.faults):
            times = {"inject_begin_ns": begin * MS, "heal_end_ns": None if heal is None else heal * MS}
            yield "faults", {"run": self.run, "line": line, "what": what, **times}
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
