"""`upheaval compose`: prints a compose file, or lists them."""

import json
import re
from pathlib import Path
from typing import Final

from upheaval.cli.build_commands import ComposeOptions
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.repository import REPOSITORY
from upheaval_node.suggestions import did_you_mean

_FOLDER: Final = "compose"
_SIDE_FILES: Final = re.compile(r"(?<=[\"'])\./")
"""How a file names those beside it; they stay where they are when it is printed."""


def compose(options: ComposeOptions) -> int:
    """Print one with whole paths, so that it works from any folder."""
    folder = REPOSITORY.path(_FOLDER)
    files = {path.stem: path for path in sorted(folder.glob("*.yaml"), key=lambda path: path.stem)}
    if options.name is None:
        _list(files, as_json=options.json)
        return 0
    if options.json:
        raise UsageError("--json is for the list: a compose file is YAML")
    path = files.get(options.name.removesuffix(".yaml"))
    if path is None:
        known = ", ".join(files)
        raise UsageError(
            f"unknown compose file {options.name!r}: use one of {known}{did_you_mean(options.name, files)}"
        )
    print(_SIDE_FILES.sub(f"{folder}/", path.read_text(encoding="utf-8")), end="")
    return 0


def _list(files: dict[str, Path], *, as_json: bool) -> None:
    titles = {name: _title(path.read_text(encoding="utf-8")) for name, path in files.items()}
    if as_json:
        print(json.dumps([{"name": name, "title": title} for name, title in titles.items()], indent=2))
    else:
        print(table([["name", "title"], *([name, title] for name, title in titles.items())]))


def _title(text: str) -> str:
    """The first sentence of the comment at the top."""
    comment = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return comment.partition(".")[0].partition(";")[0]
