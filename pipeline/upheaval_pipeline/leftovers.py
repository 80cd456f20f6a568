"""Files of a lake that no commit names: an ingest that was killed left them, or one that goes on has just written them.

Neither its name nor its rows show which. A file with rows of erased runs alone is deleted in both cases: the commit
that would name it finds it gone, and fails. A file with rows of other runs too is deleted once it is older than
`WRITING_S`; until then it is counted.
"""

import time
from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from upheaval.errors import EnvironmentFault
from upheaval_pipeline.delta import snapshot
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_file import is_own
from upheaval_pipeline.place import Place
from upheaval_pipeline.tables import STORED

WRITING_S: Final = 3600.0
"""No writer takes so long from a file to its commit, unless it fails."""


def erase_leftovers(place: Place, runs: Collection[str]) -> int:
    """Delete files without a commit that have rows of runs; return how many had to stay. Raises `EnvironmentFault`."""
    now = time.time()
    left = 0
    for table in STORED:
        for info in _uncommitted(place, table):
            rows_of = _runs_in(place, info.path)
            if rows_of is not None and rows_of.isdisjoint(runs):
                continue
            is_theirs = rows_of is not None and rows_of <= set(runs)
            if is_theirs or now - info.mtime.timestamp() > WRITING_S:
                _delete(place, info.path)
            else:
                left += 1
    return left


def has_leftovers(lake: Lake, run: str) -> bool:
    """Whether files have rows of a run of which `runs` and `seeds` know nothing, committed to their table or not."""
    committed = (file.path for files in lake.tables.values() for file in files if file.runs[0] <= run <= file.runs[1])
    paths = [*map(lake.place.path, committed)]
    paths += [info.path for table in STORED for info in _uncommitted(lake.place, table)]
    return any(run in (_runs_in(lake.place, path) or ()) for path in paths)


def _uncommitted(place: Place, table: str) -> Iterator[fs.FileInfo]:
    """The files are listed first: one that is committed meanwhile is in the snapshot."""
    there = place.files.get_file_info(fs.FileSelector(place.path(table), allow_not_found=True))
    named = {file.name for file in snapshot(place, table)}
    for info in there:
        if info.is_file and is_own(info.base_name) and info.base_name not in named:
            yield info


def _runs_in(place: Place, path: str) -> set[str] | None:
    """None of a file that is gone, or not written to its end."""
    try:
        return set(pq.read_table(path, columns=["run"], filesystem=place.files)["run"].unique().to_pylist())
    except (OSError, pa.ArrowInvalid):
        return None


def _delete(place: Place, path: str) -> None:
    try:
        place.files.delete_file(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise EnvironmentFault(f"cannot delete {path}: {error}") from error
