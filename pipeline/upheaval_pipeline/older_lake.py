"""`upheaval lake migrate`: a lake whose commits are files of our own becomes one of Delta tables.

Such a lake has `commits/NUMBER-BATCH.json`, which name the files in `TABLE/batch=BATCH`, and the runs with rows in
each. Of a run its last commit counts. The new tables are written beside the old files. A migration that was ended
before all of it was there begins again; one that was ended after that, which `commits/written` says, goes on to remove
the old files.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from upheaval.errors import UsageError
from upheaval.records import FieldError, jsonfields
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.lake import OF_OLDER_LAKES, RUNS, Lake, batch_after, commit_files
from upheaval_pipeline.lake_file import LOG, is_own
from upheaval_pipeline.lake_files import BATCH, files_of, with_batch, write_rows
from upheaval_pipeline.place import Place
from upheaval_pipeline.tables import LAKE_SCHEMAS, SEEDS, SEEDS_NAME, STORED, VERDICTS, VERDICTS_NAME, batches

FORMAT: Final = 1
_IS_WRITTEN: Final = f"{OF_OLDER_LAKES}/written"
_DATA: Final = {**LAKE_SCHEMAS, VERDICTS_NAME: VERDICTS, SEEDS_NAME: SEEDS}


@dataclass(frozen=True, slots=True)
class OldFile:
    """Of a table, with how many rows of each run."""

    table: str
    name: str
    size: int
    rows: Mapping[str, int]
    footer: int | None = None


@dataclass(frozen=True, slots=True)
class OldEntry:
    """What a commit says of a run; `contents` are the digest of its files and that of the code."""

    run: str
    contents: str
    rows: Mapping[str, int]
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class OldCommit:
    """From it on these rows of these tables count of its runs."""

    batch: str
    tables: tuple[str, ...]
    runs: tuple[OldEntry, ...]
    files: tuple[OldFile, ...]


_Last = dict[str, tuple[OldCommit, OldEntry]]


def migrate(where: str) -> int:
    """Return how many runs and campaigns there are. Raises `UsageError` for what is no such lake, or damaged."""
    place = Place(where)
    sizes = place.sizes()
    if _IS_WRITTEN not in sizes:
        _write_tables(place, sizes)
        with place.files.open_output_stream(place.path(_IS_WRITTEN)) as stream:
            stream.write(b"its tables are those of Delta\n")
    old = [path for path, size in sizes.items() if _inside(path).startswith("batch=") or (path, size) == ("lock", 0)]
    commits = [path for path in sizes if path.startswith(f"{OF_OLDER_LAKES}/") and path != _IS_WRITTEN]
    _remove(place, [*old, *commits, _IS_WRITTEN])
    if not place.is_remote:
        place.files.delete_dir(place.path(OF_OLDER_LAKES))
    lake = Lake(where)
    return len(lake.runs(RUNS)) + len(lake.runs(SEEDS_NAME))


def _write_tables(place: Place, sizes: Mapping[str, int]) -> None:
    """The new tables, in place of what an earlier migration wrote of them."""
    names = sorted(path for path in sizes if path.startswith(f"{OF_OLDER_LAKES}/") and path.endswith(".json"))
    if not names:
        raise UsageError(f"{place.text} is not a lake of an older version: it has no {OF_OLDER_LAKES}")
    last: dict[str, _Last] = {table: {} for table in _DATA}
    for name in names:
        commit = _read(place, name)
        for table in commit.tables:
            last[table] |= {entry.run: (commit, entry) for entry in commit.runs}
    _remove(place, (path for path in sizes if _inside(path).startswith(f"{LOG}/") or is_own(_inside(path))))
    batch = batch_after("0")
    written = []
    for table, of_runs in last.items():
        rows = _rows(place, sizes, table, of_runs)
        written += write_rows(place.text, table, (with_batch(some, batch) for some in rows))
    commit_files(place, files_of(written))


def _read(place: Place, name: str) -> OldCommit:
    with place.files.open_input_stream(place.path(name)) as stream:
        text = stream.read()
    try:
        fields = jsonfields.parse_object(text.decode("utf-8"))
        if jsonfields.integer(fields, "format") != FORMAT:
            raise FieldError(f"expected format {FORMAT}, got {fields['format']}")
        return jsonfields.decode(OldCommit, fields)
    except (FieldError, UnicodeDecodeError) as error:
        raise UsageError(f"{place.text}: {name} is damaged: {error}") from None


def _rows(place: Place, sizes: Mapping[str, int], table: str, of_runs: _Last) -> Iterator[pa.RecordBatch]:
    """The rows that count of a table, with all columns of the new one but `batch`."""
    columns = arrow_schema(STORED[table].removesuffix(f", {BATCH} string"))
    for commit in {commit.batch: commit for commit, _ in of_runs.values()}.values():
        counting = {run: entry for run, (last, entry) in of_runs.items() if last.batch == commit.batch}
        for file in commit.files:
            if file.table == table and counting.keys() & file.rows.keys():
                path = f"{table}/batch={commit.batch}/{file.name}"
                if sizes.get(path) != file.size:
                    raise UsageError(f"{place.shown(path)} is gone or truncated: ingest its runs into a new lake")
                for some in _counting(place, path, table, counting):
                    yield _with_made(some, columns, counting)
    if table == "runs":
        unreadable = [entry for _, entry in of_runs.values() if entry.unreadable]
        empty = (None,) * (len(arrow_schema(LAKE_SCHEMAS["runs"])) - 1)
        rows = [(e.run, *empty, *_made(e), e.unreadable, list(e.rows.items())) for e in unreadable]
        yield from batches(rows, columns)


def _counting(place: Place, path: str, table: str, runs: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows of runs in a file. Changed bytes of a page raise `OSError`."""
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    form = ds.ParquetFileFormat(default_fragment_scan_options=options)
    rows = ds.dataset([place.path(path)], schema=arrow_schema(_DATA[table]), format=form, filesystem=place.files)
    yield from rows.to_batches(filter=pc.field("run").isin(pa.array(runs, pa.string())))


def _with_made(rows: pa.RecordBatch, columns: pa.Schema, entries: Mapping[str, OldEntry]) -> pa.RecordBatch:
    names = rows.schema.names
    if "contents" not in columns.names:
        return rows
    of_rows = [entries[run] for run in rows["run"].to_pylist()]
    contents, made_by = ([_made(entry)[part] for entry in of_rows] for part in (0, 1))
    more = {"contents": contents, "made_by": made_by, "unreadable": [None] * len(of_rows)}
    more["counts"] = [list(entry.rows.items()) for entry in of_rows]
    arrays = [rows[field.name] if field.name in names else pa.array(more[field.name], field.type) for field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _made(entry: OldEntry) -> tuple[str, str]:
    contents, _, made_by = entry.contents.partition(" ")
    return contents, made_by


def _inside(path: str) -> str:
    """A path within the folder of its table; empty outside of tables."""
    table, _, inner = path.partition("/")
    return inner if table in STORED else ""


def _remove(place: Place, paths: Iterable[str]) -> None:
    for path in paths:
        place.files.delete_file(place.path(path))
