"""What a checker says: one of four verdicts for each promise, and the worst of them for the run.

This module knows nothing of how a promise is checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from upheaval.checkers.promises import Promise


class Verdict(IntEnum):
    """Ordered by how bad it is. UNKNOWN: too little to judge by; TIMEOUT: the run did not end in time."""

    VALID = 0
    TIMEOUT = 1
    UNKNOWN = 2
    INVALID = 3

    @property
    def text(self) -> str:
        return self.name.lower()

    @property
    def exit_status(self) -> int:
        """What a command that ends with this verdict returns to the shell."""
        return _EXIT_STATUS[self]


_EXIT_STATUS = {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 3, Verdict.TIMEOUT: 3}


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one promise, and in one line what it rests on or which operation and position broke it."""

    promise: Promise
    verdict: Verdict
    detail: str
    late_ms: int = 0
    """By how many milliseconds a bound on time was missed; 0 for what no time is promised for."""

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it: the promise by its id, and everything in words, too."""
        return {
            "promise": self.promise,
            "sentence": self.promise.sentence,
            "verdict": self.verdict.text,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The findings on one run."""

    run: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst finding; a run about which nothing was found out is unknown."""
        return worst([finding.verdict for finding in self.findings])

    def to_fields(self) -> dict[str, Any]:
        """What every command that judges prints as JSON."""
        promises = [finding.to_fields() for finding in self.findings]
        return {"run": self.run, "verdict": self.verdict.text, "promises": promises}

    def finding(self, promise: Promise) -> Finding:
        """The finding on a promise. Raises `KeyError` when it was not checked."""
        for finding in self.findings:
            if finding.promise is promise:
                return finding
        raise KeyError(promise)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Composition of verdicts: the worst wins, and none at all is unknown."""
    return max(verdicts, default=Verdict.UNKNOWN)
