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
from upheaval.checkers.severe_error import SevereError
from upheaval.checkers.signature import Signature, parse_signature
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Verdict
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import FieldError, Manifest, jsonfields, parse_manifest
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.lake import RUNS, Lake
from upheaval_pipeline.lake_files import BATCH, files_of, write_file
from upheaval_pipeline.own_code import has_more, own_code
from upheaval_pipeline.tables import STORED, VERDICTS, VERDICTS_NAME, batches
from upheaval_pipeline.version import judge_version
from upheaval_pipeline.whole import Judged

UNREADABLE: Final = "unreadable"
"""The verdict on a run that cannot be judged."""
_STORED: Final = arrow_schema(STORED[VERDICTS_NAME])
_WITHOUT_BATCH: Final = _STORED.remove(_STORED.get_field_index(BATCH))


def verdict_rows(
    judged: Mapping[str, Judged], contents: Mapping[str, str], code: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """The rows of runs with these contents, as the table has them but for their batch. `code` is their `own_code`.

    A run that this machine failed to judge has none, so it is judged again.
    """
    made_by = {run: f"{judge_version()} {code.get(run, '')}".rstrip() for run in judged}
    known = {run: one for run, one in judged.items() if not isinstance(one, EnvironmentFault)}
    rows = ((*row, contents[run], made_by[run]) for run, one in known.items() for row in _rows(run, one))
    return batches(rows, _WITHOUT_BATCH)


def write_verdicts(lake: Lake, judged: Mapping[str, Judged]) -> None:
    """Keep what this judge found about runs of a lake as it was when they were judged."""
    entries = {run: lake.entry("runs", run) for run in judged}
    contents = {run: entry.contents for run, entry in entries.items() if entry is not None and entry.contents}
    rows = verdict_rows({run: judged[run] for run in contents}, contents, _own_code(lake, list(contents)))
    lake.commit(files_of(write_file(lake.where, VERDICTS_NAME, lake.new_batch(), rows)))


def without_verdict(lake: Lake, runs: Sequence[str]) -> list[str]:
    """The runs that this judge has not judged with the code of users that is here, or whose verdicts are damaged."""
    entries = ((run, lake.entry(VERDICTS_NAME, run)) for run in runs)
    made_by = {run: e.made_by for run, e in entries if e is not None and not lake.damage_of_verdicts(run)}
    now = _own_code(lake, [run for run, code in made_by.items() if " " in code])
    return [run for run in runs if run not in made_by or _is_outdated(made_by[run], now.get(run, ""))]


def _is_outdated(made_by: str, now: str) -> bool:
    judge, _, before = made_by.partition(" ")
    return judge != judge_version() or has_more(now, before)


def _own_code(lake: Lake, runs: Sequence[str]) -> dict[str, str]:
    """By run, what of its user's code is on this machine now."""
    rows = lake.read(RUNS, arrow_schema("run string, manifest string"), runs) if runs else []
    return {row["run"]: own_code(manifest) for row in rows if (manifest := _manifest(row["manifest"])) is not None}


def _manifest(text: str | None) -> Manifest | None:
    try:
        return None if text is None else parse_manifest(jsonfields.parse_object(text))
    except FieldError:
        return None


def judgeable(lake: Lake, runs: Sequence[str]) -> set[str]:
    """The runs that their last judge could read."""
    rows = lake.read(VERDICTS_NAME, arrow_schema("run string, verdict string"), runs, is_distinct=True)
    return {row["run"] for row in rows if row["verdict"] != UNREADABLE}


def cannot_be_judged(number: object, where: str) -> str:
    """The line on such runs of a lake."""
    runs = "1 run" if number == 1 else f"{number} runs"
    return f"{runs} cannot be judged: `upheaval verify --lake {where}` says why"


def judged_by_this_version(lake: Lake, runs: Sequence[str]) -> dict[str, Judged]:
    """What this judge found about runs, as far as it has judged them."""
    return last_judged(lake, sorted({*runs} - {*without_verdict(lake, runs)}))


def last_judged(lake: Lake, runs: Sequence[str]) -> dict[str, Judged]:
    """What the last judge of each run found, as far as the runs were judged as the lake has them."""
    of_run: dict[str, list[dict[str, Any]]] = {}
    for row in lake.read(VERDICTS_NAME, arrow_schema(VERDICTS), runs):
        of_run.setdefault(row["run"], []).append(row)
    return {run: _judged(rows) for run, rows in of_run.items()}


def _rows(run: str, judged: Judged) -> Iterator[tuple[object, ...]]:
    if not isinstance(judged, Report):
        yield run, UNREADABLE, None, 0, None, UNREADABLE, str(judged), 0, *[None] * 11
        return
    start = run, judged.verdict.text, judged.run
    for number, finding in enumerate(judged.findings):
        errors = json.dumps([error.to_fields() for error in finding.errors]) if finding.errors else None
        known = finding.known_issue, None, errors, finding.known_cause or None, *(finding.when_ns or (None, None))
        causes = _as_json(finding.explanation), _as_json(finding.signature), *known
        what = str.__str__(finding.promise), finding.verdict.text, finding.detail, finding.late_ms
        yield *start, number, *what, list(finding.members), finding.position, finding.operation, *causes
    for number, unchecked in enumerate(judged.unchecked, start=len(judged.findings)):
        why = unchecked.why, 0, *[None] * 6, unchecked.is_gap, *[None] * 4
        yield *start, number, str.__str__(unchecked.promise), None, *why


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
        row["known_cause"] or "",
        when_ns=None if row["when_end_ns"] is None else (row["when_begin_ns"], row["when_end_ns"]),
        errors=tuple(SevereError(**fields) for fields in json.loads(row["errors"] or "[]")),
    )
