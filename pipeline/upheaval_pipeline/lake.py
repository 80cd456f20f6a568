"""What a lake holds: Delta tables, and which of their rows count.

A row names its run and its *batch*: the ingest, or the judgement, that wrote it. What an ingest writes is committed
table by table, and the table `runs` last, so that all rows of a run count from that commit on, or none:

    a row of ...                      counts if ...
    history, faults, trace, recording  `runs` has its batch, and no later one of its run
    runs                               no later batch of its run is there, and it has `contents`
    verdicts                           `runs` has the `contents` that were judged, and no later row is there
    seeds                              no later batch of its campaign is there

Batches are named in their order. A row of `runs` without `contents` says that the run was dropped. What does not count
stays until `upkeep` removes it. This module knows nothing of what the other columns mean.
"""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from upheaval.errors import EnvironmentFault, UsageError
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.delta import append, snapshot
from upheaval_pipeline.lake_file import LOG, File, is_own
from upheaval_pipeline.lake_files import BATCH, footer_is_whole
from upheaval_pipeline.place import Place
from upheaval_pipeline.tables import REJECT, SEEDS_NAME, STORED, VERDICTS_NAME

RUNS: Final = "runs"
OF_OLDER_LAKES: Final = "commits"
"""The folder by which a lake is known that has no Delta tables yet."""
_OWN: Final = (VERDICTS_NAME, SEEDS_NAME)
"""The tables whose rows say themselves whether they count."""
_KNOWN: Final = f"run string, {BATCH} string, contents string, made_by string"
_KNOWN_OF_RUNS: Final = f"{_KNOWN}, unreadable string, counts map<string, bigint>"
_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """What a batch says of a run."""

    run: str
    batch: str
    contents: str | None
    """A digest of what its rows were made of; None when the run was dropped."""
    made_by: str = ""
    """A digest of the code that made the rows."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """By table, those that could be read; and the `rejects`."""
    unreadable: str = ""
    """Why the run cannot be read."""
    damage: str = ""
    """The damage in the lake that hides the run."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file with rows that count; all of them if it `is_whole`."""

    path: str
    """In the lake."""
    is_whole: bool


