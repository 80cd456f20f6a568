"""The files that images, compose files and members of Aeron are made from, by their names in the repository.

A clone has them where their names say. A wheel has its packages side by side, and everything else in `INSTALLED`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault

INSTALLED: Final = "_repository"
"""The folder of the installed package `upheaval` with the files that are in no package; `setup.py` fills it."""
_PACKAGE: Final = Path(__file__).resolve().parent
_SOURCE_FOLDERS: Final = ("node", "harness", "chaos", "pipeline")


class Repository:
    """Where the files are, below the folder of a clone or beside an installed package."""

    def __init__(self, package: Path = _PACKAGE) -> None:
        self._package = package
        self.is_installed = (package / INSTALLED).is_dir()

    def find(self, name: str) -> Path | None:
        """Where the file or folder of that name is; None where it is missing."""
        path = self._place(name)
        return path if path.exists() else None

    def path(self, name: str) -> Path:
        """Where the file or folder of that name is. Raises `EnvironmentFault` where it is missing."""
        path = self._place(name)
        if not path.exists():
            raise EnvironmentFault(f"{path} is missing: install upheaval again, from a wheel or a whole clone")
        return path

    def _place(self, name: str) -> Path:
        first, _, rest = name.partition("/")
        if not self.is_installed:
            return self._package.parents[1] / name
        if first in _SOURCE_FOLDERS:
            return self._package.parent / rest
        return self._package / INSTALLED / name

    def files(self, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
        """The files of these names, and those below the folders of these names, with their own names."""
        for name in names:
            place = self.path(name)
            if place.is_file():
                yield name, place
                continue
            for path in place.rglob("*"):
                if path.is_file():
                    yield f"{name}/{path.relative_to(place).as_posix()}", path


REPOSITORY: Final = Repository()
