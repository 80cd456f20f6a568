"""`upheaval ingest CAMPAIGN`: what came of the seeds of campaigns becomes rows of the table `seeds` of a lake.

A campaign is known by its first line, so one that has grown replaces what was there of it, and keeps the time of its
first ingest. All of it is read in this process. This module knows nothing of runs.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from upheaval.campaign.seed_lines import SEED_FILE, SEEDS_FILE
from upheaval.errors import UsageError
from upheaval.records import RunFolder, jsonfields
from upheaval.records.utf8 import storable
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.contents import rows_in_lake
from upheaval_pipeline.lake import Lake, time_of
from upheaval_pipeline.lake_files import files_of, write_file
from upheaval_pipeline.tables import REJECT, SEED_LINE, SEEDS, SEEDS_NAME, STORED, Row, batches, read_lines
from upheaval_pipeline.tapes import choices_of

NAME: Final = SEEDS_NAME
_COLUMNS: Final = arrow_schema(STORED[NAME].rpartition(", ")[0])
_OF_LINE: Final = arrow_schema(SEED_LINE)
_INGESTED: Final = arrow_schema("run string, ingested string")
_SECONDS: Final = ("simulated_seconds", "seconds")
_REASON_LENGTH: Final = 80
_SMALLEST: Final = "-smallest"


def seeds_file(path: Path) -> Path | None:
    """The lines of a campaign that a path names; None when it names something else."""
    if path.is_file():
        return path
    file = path / SEEDS_FILE
    return file if file.is_file() else None


def ingest_campaigns(
    files: Sequence[Path], where: str, say: Callable[[str], None] = lambda _: None
) -> dict[str, dict[str, int]]:
    """Write the seeds of campaigns; return how many each has, and how many lines of it could not be read.

    Raises `UsageError` for a file without a line that is a seed, and for two of the same campaign.
    """
    file_of = _by_campaign(files)
    schedules = {run: _schedules(file) for run, file in file_of.items()}
    contents = {run: _contents(file, schedules[run]) for run, file in file_of.items()}
    lake = Lake(where)
    lake.require_room()
    new = [run for run in file_of if not _has(lake, run, contents[run])]
    if len(new) < len(file_of):
        say(f"{len(file_of) - len(new)} of {len(file_of)} campaigns are in the lake already")
    if new:
        times = _first_ingests(lake, new)
        rows = (row for run in new for row in _rows(run, file_of[run], schedules[run], contents[run], times[run]))
        lake.commit(files_of(write_file(lake.where, NAME, lake.new_batch(), batches(rows, _COLUMNS))))
    return rows_in_lake(Lake(where), NAME, file_of)


def has_all_campaigns(files: Sequence[Path], lake: Lake) -> bool:
    """Whether an ingest of these campaigns would write nothing. Raises as `ingest_campaigns` does."""
    return all(_has(lake, run, _contents(file, _schedules(file))) for run, file in _by_campaign(files).items())


def campaigns_in_lake(files: Sequence[Path], lake: Lake) -> dict[str, dict[str, int]]:
    """How many seeds a lake has of each, and how many lines that could not be read."""
    return rows_in_lake(lake, NAME, _by_campaign(files))


def _by_campaign(files: Sequence[Path]) -> dict[str, Path]:
    file_of: dict[str, Path] = {}
    for file in files:
        other = file_of.setdefault(_id(file), file)
        if other is not file:
            raise UsageError(f"{other} and {file} are the same campaign: give one of them")
    return file_of


def _id(file: Path) -> str:
    _, first = next(read_lines(file), (0, b""))
    if not first.endswith(b"\n"):
        raise UsageError(f"{file} is not a campaign: it has no line")
    reject = _COLUMNS.get_field_index(REJECT)
    if all(row[reject] is not None for row in _rows("", file, (), "", "")):
        raise UsageError(f"{file} is not a campaign: none of its lines is a seed")
    return hashlib.sha256(first).hexdigest()[:16]


def _has(lake: Lake, run: str, contents: str) -> bool:
    entry = lake.entry(NAME, run)
    return entry is not None and entry.contents == contents and not lake.damage(NAME, run)


def _first_ingests(lake: Lake, runs: Collection[str]) -> dict[str, str]:
    """When campaigns were first ingested: those that a lake does not have at this time."""
    entries = {run: lake.entry(NAME, run) for run in runs}
    moments = {run: time_of(entry.batch) if entry else datetime.now(UTC) for run, entry in entries.items()}
    rows = lake.readable(NAME, _INGESTED, runs, is_distinct=True)
    first = {row["run"]: row["ingested"] for row in rows if row["ingested"]}
    return {run: moment.isoformat(timespec="seconds") for run, moment in moments.items()} | first


def _schedules(file: Path) -> list[tuple[int, str | None, str | None]]:
    """Of each seed whose run is beside the lines: its schedule, and the smallest one that fails alike."""
    schedules: dict[int, dict[str, str]] = {}
    for folder in sorted(file.parent.glob("seed-*")):
        seed = folder.name.removeprefix("seed-").removesuffix(_SMALLEST)
        texts = [path for path in (RunFolder(folder).scenario_file, folder / SEED_FILE) if path.is_file()]
        if seed.isdecimal() and texts:
            kind = "smallest" if folder.name.endswith(_SMALLEST) else "schedule"
            schedules.setdefault(int(seed), {})[kind] = jsonfields.read_text(texts[0])
    return [(seed, texts.get("schedule"), texts.get("smallest")) for seed, texts in sorted(schedules.items())]


def _contents(file: Path, schedules: Sequence[tuple[int, str | None, str | None]]) -> str:
    text = json.dumps([SEEDS, schedules]).encode()
    return hashlib.sha256(file.read_bytes() + text).hexdigest()


def _rows(
    run: str, file: Path, schedules: Sequence[tuple[int, str | None, str | None]], contents: str, ingested: str
) -> Iterator[Row]:
    """The rows of a campaign. A line that is no seed says so in `_reject`."""
    texts = {seed: (schedule, smallest) for seed, schedule, smallest in schedules}
    nothing = [None] * len(_OF_LINE)
    for _, line in read_lines(file):
        if not line.strip():
            continue
        made = contents, ""
        try:
            fields = json.loads(line)
            values = {field.name: _value(fields.get(field.name), field.type) for field in _OF_LINE}
            durations = (_value(fields.get(name), pa.float64()) for name in _SECONDS)
            seconds = next((float(value) for value in durations if value is not None), None)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            excerpt = line.decode("utf-8", "replace").rstrip("\r\n")[:_REASON_LENGTH]
            yield run, *nothing, None, None, None, None, ingested, f"{file}: no seed: {excerpt}", *made
            continue
        bad = values["seed"] is None or values["verdict"] is None
        reason = f"{file}: no seed: no `seed` or `verdict`" if bad else None
        schedule = texts.get(values["seed"], (None, None))
        yield run, *values.values(), seconds, *schedule, choices_of(values["tape"]), ingested, reason, *made


def _value(value: Any, kind: pa.DataType) -> Any:
    """A JSON value of a column, as JSON text in one of texts. Raises `ValueError` for a value of another kind."""
    if kind == pa.string() and value is not None:
        return storable(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
    if not _is_of(value, kind):
        raise ValueError(value)
    return list(value.items()) if isinstance(value, dict) else value


def _is_of(value: Any, kind: pa.DataType) -> bool:
    if value is None or kind == pa.string():
        return value is None or isinstance(value, str)
    if pa.types.is_list(kind):
        return isinstance(value, list) and all(_is_of(one, kind.value_type) for one in value)
    if pa.types.is_map(kind):
        return isinstance(value, dict) and all(_is_of(one, kind.item_type) for one in value.values())
    if pa.types.is_struct(kind):
        return isinstance(value, dict) and all(_is_of(value.get(field.name), field.type) for field in kind)
    if pa.types.is_boolean(kind) or isinstance(value, bool):
        return pa.types.is_boolean(kind) and isinstance(value, bool)
    if pa.types.is_integer(kind):
        return isinstance(value, int) and -(1 << kind.bit_width - 1) <= value < 1 << kind.bit_width - 1
    return isinstance(value, int | float)
