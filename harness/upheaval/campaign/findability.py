"""How many seeds without a failure show that it is gone, and how rare a failure is that they could miss.

A failure with rate r in all seeds is absent from n of them by chance with probability (1 - r) ** n.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.execution.known_bugs import rate_interval
from upheaval.records import OWN_SYSTEM, Json, jsonfields
from upheaval.runtime_names import SIMULATED

CHANCE_MAX: Final = 0.01
"""The probability that a failure of the excluded rate exists and did not show."""


def seeds_needed(rate: float) -> int:
    """How many seeds without a failure exclude a failure with that rate."""
    return 1 if rate >= 1 else max(math.ceil(math.log(CHANCE_MAX) / math.log1p(-rate)), 1)


def rate_excluded(clean: int) -> float:
    """The smallest failure rate that this many seeds without a failure exclude; 1 without any seed."""
    return 1.0 if clean < 1 else -math.expm1(math.log(CHANCE_MAX) / clean)


class Subject(NamedTuple):
    """What a seed is a seed of. The same seed of another subject is another execution."""

    system: str
    service: str
    """The one of all seeds; empty if each draws its own."""
    user: str
    model: str | None
    """None as `search` is in lines of older versions, which do not say it."""
    search: str | None

    @property
    def is_complete(self) -> bool:
        """Whether the line says all of it."""
        return self.search is not None

    def may_be(self, other: "Subject") -> bool:
        """Whether both are one subject, as far as their lines say."""
        return all(one in (another, None) or another is None for one, another in zip(self, other, strict=True))

    def __str__(self) -> str:
        own = (f"{name} {value}" for name, value in self._asdict().items() if name != "system" and value)
        return ", ".join((self.system, *own))


@dataclass(frozen=True, slots=True)
class Seeds:
    """How many seeds of campaigns count, and how many of them showed a failure."""

    counted: int
    failed: int
    remembered: int = field(default=0, compare=False)
    """How many showed it but do not count, because the campaign did not draw them."""
    subjects: frozenset[Subject] = field(default=frozenset(), compare=False)

    @property
    def rate_min(self) -> float:
        """The lower end of the 95 % interval of the share of failed seeds."""
        return rate_interval(self.failed, self.counted)[0] if self.counted else 0.0


class _Line(NamedTuple):
    subject: Subject
    seed: int
    has_failed: bool
    counts: bool
    is_invalid: bool
    is_remembered: bool


def drawn_seeds_with(folder: Path, wanted: Mapping[str, str]) -> Seeds:
    """The seeds that a campaign drew, for the rate of a failure.

    A campaign tries first the seeds that failed in earlier ones, so these would raise the rate. One counts if seeds on
    both sides of it were run: its turn would have come. A seed that broke something else counts without the failure:
    the rate is one of all seeds, of which more pass once everything is fixed. Raises `UsageError`.
    """
    lines = list(_lines(folder, wanted))
    drawn = [line.seed for line in lines if not line.is_remembered]
    first, last = min(drawn, default=0), max(drawn, default=0)
    counted = [line for line in lines if not line.is_remembered or first < line.seed < last]
    remembered = sum(line.has_failed for line in lines) - sum(line.has_failed for line in counted)
    return _seeds((line._replace(counts=line.counts or line.is_invalid) for line in counted), remembered)


def seeds_with(folders: Iterable[Path], wanted: Mapping[str, str]) -> Seeds:
    """The seeds of campaigns, counting as failed those with a finding whose fingerprint has these fields.

    A seed counts once, in however many campaigns it was run. Raises `UsageError`.
    """
    return _seeds([line for folder in folders for line in _lines(folder, wanted)])


def _seeds(lines: Iterable[_Line], remembered: int = 0) -> Seeds:
    lines = list(lines)
    subjects = frozenset(line.subject for line in lines)
    # Where some lines name no model and search, a seed counts once whatever these are: more seeds would show more.
    are_whole = all(subject.is_complete for subject in subjects)
    has_failed: dict[tuple[Subject, int], bool] = {}
    for line in lines:
        if line.counts:
            subject = line.subject if are_whole else line.subject._replace(model=None, search=None)
            key = subject, line.seed
            has_failed[key] = has_failed.get(key, False) or line.has_failed
    return Seeds(len(has_failed), sum(has_failed.values()), remembered, subjects)


def _lines(folder: Path, wanted: Mapping[str, str]) -> Iterator[_Line]:
    file = folder / SEEDS_FILE if folder.is_dir() else folder
    if not file.is_file():
        raise UsageError(f"{folder} is not a campaign: it has no {SEEDS_FILE}")
    for number, line in jsonfields.read_lines(file, torn_end_allowed=True):
        has_failed = any(_has(fields, wanted) for fields in _fingerprints(line, f"{file}:{number}"))
        verdict, seed = line.get("verdict"), jsonfields.integer(line, "seed")
        counts = has_failed or (verdict == Verdict.VALID.text and not line.get("inconclusive"))
        is_invalid, is_remembered = verdict == Verdict.INVALID.text, line.get("remembered") is True
        yield _Line(_subject(line), seed, has_failed, counts, is_invalid, is_remembered)


def _subject(line: Mapping[str, Json]) -> Subject:
    service, is_older = str(line.get("service", "")), "search" not in line
    return Subject(
        str(line.get("system", OWN_SYSTEM)),
        str(line.get("own_service", service if ":" in service else "")),
        str(line.get("user", "")),
        str(line["model"]) if "model" in line else None if is_older else "",
        None if is_older else str(line["search"]),
    )


def _fingerprints(line: Mapping[str, Json], where: str) -> list[Mapping[str, Json]]:
    """The fingerprints of an invalid seed. A line without fingerprints has only the promise of its worst finding."""
    promise, runtime = line.get("promise"), line.get("runtime", SIMULATED)
    fingerprints = line.get("fingerprints")
    if fingerprints is None and isinstance(promise, str):
        fingerprints = [{"verdict": line.get("verdict"), "promise": promise}]
    if not isinstance(fingerprints, list) or type(line.get("seed")) is not int or runtime != SIMULATED:
        raise UsageError(f"{where}: not a line of a simulated campaign")
    return [fields for fields in fingerprints if isinstance(fields, dict)]


def _has(fields: Mapping[str, Json], wanted: Mapping[str, str]) -> bool:
    return all(fields.get(name) == value for name, value in wanted.items())
