"""What a checker is: the promises that it answers, the evidence that it needs, and a function from evidence to results.

A row of `upheaval.checkers.table`. This module knows no promise.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import NotApplicable, Result


class Source(StrEnum):
    """A part of the run folder, by the name of its files; the manifest is there for every checker."""

    HISTORY = "history.jsonl"
    SESSIONS = "sessions.jsonl"
    STRAYS = "strays.jsonl"
    ATTEMPTS = "attempts.jsonl"
    FAULTS = "faults.jsonl"
    CONTROLS = "controls.jsonl"
    CONSENSUS = "consensus.jsonl"
    TRACES = "trace.jsonl"
    PROTOCOL = "protocol.jsonl"
    OUTPUT = "*.log"
    ARCHIVES = "archive"
    CLUSTER = "cluster"
    COMPANIONS = "companions"
    SECURITY = "security.json"
    SEAL = "seal.json"
    CODE = "code of the service and its model"


Check = Callable[[Evidence], Iterable[Result]]


@dataclass(frozen=True, slots=True)
class Checker:
    """A row of the table. `check` answers each of `promises` exactly once, with a finding or with why it has none.

    It may answer promises of the user's own besides. What it raises makes its promises unknown. A `UsageError` means
    that the folder is malformed, and ends the judgement.
    """

    name: str
    promises: tuple[Promise, ...]
    needs: frozenset[Source]
    check: Check


def of_whole_log(promises: tuple[Promise, ...], check: Callable[[Evidence, WitnessLog], Iterable[Result]]) -> Check:
    """A check that has nothing to judge by without a log from its beginning."""

    def checked(evidence: Evidence) -> Iterable[Result]:
        log = evidence.whole_log
        if log is None:
            return [NotApplicable(promise, evidence.why_no_log) for promise in promises]
        return check(evidence, log)

    return checked