class Lake:
    """A lake as it is when this is made."""

    def __init__(self, where: str) -> None:
        """Raises `UsageError` for what an older version wrote, and for a table whose log is damaged."""
        self.place = Place(where)
        self.where = self.place.text
        if _has_folder(self.place, OF_OLDER_LAKES):
            raise UsageError(
                f"{where} has the format of an older version: change it with `upheaval lake migrate --lake {where}`"
            )
        # First `runs`: the files of what it names are in the other tables by then.
        self.tables = {table: snapshot(self.place, table) for table in sorted(STORED, key=lambda name: name != RUNS)}
        self._sizes = {} if self.is_empty else self.place.sizes()
        if self.is_empty and _has_folder(self.place, "runs", "run="):
            raise UsageError(f"{where} was made by an older version: ingest its run folders into a new lake")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was committed to it."""
        return not any(self.tables.values())

    @cached_property
    def known(self) -> dict[str, list[Entry]]:
        """Of `runs`, `verdicts` and `seeds` what every batch says of every run, whether it counts or not."""
        return {table: self._entries(table) for table in (RUNS, *_OWN)}

    @cached_property
    def _last(self) -> dict[str, dict[str, Entry]]:
        of_runs = _last_of(self.known[RUNS])
        contents = {run: entry.contents for run, entry in of_runs.items()}
        of_verdicts = [
            e for e in self.known[VERDICTS_NAME] if e.contents is not None and contents.get(e.run) == e.contents
        ]
        return {RUNS: of_runs, VERDICTS_NAME: _last_of(of_verdicts), SEEDS_NAME: _last_of(self.known[SEEDS_NAME])}

    def _entries(self, table: str) -> list[Entry]:
        """Raises `UsageError` for changed bytes of a page."""
        entries = []
        whole = [file for file in self.tables[table] if file not in self.flaws]
        columns = arrow_schema(_KNOWN_OF_RUNS if table == RUNS else f"{_KNOWN}, {REJECT} string")
        try:
            rows = self.dataset([file.path for file in whole], columns).to_table()
        except OSError as error:
            raise UsageError(f"{self.where}/{table} cannot be read: {error}") from None
        if table == RUNS:
            for row in rows.to_pylist():
                counts = dict(row["counts"] or ())
                entries.append(
                    Entry(row["run"], row[BATCH], row["contents"], row["made_by"], counts, row["unreadable"] or "")
                )
        else:
            is_bad = pc.cast(pc.is_valid(rows[REJECT]), pa.int64())
            keys = ["run", BATCH, "contents", "made_by"]
            counted = rows.set_column(rows.schema.get_field_index(REJECT), REJECT, is_bad).group_by(keys)
            for row in counted.aggregate([([], "count_all"), (REJECT, "sum")]).to_pylist():
                bad = row[f"{REJECT}_sum"]
                counts = {table: row["count_all"] - bad, "rejects": bad}
                entries.append(Entry(row["run"], row[BATCH], row["contents"], row["made_by"], counts))
        # `damage_of_verdicts` finds the lost ones of `verdicts`: a later judgement replaces them.
        if table != VERDICTS_NAME:
            lost = [file for file in self.tables[table] if file in self.flaws]
            entries += [Entry(run, f.batches[1], None, damage=self.flaws[f]) for f in lost for run in {*f.runs}]
        return entries

    @cached_property
    def flaws(self) -> dict[File, str]:
        """What is wrong with the files that are not as they were written."""
        flaws = {}
        for file in (file for files in self.tables.values() for file in files):
            size = self._sizes.get(file.path)
            flaw = ""
            if size != file.size:
                flaw = "is gone" if size is None else f"has {size} bytes and not {file.size}"
            elif not footer_is_whole(self.place.files, self.place.path(file.path), file.size):
                flaw = "has another footer than was written"
            if flaw:
                flaws[file] = f"{self.place.shown(file.path)} {flaw}"
        return flaws

    def runs(self, table: str) -> list[str]:
        """The runs of which `runs` or `seeds` has rows that count, or would if their file was not damaged; in order."""
        return sorted(run for run, e in self._last[table].items() if e.contents is not None or e.damage)

    def entry(self, table: str, run: str) -> Entry | None:
        """What `runs`, `verdicts` or `seeds` says of a run."""
        entry = self._last[table].get(run)
        return entry if entry is not None and entry.contents is not None else None

    def damage(self, table: str, run: str) -> str:
        """Which file of a run of `runs(table)` is not as it was written; nothing when all are."""
        entry = self._last[table].get(run)
        if entry is None:
            return ""
        named = (
            why
            for file, why in self.flaws.items()
            if file.table not in (RUNS, *_OWN) and table == RUNS and file.may_have(run, entry.batch)
        )
        why = entry.damage or next(named, "")
        return f"{why}: ingest run {run!r} again" if why else ""

    def damage_of_verdicts(self, run: str) -> str:
        """Which file may have the last verdict on a run and is not as it was written; nothing when all are."""
        why = next((why for file, why in self.flaws.items() if self._may_judge(file, run)), "")
        return f"{why}: `upheaval verify --lake {self.where} --new` judges run {run!r} again" if why else ""

    def first_damage(self) -> str:
        """Which file with rows that count is not as it was written; nothing when all are."""
        damage = (self.damage(table, run) for table in (RUNS, SEEDS_NAME) for run in self.runs(table))
        return next(filter(None, chain(damage, map(self.damage_of_verdicts, self.runs(RUNS)))), "")

    def judged_in(self, file: File) -> list[str]:
        """The runs of which a file of `verdicts`, damaged or not, may have the last verdict."""
        return [run for run in self.runs(RUNS) if self._may_judge(file, run)]

    def _may_judge(self, file: File, run: str) -> bool:
        """Every ingest judges, so nothing earlier than the run's own batch matters."""
        if file.table != VERDICTS_NAME or not file.runs[0] <= run <= file.runs[1]:
            return False
        there = (self._last[table].get(run) for table in (RUNS, VERDICTS_NAME))
        return all(entry is None or entry.batch <= file.batches[1] for entry in there)

    def counting(self, table: str, runs: Iterable[str]) -> dict[str, str]:
        """The batches of some runs whose rows in a table count, by run."""
        entries = ((run, self.entry(head_of(table), run)) for run in runs)
        return {run: entry.batch for run, entry in entries if entry is not None}

    def parts(self, table: str, runs: Iterable[str]) -> list[Part]:
        """The files with rows of some runs, which must not be damaged."""
        wanted = self.counting(table, runs)
        runs_of = self._runs_of_batches[head_of(table)]
        batches = sorted(runs_of)
        parts = []
        for file in self.tables[table]:
            least, greatest = file.batches
            within = batches[bisect_left(batches, least) : bisect_right(batches, greatest)]
            there = [(run, batch) for batch in within for run in runs_of[batch] if file.may_have(run, batch)]
            number = sum(wanted.get(run) == batch for run, batch in there)
            if number:
                parts.append(Part(file.path, number == len(there)))
        return parts

    @cached_property
    def _runs_of_batches(self) -> dict[str, dict[str, list[str]]]:
        by_batch: dict[str, dict[str, list[str]]] = {table: {} for table in self.known}
        for table, entries in self.known.items():
            for entry in entries:
                by_batch[table].setdefault(entry.batch, []).append(entry.run)
        return by_batch

    def dataset(self, paths: Sequence[str], schema: pa.Schema) -> ds.Dataset:
        """The rows of some of its files, for Arrow. Reading a page whose bytes have changed raises `OSError`."""
        options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        files = [self.place.path(path) for path in paths]
        form = ds.ParquetFileFormat(default_fragment_scan_options=options)
        return ds.dataset(files, schema=schema, format=form, filesystem=self.place.files)

    def read(
        self, table: str, schema: pa.Schema, runs: Collection[str], is_distinct: bool = False
    ) -> list[dict[str, Any]]:
        """The rows of some runs in this process, equal ones once if `is_distinct`.

        Raises `UsageError` for changed bytes of a page.
        """
        return self._rows(table, [part.path for part in self.parts(table, runs)], schema, runs, is_distinct)

    def readable(
        self, table: str, schema: pa.Schema, runs: Collection[str], is_distinct: bool = False
    ) -> list[dict[str, Any]]:
        """Those of `read` whose files are whole."""
        flawed = {file.path for file in self.flaws}
        rows = []
        for path in (part.path for part in self.parts(table, runs) if part.path not in flawed):
            with suppress(UsageError):
                rows += self._rows(table, [path], schema, runs, is_distinct)
        return rows

    def _rows(
        self, table: str, paths: Sequence[str], schema: pa.Schema, runs: Collection[str], is_distinct: bool
    ) -> list[dict[str, Any]]:
        wanted = self.counting(table, runs)
        try:
            some = self.dataset(paths, schema.append(pa.field(BATCH, pa.string())))
            rows = some.to_table(filter=pc.field("run").isin(pa.array(wanted, pa.string())))
        except OSError as error:
            raise UsageError(f"{self.where}/{table} cannot be read: {error}") from None
        if is_distinct:
            rows = rows.group_by(rows.column_names).aggregate([])
        return [row for row in rows.to_pylist() if wanted.get(row["run"]) == row.pop(BATCH)]

    def require_room(self) -> None:
        """Raises `UsageError` where others use the folder of a table that is not there yet."""
        for table in STORED:
            names = [info.base_name for info in _within(self.place, table)]
            others = [name for name in names if not is_own(name)]
            if others and LOG not in names:
                why = f"has files that belong to no lake, such as {min(others)}: name another folder for the lake"
                raise UsageError(f"{self.place.shown(table)} {why}")

    def new_batch(self) -> str:
        """A name that comes after those of all batches that are there."""
        return batch_after(max((file.batches[1] for files in self.tables.values() for file in files), default="0"))

    def commit(self, files: Iterable[File]) -> None:
        """Let files of a batch count: all of them from the moment on at which this has committed those of `runs`."""
        commit_files(self.place, files)


