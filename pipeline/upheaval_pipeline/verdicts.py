"""The table `verdicts` of a lake: the findings on its runs, a row a promise.

`upheaval ingest` writes them, and `upheaval verify --lake` those of a newer judge. Of a run the last ones count, and of
one that was ingested again with other contents none. Nothing is judged here.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from upheaval.checkers.own.causes import Explanation, parse_explanation
from upheaval.checkers.promises import Promise, promise_of
from upheaval.checkers.signature import Signature, parse_signature
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Verdict
from upheaval.errors import UsageError
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.lake import Entry, Lake, new_batch, writing
from upheaval_pipeline.lake_files import write_file
from upheaval_pipeline.tables import batches
from upheaval_pipeline.version import digest_in, of_this_version
from upheaval_pipeline.whole import Judged

NAME: Final = "verdicts"
UNREADABLE: Final = "unreadable"
"""The verdict on a run that cannot be judged."""
SCHEMA: Final = (
    "run string, run_verdict string, folder string, number int, promise string, verdict string, detail string, "
    "late_ms long, members array<int>, position long, operation long, explanation string, "
    "signature string, known_issue int, is_gap boolean"
)


def verdict_rows(judged: Mapping[str, Judged]) -> Iterator[pa.RecordBatch]:
    """The rows of runs, as the table has them."""
    rows = (row for run, one in judged.items() for row in _rows(run, one))
    return batches(rows, arrow_schema(SCHEMA))


def write_verdicts(lake: Lake, judged: Mapping[str, Judged]) -> None:
    """Keep what this version found about runs of a lake as it was when they were judged."""
    batch = new_batch()
    with writing(lake.where):
        written = write_file(lake.where, NAME, batch, verdict_rows(judged))
        entries = [
            Entry(run, of_this_version(digest_in(entry.contents)), {})
            for run in judged
            if (entry := lake.entry("runs", run)) is not None
        ]
        Lake(lake.where).commit(batch, [NAME], entries, [one.file for one in written])


def runs_with_verdicts(lake: Lake) -> list[str]:
    """The runs whose verdicts count; of damaged verdicts none does."""
    return [run for run in lake.runs(NAME) if _counts(lake, run)]


def judged_by_this_version(lake: Lake, runs: Sequence[str]) -> dict[str, Judged]:
    """What this version of Upheaval found about runs, as far as it has judged them."""
    known = [run for run in runs if _counts(lake, run) and _is_of_this_version(lake, run)]
    of_run: dict[str, list[dict[str, Any]]] = {}
    for row in lake.read(NAME, arrow_schema(SCHEMA), known):
        of_run.setdefault(row["run"], []).append(row)
    return {run: _judged(rows) for run, rows in of_run.items()}


def _counts(lake: Lake, run: str) -> bool:
    of, now = lake.entry(NAME, run), lake.entry("runs", run)
    if of is None or now is None:
        return False
    return digest_in(of.contents) == digest_in(now.contents) and not lake.damage(NAME, run)


def _is_of_this_version(lake: Lake, run: str) -> bool:
    entry = lake.entry(NAME, run)
    return entry is not None and entry.contents == of_this_version(digest_in(entry.contents))


def _rows(run: str, judged: Judged) -> Iterator[tuple[object, ...]]:
    if not isinstance(judged, Report):
        yield run, UNREADABLE, None, 0, None, UNREADABLE, str(judged), 0, *[None] * 7
        return
    start = run, judged.verdict.text, judged.run
    for number, finding in enumerate(judged.findings):
        causes = _as_json(finding.explanation), _as_json(finding.signature), finding.known_issue, None
        what = str.__str__(finding.promise), finding.verdict.text, finding.detail, finding.late_ms
        yield *start, number, *what, list(finding.members), finding.position, finding.operation, *causes
    for number, unchecked in enumerate(judged.unchecked, start=len(judged.findings)):
        yield *start, number, str.__str__(unchecked.promise), None, unchecked.why, 0, *[None] * 6, unchecked.is_gap


def _as_json(value: Explanation | Signature | None) -> str | None:
    return None if value is None else json.dumps(asdict(value))


def _judged(rows: Iterable[dict[str, Any]]) -> Judged:
    findings: list[Finding] = []
    not_checked: list[NotApplicable] = []
    folder = ""
    for row in sorted(rows, key=lambda row: row["number"]):
        if row["verdict"] == UNREADABLE:
            return UsageError(row["detail"])
        folder = row["folder"]
        if row["verdict"] is None:
            not_checked.append(NotApplicable(Promise(row["promise"]), row["detail"], bool(row["is_gap"])))
        else:
            findings.append(_finding(row))
    return Report(folder, tuple(findings), tuple(not_checked))


def _finding(row: dict[str, Any]) -> Finding:
    return Finding(
        promise_of(row["promise"]),
        Verdict.named(row["verdict"]),
        row["detail"],
        tuple(row["members"]),
        row["position"],
        row["operation"],
        row["late_ms"],
        None if row["explanation"] is None else parse_explanation(json.loads(row["explanation"])),
        None if row["signature"] is None else parse_signature(json.loads(row["signature"])),
        row["known_issue"],
    )
