"""What a lake says of runs that are ingested again: labels, and when and by which version they were read first."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.contents import Contents
from upheaval_pipeline.lake import RUNS, Lake

_COLUMNS: Final = arrow_schema("run string, labels map<string, string>, ingested string, ingested_by string")


@dataclass(frozen=True, slots=True)
class KnownRun:
    """The row of a run that a lake has; `is_same` if it was made of the same contents."""

    labels: Mapping[str, str]
    ingested: str
    ingested_by: str
    is_same: bool


def known_runs(lake: Lake, contents: Mapping[str, Contents], say: Callable[[str], None]) -> dict[str, KnownRun]:
    """Those of some runs that a lake has and could read. `say` gets how many of their rows are damaged."""
    digests = {run: entry.contents for run in contents if (entry := lake.entry(RUNS, run)) is not None}
    rows = lake.readable(RUNS, _COLUMNS, digests)
    if len(rows) < len(digests):
        lost = f"{len(digests) - len(rows)} of {len(contents)} runs"
        say(f"labels and first ingest of {lost} cannot be read from the lake and are lost")
    return {
        row["run"]: KnownRun(
            dict(row["labels"] or ()),
            row["ingested"],
            row["ingested_by"],
            digests[row["run"]] == contents[row["run"]].digest,
        )
        for row in rows
        if row["ingested"] is not None
    }


def replaced(known: Mapping[str, KnownRun], labels: Mapping[str, Mapping[str, str]]) -> str:
    """The labels that the lake loses with runs that others replace, each with their number; nothing if it loses none.

    `labels` are those of the new runs.
    """
    lost = Counter(
        f"{name}={value}"
        for run, one in known.items()
        if not one.is_same
        for name, value in one.labels.items()
        if labels[run].get(name) != value
    )
    return ", ".join(f"{label} ({count})" for label, count in sorted(lost.items()))
