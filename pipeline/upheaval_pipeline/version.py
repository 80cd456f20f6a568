"""Which code reads and judges runs. Knows nothing of what it does."""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from upheaval.repository import REPOSITORY
from upheaval_pipeline.packages import files_of_packages

JUDGE: Final = ("upheaval.checkers.judge",)
READER: Final = ("upheaval_pipeline.run_parts", "upheaval_pipeline.manifest_rows")
"""What judges a run, and what reads the rows of one: what they import counts, and nothing else."""
JAVA: Final = ("images/aeron/src/main",)
"""What replays services in Java, and asks members of Aeron, for the judge."""
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from (?P<package>upheaval[\w.]*) import (?P<names>\([^)]*\)|[^\n]*)|import (?P<module>upheaval[\w.]*))",
    re.M,
)


def judge_version() -> str:
    """A digest of all that judges runs: other code may give other verdicts on the same runs."""
    return _digest(JUDGE, JAVA)


def reader_version() -> str:
    """A digest of all that reads runs: other code may make other rows of the same runs."""
    return _digest(READER)


@cache
def _digest(roots: Sequence[str], folders: Sequence[str] = ()) -> str:
    whole = hashlib.sha256()
    for path in (*files_of_version(roots), *java_files(folders)):
        whole.update(path.read_bytes() + b"\0")
    return whole.hexdigest()


def files_of_version(roots: Sequence[str]) -> list[Path]:
    """These modules, those of ours that they import, wherever in them, and the JSON files beside them."""
    modules = _imported(roots)
    folders = {path.parent for path in modules}
    return sorted({*modules, *(path for folder in folders for path in folder.glob("*.json"))})


def java_files(folders: Sequence[str]) -> list[Path]:
    """The Java sources in folders of the repository, where this installation has them."""
    present = [name for name in folders if REPOSITORY.find(name) is not None]
    return sorted(path for _, path in REPOSITORY.files(present) if path.suffix == ".java")


def _imported(roots: Sequence[str]) -> set[Path]:
    files: dict[str, Path] = {}
    to_do = list(roots)
    while to_do:
        name = to_do.pop()
        path = None if name in files else _modules().get(name)
        if path is not None:
            files[name] = path
            to_do += [name.rpartition(".")[0], *_imports(path)]
    return set(files.values())


@cache
def _modules() -> dict[str, Path]:
    """The files of all our modules, by their names."""
    sources = ((path, below.with_suffix("").parts) for path, below in files_of_packages() if below.suffix == ".py")
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in sources}


@cache
def _imports(path: Path) -> list[str]:
    """Whatever may be a module: names that are none have no file."""
    names = []
    for match in _IMPORT.finditer(path.read_text(encoding="utf-8")):
        package = match["package"] or match["module"]
        names += [package, *(f"{package}.{name}" for name in re.findall(r"\w+", match["names"] or ""))]
    return names
