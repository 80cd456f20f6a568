"""`upheaval lake info | optimize | drop`: what a lake takes, fewer files for the same rows, and the end of runs.

A file is rewritten without the rows that do not count. Files of batches that `runs` does not name yet belong to an
ingest that goes on, and are left alone until they are `ABANDONED_HOURS` old.

A drop is first written down in `runs`, so that no reader sees a run of which half is gone. Then the rows are rewritten
away, and the files that had them are deleted, with those that an earlier `optimize` left for readers of that time, and
those that an ingest left that was killed (`leftovers`).
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from upheaval.errors import UsageError
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.delta import Removed, erase, replace, version
from upheaval_pipeline.lake import RUNS, Lake, time_of
from upheaval_pipeline.lake_file import File
from upheaval_pipeline.lake_files import BATCH, FILE_BYTES, files_of, with_batch, write_rows
from upheaval_pipeline.leftovers import erase_leftovers, has_leftovers
from upheaval_pipeline.tables import SEEDS_NAME, STORED, VERDICTS_NAME, batches

ABANDONED_HOURS: Final = 24
DUE_FILES: Final = 64
"""With so many small files in a table a lake is worth compacting: every command opens each of them."""
TRIES: Final = 20
"""Each failed one means that another writer replaced a file meanwhile."""
_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TableInfo:
    """Of a table of a lake, with the rows that do not count."""

    table: str
    files: int
    bytes: int
    rows: int
    version: int


def info(lake: Lake) -> list[TableInfo]:
    """Size, rows and version of each table of the lake."""
    tables = []
    for table, files in lake.tables.items():
        number = version(lake.place, table)
        if number is not None:
            size, rows = sum(file.size for file in files), sum(file.rows for file in files)
            tables.append(TableInfo(table, len(files), size, rows, number))
    return tables


def small_files(lake: Lake) -> int:
    """How many files `optimize` would make fewer of; 0 where that is not worth it yet."""
    sizes = [[file.size for file in files if file.size < FILE_BYTES // 2] for files in lake.tables.values()]
    return sum(map(len, sizes)) if any(len(small) >= DUE_FILES for small in sizes) else 0


def due(lake: Lake) -> str:
    """The line that says that a lake is worth compacting; empty where it is not."""
    number = small_files(lake)
    return f"{number} files are small: `upheaval lake optimize --lake {lake.where}` is due" if number else ""


def optimize(lake: Lake, now: float | None = None) -> int:
    """Rewrite small files, and those with rows that do not count; return how many files there were before.

    Raises `UsageError` for a damaged file with rows that count.
    """
    if damage := lake.first_damage():
        raise UsageError(damage)
    before = sum(map(len, lake.tables.values()))
    is_clean = True
    for table in sorted(lake.tables, key=lambda name: name == RUNS):
        try:
            # As long as there are rows of a batch that does not count, `runs` must say so.
            if table != RUNS or is_clean:
                _compact(lake, table, now or time.time())
        except Removed:
            is_clean = False
    for table in lake.tables:
        erase(lake.place, table, orphans_after_hours=ABANDONED_HOURS)
    return before


def _compact(lake: Lake, table: str, now: float) -> None:
    parts = {part.path: part.is_whole for part in lake.parts(table, _runs_in(lake, table))}
    # Verdicts of an ingest that goes on name their batch before `runs` does.
    known = {entry.batch for entry in lake.known[SEEDS_NAME if table == SEEDS_NAME else RUNS]}
    worth, useless = [], []
    for file in lake.tables[table]:
        if file.path in parts:
            if file.size < FILE_BYTES // 2 or not parts[file.path]:
                worth.append(file)
        elif known.issuperset(file.batches) or _age_hours(file.batches[1], now) > ABANDONED_HOURS:
            useless.append(file)
    _require_whole(lake, worth)
    if len(worth) == 1 and parts[worth[0].path]:
        worth = []
    if worth or useless:
        new = files_of(write_rows(lake.where, table, _counting(lake, worth)))
        replace(lake.place, table, [*worth, *useless], new)


def _runs_in(lake: Lake, table: str) -> list[str]:
    return lake.runs(SEEDS_NAME if table == SEEDS_NAME else RUNS)


def _counting(lake: Lake, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
    """The rows of files of a table that count."""
    if not files:
        return
    counting = lake.counting(files[0].table, _runs_in(lake, files[0].table))
    names, batches_of = pa.array(counting, pa.string()), pa.array(counting.values(), pa.string())
    for some in _batches(lake, files):
        latest = batches_of.take(pc.index_in(some["run"], names))
        yield some.filter(pc.fill_null(pc.equal(some[BATCH], latest), False))


def _without(lake: Lake, file: File, runs: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a file, whether they count or not, but for some runs."""
    dropped = pa.array(runs, pa.string())
    for some in _batches(lake, [file]):
        yield some.filter(pc.invert(pc.is_in(some["run"], dropped)))


