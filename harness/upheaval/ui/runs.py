"""The runs of a folder as a list: of each what made it, on what, and how it ended, as far as files say so at once."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from upheaval.campaign.findability import SEEDS_FILE
from upheaval.campaign.seed import seed_of_run
from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.errors import HarnessError, UsageError
from upheaval.execution.run import RESULT_FILE
from upheaval.records import Manifest, RunFolder, jsonfields
from upheaval.report import Figures, measure_run
from upheaval.runtimes import cluster_file
from upheaval.ui.beside import Side
from upheaval.ui.campaigns import Campaign
from upheaval.ui.run_page import made_by, page_of_run

MANIFEST: Final = "manifest.json"
_PAGES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list. What is not known without judging the run is None."""

    name: str
    written_ns: int
    created: str = ""
    system: str = ""
    version: str = ""
    runtime: str = ""
    scenario: str = ""
    seed: int | None = None
    planted: str | None = None
    verdict: str | None = None
    broken: tuple[str, ...] = ()
    """The sentences of the promises that are not valid."""
    length_ns: int | None = None
    is_open: bool = False
    """Whether its cluster was not brought to an end."""
    error: str = ""
    """Why its folder cannot be read."""

    def to_fields(self) -> dict[str, Any]:
        """As the endpoint has it."""
        return asdict(self)


@dataclass
class _Known:
    """What was computed of a run while its files were as `signature` says."""

    signature: tuple[tuple[str, int, int], ...]
    values: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Two requests do not compute the same at once."""


class Runs:
    """The runs in a folder and in the folders in it; of a run itself those beside it, too."""

    def __init__(self, folder: Path) -> None:
        """Raises `UsageError` where there is no such folder."""
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}: name the folder of runs by --dir")
        folder = folder.absolute()
        self.folder = folder.parent if (folder / MANIFEST).is_file() else folder
        self._known: dict[str, _Known] = {}
        self._campaigns: dict[str, Campaign] = {}
        self._lock = threading.Lock()

    def paths(self) -> dict[str, Path]:
        """The folder of each run, by its name."""
        manifests = [*self.folder.glob(f"*/{MANIFEST}"), *self.folder.glob(f"*/*/{MANIFEST}")]
        return {str(manifest.parent.relative_to(self.folder)): manifest.parent for manifest in manifests}

    def campaigns(self) -> list[str]:
        """The names of the folders that have a line for each seed."""
        files = [*self.folder.glob(f"*/{SEEDS_FILE}"), *self.folder.glob(f"*/*/{SEEDS_FILE}")]
        return sorted(str(file.parent.relative_to(self.folder)) for file in files)

    def campaign(self, name: str) -> Campaign:
        """Raises `UsageError` for one that the folder does not have."""
        if name not in self.campaigns():
            raise UsageError(f"no campaign {name!r} in {self.folder}")
        with self._lock:
            return self._campaigns.setdefault(name, Campaign(self.folder, self.folder / name))

    def path(self, name: str) -> Path:
        """Raises `UsageError` for a run that the folder does not have."""
        path = self.paths().get(name)
        if path is None:
            raise UsageError(f"no run {name!r} in {self.folder}")
        return path

    def rows(self) -> list[RunRow]:
        """All runs, the one that was written last first."""
        rows = [self._row(name, path) for name, path in self.paths().items()]
        return sorted(rows, key=lambda row: (-row.written_ns, row.name))

    def row(self, name: str) -> RunRow:
        """With verdict and length, for which the run is judged. Raises `UsageError` for one that cannot be."""
        path = self.path(name)
        verdict, figures = self.verdict(name), self.figures(name)
        row = self._row(name, path).to_fields()
        judged = {"verdict": verdict["verdict"], "broken": _not_valid(verdict), "length_ns": figures["length_ns"]}
        return RunRow(**row | judged)

    def page(self, name: str) -> str:
        """As `upheaval report` writes it."""
        return str(self._computed(name, "page", page_of_run))

    def verdict(self, name: str) -> Mapping[str, Any]:
        """As `upheaval verify --json` prints it."""
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
        signature = _signature(path)
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

    def _row(self, name: str, path: Path) -> RunRow:
        written_ns = (path / MANIFEST).stat().st_mtime_ns
        try:
            manifest = RunFolder(path).read_manifest()
            verdict, broken = _verdict_in(path)
            return RunRow(
                name,
                written_ns,
                manifest.created,
                manifest.system.partition(":")[0],
                manifest.system_version,
                manifest.runtime,
                made_by(path).name,
                _seed_of(path, manifest),
                manifest.planted,
                verdict,
                broken,
                is_open=manifest.sealed is None and cluster_file.has_cluster(path),
            )
        except HarnessError as error:
            return RunRow(name, written_ns, error=str(error))


def _not_valid(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """The sentences of the promises that are broken or unknown."""
    return tuple(promise["sentence"] for promise in verdict["promises"] if promise["verdict"] != Verdict.VALID.text)


def _seed_of(path: Path, manifest: Manifest) -> int | None:
    origin = seed_of_run(path)
    return manifest.seed if origin is None else origin.seed


def _verdict_in(path: Path) -> tuple[str | None, tuple[str, ...]]:
    """What the file of a scenario's result says; nothing where there is none."""
    file = path / RESULT_FILE
    if not file.is_file():
        return None, ()
    fields = jsonfields.read_object(file)
    promises = fields.get("promises")
    findings = [value for value in promises if isinstance(value, dict)] if isinstance(promises, list) else []
    bad = [finding for finding in findings if finding.get("verdict") != Verdict.VALID.text]
    verdict = fields.get("verdict")
    return (verdict if isinstance(verdict, str) else None), tuple(str(finding.get("sentence")) for finding in bad)


def _signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes with whatever a run writes: its own files, and those of its members."""
    files = sorted(file for pattern in ("*", "member-*/*") for file in path.glob(pattern) if file.is_file())
    return tuple((str(file), status.st_mtime_ns, status.st_size) for file in files for status in [file.stat()])
