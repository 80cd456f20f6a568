"""What a lake holds: files of rows, and the commits that say which of them count.

`LAKE/commits/NUMBER-BATCH.json` is written last, under its name at once, and names every file in
`LAKE/TABLE/batch=BATCH`, with its size and how many rows of which run it has. Readers take what commits name, and of a
run what its last commit names. Any other file there was left by a writer that was ended, and counts for nothing.

This module knows nothing of what tables mean, and of files nothing but their names and sizes.
"""

import fcntl
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import FieldError, jsonfields
from upheaval_pipeline.lake_files import File, footer_of

FORMAT: Final = 1
COMMITS: Final = "commits"
_COMMITTED: Final = ".json"
_UNFINISHED: Final = ".unfinished"
_ROWS: Final = ".parquet"
_LOCK: Final = "lock"
_REMOTE: Final = "://"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a commit says of a run."""

    run: str
    contents: str
    """A digest of what its rows were made of."""
    rows: Mapping[str, int]
    """By table, those that could be read; and the `rejects`."""
    unreadable: str = ""
    """Why nothing can be said of the run."""


@dataclass(frozen=True, slots=True)
class Commit:
    """From one moment on, these rows of these tables and no others count of these runs."""

    batch: str
    tables: tuple[str, ...]
    runs: tuple[Entry, ...]
    files: tuple[File, ...]

    def path(self, file: File) -> str:
        """The path of a file in the lake."""
        return f"{file.table}/batch={self.batch}/{file.name}"


@dataclass(frozen=True, slots=True)
class Part:
    """A file with rows that count."""

    path: str
    """In the lake."""
    batch: str
    runs: tuple[str, ...]
    """Whose rows count."""
    is_whole: bool
    """Whether all of its rows do."""


class Lake:
    """A lake as it is when this is made."""

    def __init__(self, where: str) -> None:
        """Raises `UsageError` for what an older version wrote, and for a commit that is damaged."""
        self.where = where if _REMOTE in where else str(Path(where).absolute())
        try:
            self._files, self._root = fs.FileSystem.from_uri(self.where)
            everything = fs.FileSelector(self._root, allow_not_found=True, recursive=True)
            infos = {info.path[len(self._root) + 1 :]: info for info in self._files.get_file_info(everything)}
        except (OSError, ValueError) as error:
            raise UsageError(f"{where} is not a lake: {error}") from None
        self._sizes = {path: info.size for path, info in infos.items() if info.is_file}
        names = sorted(path for path in self._sizes if path.startswith(f"{COMMITS}/") and path.endswith(_COMMITTED))
        if not names and any(path.startswith("runs/run=") for path in infos):
            raise UsageError(f"{where} was made by an older version: ingest its run folders into a new lake")
        self._footers: dict[str, int] = {}
        self._commits = {name: self._read_commit(name) for name in names}
        self._last: dict[tuple[str, str], tuple[Commit, Entry]] = {}
        for commit in self._commits.values():
            self._last |= {(table, entry.run): (commit, entry) for table in commit.tables for entry in commit.runs}

    def _read_commit(self, name: str) -> Commit:
        with self._files.open_input_stream(f"{self._root}/{name}") as stream:
            text = stream.read()
        try:
            fields = jsonfields.parse_object(text.decode("utf-8"))
            if jsonfields.integer(fields, "format") != FORMAT:
                raise FieldError(f"expected format {FORMAT}, got {fields['format']}")
            return jsonfields.decode(Commit, fields)
        except (FieldError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.where}: {name} is damaged: {error}") from None

    @property
    def is_empty(self) -> bool:
        """Whether it has no commit."""
        return not self._commits

    def runs(self, table: str) -> list[str]:
        """The runs of which a table was written, in order."""
        return sorted(run for name, run in self._last if name == table)

    def entry(self, table: str, run: str) -> Entry | None:
        """What the last commit of a table says of a run."""
        return self._last[table, run][1] if (table, run) in self._last else None

    def damage(self, table: str, run: str) -> str:
        """Which file of the last commit of a table is not as it was written; nothing when all are."""
        commit, _ = self._last[table, run]
        for file in commit.files:
            path = commit.path(file)
            size = self._sizes.get(path)
            if run not in file.rows:
                continue
            has = ""
            if size != file.size:
                has = "is gone" if size is None else f"has {size} bytes and not {file.size}"
            elif file.footer is not None and self._footer(path, file.size) != file.footer:
                has = "has another footer than was written"
            if has:
                return f"{self.where}/{path} {has}: ingest run {run!r} again"
        return ""

    def _footer(self, path: str, size: int) -> int:
        if path not in self._footers:
            self._footers[path] = footer_of(self._files, f"{self._root}/{path}", size)
        return self._footers[path]

    def parts(self, table: str, runs: Sequence[str]) -> list[Part]:
        """The files with rows of some of `runs(table)`, which must be whole."""
        batch_of = {run: self._last[table, run][0].batch for run in runs}
        commits = {commit.batch: commit for commit, _ in (self._last[table, run] for run in runs)}
        parts = []
        for commit in commits.values():
            for file in commit.files:
                counting = [run for run in file.rows if batch_of.get(run) == commit.batch]
                if file.table == table and counting:
                    is_whole = len(counting) == len(file.rows)
                    parts.append(Part(commit.path(file), commit.batch, tuple(counting), is_whole))
        return parts

    def dataset(self, paths: Sequence[str], schema: pa.Schema) -> ds.Dataset:
        """The rows of some of its files, for Arrow. Reading a page whose bytes have changed raises `OSError`."""
        options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        files = [f"{self._root}/{path}" for path in paths]
        form = ds.ParquetFileFormat(default_fragment_scan_options=options)
        return ds.dataset(files, schema=schema, format=form, filesystem=self._files)

    def read(self, table: str, schema: pa.Schema, runs: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of some of `runs(table)` in this process. Raises `UsageError` for changed bytes of a page."""
        rows: list[dict[str, Any]] = []
        try:
            for part in self.parts(table, runs):
                counting = None if part.is_whole else pc.field("run").isin(part.runs)
                rows += self.dataset([part.path], schema).to_table(filter=counting).to_pylist()
        except OSError as error:
            raise UsageError(f"{self.where}/{table} cannot be read: {error}") from None
        return rows

    def commit(self, batch: str, tables: Iterable[str], runs: Iterable[Entry], files: Iterable[File]) -> None:
        """Let files of a batch count."""
        text = json.dumps({"format": FORMAT, **asdict(Commit(batch, tuple(tables), tuple(runs), tuple(files)))})
        number = 1 + max((int(Path(name).name.partition("-")[0]) for name in self._commits), default=0)
        unfinished = f"{self._root}/{COMMITS}/{batch}{_UNFINISHED}"
        self._files.create_dir(f"{self._root}/{COMMITS}")
        with self._files.open_output_stream(unfinished) as stream:
            stream.write(text.encode("utf-8"))
        self._files.move(unfinished, f"{self._root}/{COMMITS}/{number:08}-{batch}{_COMMITTED}")

    def clear(self) -> None:
        """Remove what counts for nothing. No other process may be writing."""
        counting = {commit.batch for commit, _ in self._last.values()}
        for path in self._sizes:
            commit = self._commits.get(path)
            if path.endswith(_UNFINISHED) or (commit is not None and commit.batch not in counting):
                self._files.delete_file(f"{self._root}/{path}")
        folders = {"/".join(path.split("/")[:2]) for path in self._sizes if "/batch=" in path}
        for folder in sorted(folders):
            if folder.partition("/batch=")[2] not in counting:
                self._files.delete_dir(f"{self._root}/{folder}")
        named = {commit.path(file) for commit, _ in self._last.values() for file in commit.files}
        for path in self._sizes.keys() - named:
            batch, _, name = path.partition("/batch=")[2].partition("/")
            if batch in counting and name.endswith(_ROWS) and not name.startswith("."):
                self._files.delete_file(f"{self._root}/{path}")


def open_lake(where: str) -> Lake:
    """Raises `UsageError` for a folder that is no lake."""
    require_place(where)
    lake = Lake(where)
    if lake.is_empty:
        raise UsageError(f"{where} is not a lake: nothing was committed to it (make one with `upheaval ingest`)")
    return lake


def require_place(where: str) -> None:
    """Raises `UsageError` where no lake can be: at a file."""
    if _REMOTE not in where and Path(where).is_file():
        raise UsageError(f"{where} is a file: a lake is a folder")


def new_batch() -> str:
    """A name that no other batch has."""
    return uuid4().hex


@contextmanager
def writing(where: str) -> Iterator[bool]:
    """Hold the lock of a lake in a folder: other writers wait, and say so. Yields False for a remote lake."""
    if _REMOTE in where:
        yield False
        return
    try:
        Path(where).mkdir(parents=True, exist_ok=True)
        lock = (Path(where) / _LOCK).open("ab")
    except OSError as error:
        raise EnvironmentFault(f"cannot write to the lake {where}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"upheaval: waiting for another command that writes to {where}", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield True
