"""Whether a lake has run folders as they are, by a digest of what they hold."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.records.run_folder import PAGES
from upheaval.records.run_seal import digest_of_file
from upheaval_pipeline import tables
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.version import reader_version


def contents_of_each(folders: Sequence[Path]) -> list[tuple[str, int]]:
    """Of each folder a digest of all its files, and their length in bytes."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(contents_of, folders))


def contents_of(folder: Path) -> tuple[str, int]:
    """A digest of all files of a run but its pages, and their length in bytes."""
    whole, size = hashlib.sha256(), 0
    pages = {folder / name for name in PAGES}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path not in pages):
        whole.update(f"{path.relative_to(folder)}\0{digest_of_file(path)}\0".encode("utf-8", "surrogateescape"))
        size += path.stat().st_size
    return whole.hexdigest(), size


@dataclass(frozen=True, slots=True)
class Contents:
    """Of a run folder."""

    folder: Path
    digest: str
    size: int
    """In bytes."""


def contents_of_runs(folders: Sequence[Path]) -> dict[str, Contents]:
    """The contents of run folders by their runs. Raises as `require_different_runs` does."""
    folder_of = require_different_runs(folders)
    digests = contents_of_each(list(folder_of.values()))
    return {run: Contents(folder_of[run], *one) for run, one in zip(folder_of, digests, strict=True)}


def new_runs(lake: Lake, contents: Mapping[str, Contents]) -> list[str]:
    """The runs that an ingest would write."""
    return [run for run, one in contents.items() if not has(lake, run, one.digest)]


def rows_in_lake(lake: Lake, table: str, runs: Iterable[str]) -> dict[str, dict[str, int]]:
    """By run and table, how many rows a lake has."""
    return {run: dict(entry.rows) for run in runs if (entry := lake.entry(table, run)) is not None}


def require_different_runs(folders: Sequence[Path]) -> dict[str, Path]:
    """The folders by their runs. Raises `UsageError` for a folder that is no run, and for two of the same run."""
    seen: dict[str, Path] = {}
    for folder in folders:
        RunFolder(folder).require_folder()
        if not RunFolder(folder).manifest_file.exists():
            raise UsageError(f"{folder} is not a run folder: it has no manifest.json")
        other = seen.setdefault(tables.run_id(RunFolder(folder)), folder)
        if other is not folder:
            raise UsageError(f"{other} and {folder} are the same run: give one of them")
    return {run: folder.absolute() for run, folder in seen.items()}


def has(lake: Lake, run: str, digest: str) -> bool:
    """Whether a lake has a run with these contents, as this version reads them, with its files whole."""
    entry = lake.entry("runs", run)
    if entry is None or (entry.contents, entry.made_by) != (digest, reader_version()):
        return False
    return not (lake.damage("runs", run) or lake.damage_of_verdicts(run))
