"""A copy of a run folder that edits change: its JSON files as values, its binary files as bytes.

This module knows the names of files, and nothing of the contents of recordings.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from upheaval.records import (
    SCENARIO_NAME,
    MemberFolder,
    RunFolder,
    companion_folders,
    copy_sparse,
    load_companions,
    seal,
)
from upheaval.records.companions import COMPANIONS_FILE

Line = dict[str, Any]
Found = TypeVar("Found")

HISTORY: Final = "history.jsonl"
FAULTS: Final = "faults.jsonl"
CONTROLS: Final = "controls.jsonl"
SESSIONS: Final = "sessions.jsonl"
ATTEMPTS: Final = "attempts.jsonl"
MANIFEST: Final = "manifest.json"
COMPANIONS: Final = COMPANIONS_FILE
SCENARIO: Final = SCENARIO_NAME


class Lacking(Exception):
    """The run lacks what an edit changes; the message names it."""


def need(evidence: object, what: str) -> None:
    """Raise `Lacking` if there is no evidence."""
    if not evidence:
        raise Lacking(what)


def first(candidates: Iterable[Found], what: str) -> Found:
    """The first of these. Raises `Lacking` for none."""
    for one in candidates:
        return one
    raise Lacking(what)


def remove(path: Path, what: str) -> None:
    """Remove a file. Raises `Lacking` if it is missing."""
    need(path.exists(), what)
    path.unlink()


class RunCopy:
    """The files of one run, to be read, changed and written back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = RunFolder(path)

    @cached_property
    def members(self) -> range:
        """The ids of the members."""
        return range(self.folder.read_manifest().members)

    @property
    def last_member(self) -> MemberFolder:
        """The folder of the last member."""
        return self.folder.member(self.members[-1])

    def node_folders(self) -> list[MemberFolder]:
        """The folders of the members, then of the companions."""
        beside = [MemberFolder(path, -1, path.name) for path in companion_folders(self.path)]
        return [*(self.folder.member(member) for member in self.members), *beside]

    def companion(self, kind: str) -> MemberFolder:
        """The first companion of a kind. Raises `Lacking`."""
        names = [config.name for config in load_companions(self.path) if config.kind == kind]
        need(names, f"no {kind}")
        return MemberFolder(self.path / names[0], -1, names[0])

    def lines(self, name: str) -> list[Line]:
        """The lines of a file of JSON lines. Raises `Lacking` if it is missing or empty."""
        path = self.path / name
        need(path.exists(), f"no {name}")
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        need(lines, f"nothing in {name}")
        return lines

    def put_lines(self, name: str, lines: Iterable[Line]) -> None:
        """Replace a file of JSON lines."""
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        (self.path / name).write_text(text, encoding="utf-8")

    @contextmanager
    def changing(self, name: str) -> Iterator[list[Line]]:
        """The lines of a file, which are written back after the block."""
        lines = self.lines(name)
        yield lines
        self.put_lines(name, lines)

    def trace(self, member: int) -> AbstractContextManager[list[Line]]:
        """The trace of a member, to be changed in a `with` block."""
        return self.changing(f"member-{member}/trace.jsonl")

    @contextmanager
    def changing_object(self, name: str) -> Iterator[Line]:
        """The object of a JSON file, which is written back after the block."""
        path = self.path / name
        need(path.exists(), f"no {name}")
        fields: Line = json.loads(path.read_text(encoding="utf-8"))
        yield fields
        path.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")

    def manifest(self) -> AbstractContextManager[Line]:
        """The manifest, to be changed in a `with` block."""
        return self.changing_object(MANIFEST)

    def each_trace(self, change: Callable[[int, list[Line]], None]) -> None:
        """Change the trace of every member."""
        for member in self.members:
            with self.trace(member) as lines:
                change(member, lines)

    def seal_anew(self) -> None:
        """Remove the seal and make a new one."""
        self.folder = RunFolder(self.path)
        self.folder.unseal()
        seal(self.folder)


def copy_run(source: Path, target: Path) -> RunCopy:
    """Copy a run folder; holes in its files stay holes."""
    shutil.copytree(
        source, target, copy_function=lambda name, copy: copy_sparse(Path(name), Path(copy)), dirs_exist_ok=True
    )
    return RunCopy(target)


def put_bytes(path: Path, content: bytes) -> None:
    """Replace a file; zeros at its end become a hole."""
    with path.open("wb", buffering=0) as writer:
        writer.write(content.rstrip(b"\0"))
        writer.truncate(len(content))
