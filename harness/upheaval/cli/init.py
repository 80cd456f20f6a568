"""`upheaval init`: a repository of the user's own, with a service and tests of it, to start from."""

import json
import shlex
from pathlib import Path
from typing import Final

from upheaval.cli.build_commands import InitOptions
from upheaval.errors import UsageError
from upheaval.repository import REPOSITORY

_PYTHON: Final = "examples/locks"
_JAVA: Final = "examples/java-stock"
_MADE: Final = ("__pycache__", "runs", "build", "target")
"""Folders that tests and builds leave in the example of a clone."""
_HIDDEN: Final = (".github", ".gitignore")


def init(options: InitOptions) -> int:
    """Copy the example, and say what to do next."""
    _require_empty(options.folder)
    example = _JAVA if options.java else _PYTHON
    names = []
    for name, source in sorted(REPOSITORY.files([example])):
        relative = Path(name).relative_to(example)
        if not _is_source(relative):
            continue
        target = options.folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
        names.append(str(relative))
    if options.json:
        print(json.dumps({"folder": str(options.folder), "files": names}, indent=2))
    else:
        print(f"{options.folder}: {len(names)} files; README.md says what each is for")
        commands = "mvn package && pytest" if options.java else "pytest --runtime simulated --seed 7"
        print(f"test it: cd {shlex.quote(str(options.folder))} && {commands}")
    return 0


def _require_empty(folder: Path) -> None:
    if folder.is_dir():
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder")
    elif folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is not a folder: name a new folder")


def _is_source(relative: Path) -> bool:
    first = relative.parts[0]
    is_hidden = first.startswith(".") and first not in _HIDDEN
    return not is_hidden and not first.endswith(".egg-info") and not set(relative.parts) & {*_MADE}
