"""`upheaval verify --lake`: the verdicts on runs of a lake.

It answers from the findings that the lake keeps, as long as the same judge made them; the others are judged anew from
their folders, as long as these are what was ingested, and the lake keeps what was found.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from upheaval.errors import UsageError
from upheaval_pipeline import tables
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.contents import contents_of_each
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.verdicts import judged_by_this_version, write_verdicts
from upheaval_pipeline.whole import Judged

Judge = Callable[[Sequence[Path]], list[Judged]]


def why_unreadable(lake: Lake, run: str) -> UsageError | None:
    """Why a run of a lake cannot be read, if it cannot. Raises `UsageError` when it is not there."""
    entry = lake.entry("runs", run)
    reason = lake.damage("runs", run) or (entry.unreadable if entry is not None else "")
    if entry is None and not reason:
        raise UsageError(f"{lake.where} has no run {run!r}")
    return UsageError(reason) if reason else None


def verify_lake(judge: Judge, lake: Lake, runs: Sequence[str]) -> list[Judged]:
    """The reports of runs of a lake, in their order; new ones are written to it.

    `judge` is called only for runs of which the lake keeps no verdict. Raises `UsageError` when a run is not there.
    """
    reports: dict[str, Judged] = {run: why for run in runs if (why := why_unreadable(lake, run)) is not None}
    reports |= judged_by_this_version(lake, [run for run in runs if run not in reports])
    left = [run for run in runs if run not in reports]
    folder_of = {row["run"]: Path(row["folder"]) for row in lake.read("runs", arrow_schema(tables.RUNS), left)}
    there = [run for run in left if (folder_of[run] / "manifest.json").exists()]
    digests = contents_of_each([folder_of[run] for run in there])
    same = [run for run, (digest, _) in zip(there, digests, strict=True) if digest == _digest(lake, run)]
    fresh = dict(zip(same, judge([folder_of[run] for run in same]), strict=True)) if same else {}
    for run in left:
        if run not in fresh:
            what = "has changed since it was ingested: ingest it again" if run in there else "is gone"
            reports[run] = UsageError(
                f"{lake.where} keeps no verdict of this version on run {run!r}, and its folder {folder_of[run]} {what}"
            )
    if fresh:
        write_verdicts(lake, fresh)
    reports |= fresh
    return [reports[run] for run in runs]


def _digest(lake: Lake, run: str) -> str:
    entry = lake.entry("runs", run)
    return (entry and entry.contents) or ""
