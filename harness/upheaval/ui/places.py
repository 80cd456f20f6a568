"""Where the runs of the list are: in a folder, or in a lake, which may know runs whose folders are gone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from upheaval.campaign.seed import seed_of_run
from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.checkers.verdict import Report, Verdict
from upheaval.errors import HarnessError, UsageError
from upheaval.execution.run import RESULT_FILE
from upheaval.records import Manifest, RunFolder, jsonfields
from upheaval.records.utf8 import storable
from upheaval.runtimes import cluster_file
from upheaval.ui.run_files import is_as_judged
from upheaval.ui.run_page import made_by
from upheaval_chaos.record import FaultRecord

MANIFEST: Final = "manifest.json"


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
    folder: str | None = None
    """Of a run of a lake: where its folder was when the lake got it."""
    ingested: str = ""
    """Of a run of a lake that does not say when it was made: when the lake got it."""

    def to_fields(self) -> dict[str, Any]:
        """As the endpoint has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ArchivedRun:
    """A run of a lake without its folder: what the lake has of it."""

    row: RunRow
    report: Report | None
    """The last verdict; None of a run that was not judged or cannot be."""
    faults: Sequence[FaultRecord]
    labels: Mapping[str, str]
    start_ns: int
    """The first thing that was recorded, on the run's clock."""


class Place(Protocol):
    """What the list of runs is of."""

    @property
    def title(self) -> str:
        """The folder, or the address of the lake."""

    def rows(self) -> list[RunRow]:
        """All runs, the newest first."""

    def path(self, name: str) -> Path | None:
        """The folder of a run, where there is one."""

    def archived(self, name: str) -> ArchivedRun | None:
        """What is known of a run without its folder."""

    def campaigns(self) -> Mapping[str, Path]:
        """The folders that have a line for each seed, by their names."""

    def new_runs(self) -> Path:
        """Where new runs go. Raises `UsageError` where none can."""


class FolderPlace:
    """The runs in a folder and in the folders in it; of a run itself those beside it, too."""

    def __init__(self, folder: Path) -> None:
        """Raises `UsageError` where there is no such folder."""
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}: name the folder of runs with --dir")
        folder = folder.absolute()
        self._folder = folder.parent if (folder / MANIFEST).is_file() else folder

    @property
    def title(self) -> str:
        """The folder."""
        return str(self._folder)

    def rows(self) -> list[RunRow]:
        """All runs, the one that was written last first."""
        rows = [_row(name, path) for name, path in self._below(MANIFEST).items()]
        return sorted(rows, key=lambda row: (-row.written_ns, row.name))

    def path(self, name: str) -> Path | None:
        """The folder of a run; None for one that is not in the folder."""
        return self._below(MANIFEST).get(name)

    def archived(self, name: str) -> ArchivedRun | None:
        """None: without its folder nothing is known of a run."""
        del name
        return None

    def campaigns(self) -> Mapping[str, Path]:
        """In the order of their names."""
        return dict(sorted(self._below(SEEDS_FILE).items()))

    def new_runs(self) -> Path:
        """The folder itself."""
        return self._folder

    def _below(self, file_name: str) -> dict[str, Path]:
        """The folders that have this file, by their names as a page and an address have them."""
        files = [*self._folder.glob(f"*/{file_name}"), *self._folder.glob(f"*/*/{file_name}")]
        return {storable(str(file.parent.relative_to(self._folder))): file.parent for file in files}


def _row(name: str, path: Path) -> RunRow:
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


def _seed_of(path: Path, manifest: Manifest) -> int | None:
    origin = seed_of_run(path)
    return manifest.seed if origin is None else origin.seed


def _verdict_in(path: Path) -> tuple[str | None, tuple[str, ...]]:
    """What the file of a scenario's result says; nothing where there is none, or where the run has changed since."""
    file = path / RESULT_FILE
    if not file.is_file() or not is_as_judged(path, file):
        return None, ()
    fields = jsonfields.read_object(file)
    promises = fields.get("promises")
    findings = [value for value in promises if isinstance(value, dict)] if isinstance(promises, list) else []
    bad = [finding for finding in findings if finding.get("verdict") != Verdict.VALID.text]
    verdict = fields.get("verdict")
    return (verdict if isinstance(verdict, str) else None), tuple(str(finding.get("sentence")) for finding in bad)
