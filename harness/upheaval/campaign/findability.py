"""How many seeds without a failure show that it is gone, and how rare a failure is that they could miss.

A failure with rate r in all seeds is absent from n of them by chance with probability (1 - r) ** n.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.records import Json, jsonfields

SEEDS_FILE: Final = "seeds.jsonl"
"""The file with one line per seed of a campaign."""
CHANCE_MAX: Final = 0.01
"""The probability that a failure of the excluded rate exists and did not show."""


def seeds_needed(rate: float) -> int:
    """How many seeds without a failure exclude a failure with that rate."""
    return 1 if rate >= 1 else max(math.ceil(math.log(CHANCE_MAX) / math.log1p(-rate)), 1)


def rate_excluded(clean: int) -> float:
    """The smallest failure rate that this many seeds without a failure exclude; 1 without any seed."""
    return 1.0 if clean < 1 else -math.expm1(math.log(CHANCE_MAX) / clean)


@dataclass(frozen=True, slots=True)
class Seeds:
    """How many seeds of campaigns count, and how many of them showed a failure."""

    counted: int
    failed: int

    @property
    def rate(self) -> float:
        """The share of failed seeds."""
        return self.failed / self.counted if self.counted else 0.0


def seeds_with(folders: Iterable[Path], wanted: Mapping[str, str]) -> Seeds:
    """The seeds of campaigns, counting as failed those with a finding whose fingerprint has these fields. Raises
    `UsageError`.
    """
    counted = failed = 0
    for folder in folders:
        file = folder / SEEDS_FILE if folder.is_dir() else folder
        if not file.is_file():
            raise UsageError(f"{folder} is no campaign: it has no {SEEDS_FILE}")
        for number, line in jsonfields.read_lines(file, torn_end_allowed=True):
            has_failed = any(_has(fields, wanted) for fields in _fingerprints(line, f"{file}:{number}"))
            is_valid = line.get("verdict") == Verdict.VALID.text and not line.get("inconclusive")
            counted += has_failed or is_valid
            failed += has_failed
    return Seeds(counted, failed)


def _fingerprints(line: Mapping[str, Json], where: str) -> list[Mapping[str, Json]]:
    """The fingerprints of an invalid seed. A line without fingerprints has only the promise of its worst finding."""
    fingerprints = line.get("fingerprints", [{"verdict": line.get("verdict"), "promise": line.get("promise", "")}])
    if not isinstance(fingerprints, list) or not isinstance(line.get("seed"), int):
        raise UsageError(f"{where}: no line of a simulated campaign")
    return [fields for fields in fingerprints if isinstance(fields, dict)]


def _has(fields: Mapping[str, Json], wanted: Mapping[str, str]) -> bool:
    return all(fields.get(name) == value for name, value in wanted.items())
