"""Remembers failed seeds, so that the next campaign tries them first: `failed-seeds.json` in `runs`, by subject.

A subject is a service and a way to draw clusters, since a seed alone does not say which cluster failed.
"""

import json
from pathlib import Path
from typing import Final

from upheaval.campaign.searches import UNIFORM
from upheaval.records import Json, jsonfields, write_atomically
from upheaval.records.folder_lock import locked
from upheaval.records.jsonfields import FieldError
from upheaval.scenario import OwnCode

FILE_NAME: Final = "failed-seeds.json"
REMEMBERED_MAX: Final = 20


class FailedSeeds:
    """The failed seeds of campaigns of one service and one search. An unreadable file counts as empty."""

    def __init__(self, folder: Path, own: OwnCode | None, search: str = UNIFORM) -> None:
        self._file = folder / FILE_NAME
        service = "drawn" if own is None else f"{own.service} {own.user} {own.model}".strip()
        self._name = service if search == UNIFORM else f"{service} --search {search}"

    @property
    def seeds(self) -> list[int]:
        """The latest first."""
        remembered = self._read().get(self._name)
        return [seed for seed in remembered if type(seed) is int] if isinstance(remembered, list) else []

    def note(self, seed: int, *, has_failed: bool) -> None:
        """Remember a failed seed, or forget a seed that passed. Another campaign may do so at the same time."""
        if not has_failed and seed not in self.seeds:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._file.parent):
            before = self.seeds
            others = [other for other in before if other != seed]
            after = [seed, *others][:REMEMBERED_MAX] if has_failed else others
            if after == before:
                return
            lists: dict[str, Json] = {**self._read(), self._name: list(after)}
            if not after:
                del lists[self._name]
            write_atomically(self._file, json.dumps(lists, indent=2) + "\n")

    def _read(self) -> dict[str, Json]:
        try:
            return jsonfields.parse_object(self._file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, FieldError):
            return {}
