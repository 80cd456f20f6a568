"""Where a command puts a run that nobody gave a folder: a new one in `./runs`. Knows nothing of what a run is."""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

RUNS: Final = Path("runs")


@contextlib.contextmanager
def run_folder(given: Path | None, name: str) -> Iterator[Path]:
    """The folder that was given, else one that was just made and is nobody else's; it goes when it stays empty."""
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
    while True:
        # Local time, for people who look for the run they just made.
        path = RUNS / f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S-%f}"
        try:
            path.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            if not path.is_dir():
                raise
        else:
            return path