def batch_after(last: str) -> str:
    """A new name of a batch, later than another: microseconds since 1970, and a random part."""
    return f"{max(time.time_ns() // 1000, int(last.partition('-')[0]) + 1):016}-{uuid4().hex[:8]}"


def time_of(batch: str) -> datetime:
    """When a batch was begun."""
    return datetime.fromtimestamp(int(batch.partition("-")[0]) / _US, UTC)


def commit_files(place: Place, files: Iterable[File]) -> None:
    """Commit files to their tables, those of `runs` last.

    Raises `EnvironmentFault` where one is gone, or was replaced before `runs` names its batch.
    """
    by_table: dict[str, list[File]] = {}
    for file in files:
        by_table.setdefault(file.table, []).append(file)
    for table in sorted(by_table, key=lambda name: (name == RUNS, name)):
        if table == RUNS:
            _require_committed(place, by_table)
        append(place, table, arrow_schema(STORED[table]), by_table[table])


def _require_committed(place: Place, by_table: Mapping[str, Sequence[File]]) -> None:
    """A drop of one of several runs rewrites the files that it finds committed, and cannot see the batch."""
    for table in by_table.keys() - {RUNS}:
        gone = {file.path for file in by_table[table]} - {file.path for file in snapshot(place, table)}
        if gone:
            why = f"{place.shown(min(gone))} was replaced meanwhile, as by a drop of its runs"
            raise EnvironmentFault(f"cannot commit to {place.text}: {why}; do it again")


def head_of(table: str) -> str:
    """The table that says which rows of a table count."""
    return table if table in _OWN else RUNS


def _last_of(entries: Iterable[Entry]) -> dict[str, Entry]:
    last: dict[str, Entry] = {}
    for entry in entries:
        if entry.run not in last or last[entry.run].batch < entry.batch:
            last[entry.run] = entry
    return last


def _has_folder(place: Place, name: str, inner: str = "") -> bool:
    """Whether there is a folder, with something in it whose name begins so."""
    return any(info.base_name.startswith(inner) for info in _within(place, name))


def _within(place: Place, name: str) -> list[fs.FileInfo]:
    """What is in a folder; nothing where there is none."""
    try:
        return list(place.files.get_file_info(fs.FileSelector(place.path(name), allow_not_found=True)))
    except OSError as error:
        raise UsageError(f"{place.text} is not a lake: {error}") from None


def open_lake(where: str) -> Lake:
    """Raises `UsageError` for a folder that is no lake."""
    require_place(where)
    lake = Lake(where)
    if lake.is_empty:
        raise UsageError(f"{where} is not a lake: nothing was committed to it (make one with `upheaval ingest`)")
    return lake


def require_place(where: str) -> None:
    """Raises `UsageError` where no lake can be: at a file."""
    if not Place(where).is_remote and Path(Place(where).text).is_file():
        raise UsageError(f"{where} is a file: a lake is a folder")
