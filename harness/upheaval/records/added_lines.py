"""Whole lines that are added to files while a run continues."""

from collections.abc import Iterable, Iterator
from pathlib import Path


class AddedLines:
    """Reads what was added to the files since the last call, in whole lines. A missing file has none."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._read = dict.fromkeys(paths, 0)

    def __call__(self) -> Iterator[bytes]:
        """The lines since the last call, in the order of each file."""
        for path in self._read:
            yield from self._lines(path)

    def _lines(self, path: Path) -> Iterable[bytes]:
        try:
            with path.open("rb") as file:
                file.seek(self._read[path])
                whole, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return ()
        self._read[path] += len(whole) + len(newline)
        return whole.split(b"\n")
