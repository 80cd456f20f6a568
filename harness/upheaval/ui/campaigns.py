"""A campaign on its page, while it goes on and afterwards: seeds, outcomes, coverage, and what they found."""

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from upheaval.campaign.campaign import legal_moves
from upheaval.campaign.findability import rate_excluded
from upheaval.campaign.goals.table import unreached
from upheaval.campaign.kept import SUMMARY_FILE
from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import Json, jsonfields
from upheaval.records.utf8 import storable
from upheaval.watch.tails import LineTail

_FAILED_SHOWN: Final = 200


class Campaign:
    """One folder with a line for each seed. Each look reads what was written since the one before."""

    def __init__(self, runs: Path, folder: Path) -> None:
        """`runs` is the folder that names of runs are of."""
        self._runs = runs
        self._folder = folder
        self._lock = threading.Lock()
        self._tail = LineTail(folder / SEEDS_FILE)
        self._begin_anew()

    def look(self) -> Mapping[str, Any]:
        """As the endpoint has it. Raises `UsageError` for a line that is none of a seed."""
        with self._lock:
            self._read()
            if self._flaw:
                raise UsageError(self._flaw)
            return {
                "seeds": sum(self._verdicts.values()),
                "is_over": self._is_over(),
                "verdicts": dict(self._verdicts),
                "inconclusive": self._inconclusive,
                "excluded_rate": rate_excluded(self._verdicts[Verdict.VALID.text] - self._inconclusive),
                "operations": self._operations,
                "faults": {kind: dict(counts) for kind, counts in sorted(self._faults.items())},
                "variations": dict(sorted(self._variations.items())),
                "moves": len(self._moves),
                "untaken_moves": sorted(legal_moves() - self._moves) if self._moves else [],
                "goals": len(self._goals),
                "unreached_goals": unreached(self._goals) if self._goals else [],
                "failed": list(self._failed.values()),
            }

    def _begin_anew(self) -> None:
        self._flaw = ""
        """What is wrong with the first line that is none of a seed."""
        self._verdicts: Counter[str] = Counter()
        self._inconclusive = 0
        self._operations = 0
        self._faults: dict[str, Counter[str]] = {}
        self._variations: Counter[str] = Counter()
        self._moves: set[str] = set()
        self._goals: set[str] = set()
        self._failed: dict[int, Mapping[str, Any]] = {}

    def _is_over(self) -> bool:
        """The summary is written last; one that is older is of the campaign before in the same folder."""
        try:
            return (self._folder / SUMMARY_FILE).stat().st_mtime_ns >= (self._folder / SEEDS_FILE).stat().st_mtime_ns
        except FileNotFoundError:
            return False

    def _read(self) -> None:
        while lines := self._tail.more():
            for number, line in lines:
                if number == 1:
                    # Of a campaign that has replaced the one before.
                    self._begin_anew()
                try:
                    self._add(self._parsed(line))
                except UsageError as error:
                    self._flaw = self._flaw or str(error)

    def _parsed(self, line: bytes) -> Mapping[str, Json]:
        try:
            return jsonfields.parse_object(line.decode("utf-8"))
        except (jsonfields.FieldError, UnicodeDecodeError) as error:
            raise UsageError(f"{self._folder / SEEDS_FILE}: {error}") from error

    def _add(self, line: Mapping[str, Json]) -> None:
        seed, verdict, operations = line.get("seed"), line.get("verdict"), line.get("operations")
        if not isinstance(seed, int) or not isinstance(verdict, str) or not isinstance(operations, int):
            raise UsageError(f"{self._folder / SEEDS_FILE}: expected seed, verdict and operations in each line")
        self._verdicts[verdict] += 1
        self._inconclusive += verdict == Verdict.VALID.text and line.get("inconclusive") is True
        self._operations += operations
        for kind, counts in _objects(line.get("fault_counts")):
            fates = {fate: count for fate, count in counts.items() if isinstance(count, int)}
            self._faults.setdefault(kind, Counter()).update(fates)
        self._variations.update(kind for kind, proof in _objects(line.get("seen_variations")) if proof.get("holds"))
        moves = line.get("moves")
        self._moves.update(moves if isinstance(moves, dict) else ())
        goals = line.get("goals")
        self._goals.update(map(str, goals if isinstance(goals, list) else ()))
        if verdict != Verdict.VALID.text and len(self._failed) < _FAILED_SHOWN:
            findings = line.get("findings")
            self._failed[seed] = {
                "seed": seed,
                "verdict": verdict,
                "findings": [str(finding) for finding in findings] if isinstance(findings, list) else [],
                "run": self._name_of(line.get("folder")),
            }

    def _name_of(self, folder: Json) -> str:
        """Of a run folder that was kept and is among the runs; empty for others."""
        if not isinstance(folder, str) or not folder:
            return ""
        path = Path(folder).absolute()
        return storable(str(path.relative_to(self._runs))) if path.is_relative_to(self._runs) and path.is_dir() else ""


def _objects(value: Json) -> list[tuple[str, Mapping[str, Json]]]:
    fields = value.items() if isinstance(value, dict) else ()
    return [(name, inner) for name, inner in fields if isinstance(inner, dict)]