def _batches(lake: Lake, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
    columns = arrow_schema(STORED[files[0].table])
    return iter(lake.dataset([file.path for file in files], columns).to_batches())


def drop(lake: Lake, runs: Collection[str]) -> int:
    """Erase runs and campaigns; return how many files may have rows of them that another writer has not committed.

    Raises `UsageError` when one is not there.
    """
    known = {entry.run for table in (RUNS, SEEDS_NAME) for entry in lake.known[table]}
    for run in runs:
        if run not in known and not has_leftovers(lake, run):
            raise UsageError(f"{lake.where} has no run {run!r}")
    ends = [run for run in runs if any(entry.run == run for entry in lake.known[RUNS])]
    if ends:
        columns = arrow_schema(STORED[RUNS].rpartition(", ")[0])
        rows = batches([(run, *[None] * (len(columns) - 1)) for run in ends], columns)
        batch = lake.new_batch()
        lake.commit(files_of(write_rows(lake.where, RUNS, (with_batch(some, batch) for some in rows))))
    for table in sorted(lake.tables, key=lambda name: name == RUNS):
        _erase(lake.where, table, runs)
        erase(lake.place, table)
    return erase_leftovers(lake.place, runs)


def _erase(where: str, table: str, runs: Collection[str]) -> None:
    for _ in range(TRIES):
        lake = Lake(where)
        old = [file for file in lake.tables[table] if _has_rows_of(lake, file, runs)]
        if not old:
            return
        _require_whole(lake, [file for file in old if file in lake.flaws and not _may_go(lake, file)])
        whole = [file for file in old if file not in lake.flaws]
        # Each by itself: rows of a batch that `runs` does not name would count in a file with rows that do.
        new = [made for file in whole for made in files_of(write_rows(where, table, _without(lake, file, runs)))]
        try:
            replace(lake.place, table, old, new)
        except Removed:
            continue
        return
    raise UsageError(f"{where}/{table} is rewritten by others all the time: try again")


def _has_rows_of(lake: Lake, file: File, runs: Collection[str]) -> bool:
    """Of a damaged file as far as its range says. An ingest that goes on needs its files that have none."""
    within = [run for run in runs if file.runs[0] <= run <= file.runs[1]]
    if not within or file in lake.flaws or not {*file.runs}.isdisjoint(within):
        return bool(within)
    rows = lake.dataset([file.path], arrow_schema("run string"))
    return bool(rows.count_rows(filter=pc.field("run").isin(pa.array(within, pa.string()))))


def _may_go(lake: Lake, file: File) -> bool:
    """Whether a damaged file of dropped runs has no rows of other runs that count, as far as its ranges say."""
    if file.table in (RUNS, SEEDS_NAME):
        return file.runs[0] == file.runs[1]
    if file.table == VERDICTS_NAME:
        return not lake.judged_in(file)
    return file.path not in {part.path for part in lake.parts(file.table, _runs_in(lake, file.table))}


def _require_whole(lake: Lake, files: Iterable[File]) -> None:
    flaw = next((lake.flaws[file] for file in files if file in lake.flaws), None)
    if flaw is not None:
        raise UsageError(f"{flaw}: ingest its runs again, or drop them")


def older_than(lake: Lake, days: float) -> list[str]:
    """The runs that were made so long ago, or first ingested where they do not say when; and campaigns so ingested."""
    limit = datetime.now(UTC) - timedelta(days=days)
    old = []
    for table, more in ((RUNS, ", created string"), (SEEDS_NAME, "")):
        runs = lake.runs(table)
        rows = lake.read(table, arrow_schema(f"run string, ingested string{more}"), runs, is_distinct=True)
        times = {row["run"]: _moment(row.get("created")) or _moment(row["ingested"]) for row in rows}
        entries = ((run, lake.entry(table, run)) for run in runs)
        old += [run for run, entry in entries if entry and (times.get(run) or time_of(entry.batch)) < limit]
    return old


def times_of(lake: Lake) -> list[str]:
    """When runs and campaigns were ingested, in order."""
    batches_there = {entry.batch for table in (RUNS, SEEDS_NAME) for entry in lake.known[table]}
    return [time_of(batch).isoformat(timespec="seconds") for batch in sorted(batches_there)]


def _age_hours(batch: str, now: float) -> float:
    return (now - int(batch.partition("-")[0]) / _US) / 3600


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
