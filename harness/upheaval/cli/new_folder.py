"""The folder of runs: where a new run goes that has no folder of its own, and which run in it is the newest."""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from upheaval.cli.output import note
from upheaval.cli.settings import read_settings
from upheaval.errors import UsageError

_MANIFEST: Final = "manifest.json"


def runs_folder() -> Path:
    """`./runs`, unless the project has another one. Raises `UsageError` for settings that make no sense."""
    return read_settings().runs


def newest() -> Path:
    """The run that was written last, those of campaigns included. Raises `UsageError` where there is none."""
    folder = runs_folder()
    manifests = [*folder.glob(f"*/{_MANIFEST}"), *folder.glob(f"*/*/{_MANIFEST}")]
    if not manifests:
        raise UsageError(f"the folder {folder} has no run: name a run folder")
    run = max(manifests, key=lambda manifest: manifest.stat().st_mtime_ns).parent
    note(f"the newest run: {run}")
    return run


@contextlib.contextmanager
def run_folder(given: Path | None, name: str) -> Iterator[Path]:
    """The folder that was given, else a new one that no other process uses; a new one is removed if it stays empty."""
    if given is not None:
        yield given
        return
    path = _make(name)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            path.rmdir()


def _make(name: str) -> Path:
    folder = runs_folder()
    while True:
        # Local time, for people who look for the run they just made.
        path = folder / f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S-%f}"
        try:
            path.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            if not path.is_dir():
                raise
        else:
            return path
