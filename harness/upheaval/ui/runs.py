"""The runs of a folder or a lake: the page of each, its verdict and its figures, computed once."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report import Figures, measure_run
from upheaval.ui.beside import Side
from upheaval.ui.campaigns import Campaign
from upheaval.ui.places import ArchivedRun, Place, RunRow
from upheaval.ui.run_files import signature_of
from upheaval.ui.run_page import page_of_run

_PAGES_MAX: Final = 8


@dataclass
class _Known:
    """What was computed of a run while its files were as `signature` says."""

    signature: tuple[tuple[str, int, int], ...]
    values: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Two requests do not compute the same at once."""


class Runs:
    """The runs of a place, with what is computed from their folders."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._known: dict[str, _Known] = {}
        self._campaigns: dict[str, Campaign] = {}
        self._lock = threading.Lock()

    def campaign(self, name: str) -> Campaign:
        """Raises `UsageError` for one that the place does not have."""
        path = self.place.campaigns().get(name)
        if path is None:
            raise UsageError(f"no campaign {name!r} in {self.place.title}")
        with self._lock:
            return self._campaigns.setdefault(name, Campaign(self.place.new_runs(), path))

    def path(self, name: str) -> Path:
        """Raises `UsageError` for a run that the place does not have, or without its folder."""
        path = self.place.path(name)
        if path is None:
            archived = self.place.archived(name)
            if archived is None:
                raise UsageError(f"no run {name!r} in {self.place.title}")
            where = f"the folder of run {name}, {archived.row.folder}, is not there; the lake has no more"
            raise UsageError(archived.row.error or where)
        return path

    def archived(self, name: str) -> ArchivedRun | None:
        """What a lake has of a run whose folder is gone; None of any other one."""
        return None if self.place.path(name) is not None else self.place.archived(name)

    def row(self, name: str) -> RunRow:
        """With verdict and length, for which the run is judged. Raises `UsageError` for one that cannot be."""
        verdict, figures = self.verdict(name), self.figures(name)
        row = next((row for row in self.place.rows() if row.name == name), None)
        if row is None:
            raise UsageError(f"no run {name!r} in {self.place.title}")
        broken, length_ns = _not_valid(verdict), figures["length_ns"]
        return replace(row, verdict=verdict["verdict"], broken=broken, length_ns=length_ns)

    def page(self, name: str) -> str:
        """As `upheaval report` writes it."""
        return str(self._computed(name, "page", page_of_run))

    def verdict(self, name: str) -> Mapping[str, Any]:
        """As `upheaval verify --json` prints it; of a run without its folder the last one that the lake has."""
        archived = self.archived(name)
        if archived is not None:
            if archived.report is None:
                reason = archived.row.error or "upheaval verify --lake judges it"
                raise UsageError(f"run {name} was not judged: {reason}")
            return archived.report.to_fields()
        fields: Mapping[str, Any] = self._computed(name, "verdict", lambda path: verify_run(path).to_fields())
        return fields

    def figures(self, name: str) -> Mapping[str, Any]:
        """As `upheaval measure --json` prints them."""
        return self._measured(name).to_fields()

    def side(self, name: str) -> Side:
        """To be put beside another one."""
        verdict = self.verdict(name)
        finals = finals_of(RunFolder(self.path(name)).read_manifest())
        return Side(name, str(verdict["verdict"]), _not_valid(verdict), self._measured(name), finals)

    def _measured(self, name: str) -> Figures:
        figures: Figures = self._computed(name, "figures", lambda path: measure_run(RunFolder(path)))
        return figures

    def _computed(self, name: str, what: str, compute: Callable[[Path], Any]) -> Any:
        """Once for each state of the run's files, of the runs that were looked at last. Threads may ask at once."""
        path = self.path(name)
        signature = signature_of(path)
        with self._lock:
            known = self._known.pop(name, None)
            if known is None or known.signature != signature:
                known = _Known(signature)
            self._known[name] = known
            while len(self._known) > _PAGES_MAX:
                del self._known[next(iter(self._known))]
        with known.lock:
            if what not in known.values:
                known.values[what] = compute(path)
            return known.values[what]


def _not_valid(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """The sentences of the promises that are broken or unknown."""
    return tuple(promise["sentence"] for promise in verdict["promises"] if promise["verdict"] != Verdict.VALID.text)
