"""The files of a run folder as they are now: whether what was computed of them still holds."""

import os
from collections.abc import Iterator
from pathlib import Path

from upheaval.records import RunFolder, jsonfields
from upheaval.records.labels import LABELS_FILE
from upheaval.records.run_folder import PAGES
from upheaval.records.run_seal import read_seal


def signature_of(run: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes with every file of the run, in its folder and below."""
    return tuple(sorted((str(file), status.st_ctime_ns, status.st_size) for file, status in _files(run)))


def is_as_judged(run: Path, result: Path) -> bool:
    """Whether no file of a run was written, replaced or removed since `result` was written.

    Labels do not count: no verdict depends on them, and a command writes them last. The seal names the files to be
    there, so a run without one does not show it. `st_ctime` counts: a copy that preserves times does not set it.
    Raises `UsageError` for a malformed seal.
    """
    seal_file = RunFolder(run).seal_file
    if not seal_file.is_file():
        return False
    judged_ns = result.stat().st_ctime_ns
    changed = {file: status.st_ctime_ns for file, status in _files(run) if file != run / LABELS_FILE}
    sealed = read_seal(RunFolder(run), jsonfields.read_text(seal_file)).files
    return all(run / name in changed for name in sealed) and max(changed.values()) <= judged_ns


def _files(run: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """All but the pages of the run. A file that goes away meanwhile is left out."""
    pages = {run / name for name in PAGES}
    for file in run.rglob("*"):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        if file.is_file() and file not in pages:
            yield file, status
