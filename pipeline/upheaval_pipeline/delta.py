"""The tables of a lake in Delta's format: their snapshots, and the commits that add and remove files.

Delta commits one table at a time, by creating the next file of its log, which one of several writers succeeds in. The
others look at what was committed meanwhile and try again. This module knows nothing of what rows mean.
"""

import json
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from upheaval.errors import EnvironmentFault, UsageError
from upheaval_pipeline.lake_file import File, is_own
from upheaval_pipeline.place import Place

TRIES: Final = 100
"""Each failed one means that another writer committed."""
_ARROW: Final = re.compile(r"\x1b\[\d*m|\u21b3")
_ENDS: Final = ("min.run", "max.run", "min.batch", "max.batch")
# Delta reads bounds of the first 32 columns only, unless a table names another number; -1 is all of them.
_CONFIGURATION: Final = {"delta.dataSkippingNumIndexedCols": "-1"}
_REASON_LENGTH: Final = 400


class Removed(Exception):
    """Another writer removed a file that was to be replaced."""


def snapshot(place: Place, table: str) -> list[File]:
    """The files of a table as it is now, in the order of their names; none of a table that was never written.

    Raises `UsageError` for a damaged table, and for one of another program.
    """
    opened = _opened(place, table)
    return [] if opened is None else _files(place, table, opened)


def append(place: Place, table: str, schema: pa.Schema, files: Sequence[File]) -> None:
    """Commit files to a table, which the first of them make. Raises `EnvironmentFault`, also where one is gone."""
    for _ in range(TRIES):
        _require_there(place, files)
        opened = _opened(place, table) or _made(place, table, schema)
        missing = [field for field in schema if field.name not in {known.name for known in opened.schema().fields}]
        try:
            if missing:
                opened.alter.add_columns(list(Schema.from_arrow(pa.schema(missing)).fields))
            opened.create_write_transaction([_add(file, True) for file in files], "append", opened.schema())
            return
        except CommitFailedError:
            continue
        except (DeltaError, OSError) as error:
            raise _fault(place, table, error) from error
    raise EnvironmentFault(f"cannot write to {place.shown(table)}: {TRIES} commits of other writers came first")


def replace(place: Place, table: str, old: Sequence[File], new: Sequence[File]) -> None:
    """Commit that files take the place of others. Raises `Removed` if one of these is gone, and `EnvironmentFault`."""
    changes = sum(file.rows for file in old) != sum(file.rows for file in new)
    for _ in range(TRIES):
        opened = _opened(place, table)
        names = set() if opened is None else {file.name for file in _files(place, table, opened)}
        if opened is None or not {file.name for file in old} <= names:
            raise Removed(place.shown(table))
        _require_there(place, new)
        removed = (RemoveAction(file.name, changes, _now_ms(), file.size) for file in old)
        actions = [*(_add(file, changes) for file in new), *removed]
        try:
            opened.create_write_transaction(actions, "append", opened.schema())
            return
        except CommitFailedError:
            continue
        except (DeltaError, OSError) as error:
            raise _fault(place, table, error) from error
    raise EnvironmentFault(f"cannot write to {place.shown(table)}: {TRIES} commits of other writers came first")


def erase(place: Place, table: str, *, orphans_after_hours: int | None = None) -> int:
    """Delete the files that were removed from a table, and those that no commit named for so many hours; how many.

    In the folder of a table, only what a lake has written is deleted: Delta would delete whatever is below it.
    """
    opened = _opened(place, table)
    if opened is None:
        return 0
    try:
        if orphans_after_hours is None:
            return len(opened.vacuum(0, dry_run=False, enforce_retention_duration=False))
        unused = opened.vacuum(orphans_after_hours, dry_run=True, enforce_retention_duration=False, full=True)
        own = [name for name in unused if is_own(name)]
        for name in own:
            with suppress(FileNotFoundError):
                place.files.delete_file(place.path(f"{table}/{name}"))
        return len(own)
    except (DeltaError, OSError) as error:
        raise _fault(place, table, error) from error


def _require_there(place: Place, files: Sequence[File]) -> None:
    """A drop of their runs may have deleted files that no commit named yet."""
    for info in place.files.get_file_info([place.path(file.path) for file in files]):
        if not info.is_file:
            gone = f"{info.path} is gone: its runs were dropped meanwhile"
            raise EnvironmentFault(f"cannot commit to {place.text}: {gone}; do it again")


def version(place: Place, table: str) -> int | None:
    """The number of the last commit to a table."""
    opened = _opened(place, table)
    return None if opened is None else opened.version()


def _opened(place: Place, table: str) -> DeltaTable | None:
    try:
        return DeltaTable(place.shown(table), storage_options=place.delta_options)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise UsageError(f"{place.shown(table)} is damaged or cannot be read: {_in_one_line(error)}") from None


def _made(place: Place, table: str, schema: pa.Schema) -> DeltaTable:
    try:
        shown, options = place.shown(table), place.delta_options
        return DeltaTable.create(shown, schema, mode="ignore", configuration=_CONFIGURATION, storage_options=options)
    except (DeltaError, OSError) as error:
        raise _fault(place, table, error) from error


def _files(place: Place, table: str, opened: DeltaTable) -> list[File]:
    """Raises `UsageError` for a table, or a file of one, that another program wrote."""
    rows = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
    for row in rows:
        if any(row.get(name) is None for name in ("num_records", *_ENDS)):
            raise UsageError(f"{place.shown(table)} is not a table of a lake: another program wrote {row['path']}")
    files = [
        File(
            table,
            row["path"],
            row["size_bytes"],
            row["num_records"],
            (row[_ENDS[0]], row[_ENDS[1]]),
            (row[_ENDS[2]], row[_ENDS[3]]),
        )
        for row in rows
    ]
    return sorted(files, key=lambda file: file.name)


def _add(file: File, changes: bool) -> AddAction:
    least, greatest = ({"run": file.runs[end], "batch": file.batches[end]} for end in (0, 1))
    stats = {"numRecords": file.rows, "minValues": least, "maxValues": greatest, "nullCount": {}}
    return AddAction(file.name, file.size, {}, _now_ms(), changes, json.dumps(stats))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _fault(place: Place, table: str, error: Exception) -> EnvironmentFault:
    return EnvironmentFault(f"cannot write to {place.shown(table)}: {_in_one_line(error)}")


def _in_one_line(error: Exception) -> str:
    """Delta names the cause of an error on separate lines, some of which begin with a coloured arrow."""
    return " ".join(_ARROW.sub("", str(error)).split())[:_REASON_LENGTH] or type(error).__name__
