"""What a checker is: the promises that it judges, the evidence that it needs, and a function from evidence to results.

Each checker is a row of `upheaval.checkers.table`. This module knows no promise.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import NotApplicable, Result


class Source(StrEnum):
    """A part of the run folder; `FILES` lists its files. The manifest is not a source: every checker may read it."""

    HISTORY = "history"
    SESSIONS = "sessions"
    STRAYS = "stray answers"
    ATTEMPTS = "attempts"
    STALLS = "stalls of clients"
    FAULTS = "faults"
    CONTROLS = "controls"
    CONSENSUS = "messages that forwarders saw"
    TRACES = "traces"
    PROTOCOL = "protocol traces"
    OUTPUT = "output of processes"
    ARCHIVES = "archives"
    CLUSTER = "cluster folders"
    CONFIGURATIONS = "configurations"
    COMPANIONS = "companions"
    SCENARIO = "scenario"
    ORIGIN = "origin"
    SECURITY = "security"
    SEAL = "seal"
    CODE = "code of the service and its model"
    """Has no file in the run folder."""


_OF_COMPANIONS: Final = ("backup-*", "standby-*")

FILES: Final[Mapping[Source, tuple[str, ...]]] = {
    Source.HISTORY: ("history.jsonl",),
    Source.SESSIONS: ("sessions.jsonl",),
    Source.STRAYS: ("strays.jsonl",),
    Source.ATTEMPTS: ("attempts.jsonl",),
    Source.STALLS: ("client-stalls.jsonl",),
    Source.FAULTS: ("faults.jsonl",),
    Source.CONTROLS: ("controls.jsonl",),
    Source.CONSENSUS: ("consensus.jsonl",),
    Source.TRACES: ("member-*/trace.jsonl",),
    Source.PROTOCOL: ("member-*/protocol*.jsonl",),
    Source.OUTPUT: ("member-*/*.log", *(f"{name}/*.log" for name in _OF_COMPANIONS)),
    Source.ARCHIVES: ("member-*/archive/*",),
    Source.CLUSTER: ("member-*/cluster/*",),
    Source.CONFIGURATIONS: ("cluster.json", *(f"{name}/config.json" for name in ("member-*", *_OF_COMPANIONS))),
    Source.COMPANIONS: (
        "companions.json",
        *(f"{name}/{files}" for name in _OF_COMPANIONS for files in ("trace.jsonl", "archive/*", "cluster/*")),
    ),
    Source.SCENARIO: ("run.scenario",),
    Source.ORIGIN: ("origin.json",),
    Source.SECURITY: ("security.json",),
    Source.SEAL: ("seal.json",),
    Source.CODE: (),
}
"""The files of each source, as path patterns relative to the run folder."""
OF_LOG: Final = frozenset({Source.TRACES, Source.FAULTS, Source.ARCHIVES, Source.CLUSTER})
"""What shows the log: its recordings, how far it was committed, and whose files a fault changed."""


def sources_of(name: str) -> list[Source]:
    """The sources that a file is of, by its path in the run folder."""
    parts = PurePosixPath(name).parts
    return [source for source, patterns in FILES.items() if any(_matches(parts, pattern) for pattern in patterns)]


def _matches(parts: Sequence[str], pattern: str) -> bool:
    """Whether the parts of a path match those of a pattern one by one: a star stops at a slash."""
    expected = PurePosixPath(pattern).parts
    return len(parts) == len(expected) and all(map(fnmatchcase, parts, expected))


Check = Callable[[Evidence], Iterable[Result]]


@dataclass(frozen=True, slots=True)
class Checker:
    """A row of the table. `check` answers each of `promises` exactly once: with a finding, or with why there is none.

    It may also answer the user's own promises. An exception in `check` makes its promises unknown, except a
    `UsageError`, which means that the folder is malformed and ends the judgement. `needs` names a source for every file
    that `check` opens. If the manifest lists a file of these sources and the file is missing, `check` is not called.
    """

    name: str
    promises: tuple[Promise, ...]
    needs: frozenset[Source]
    check: Check


def of_whole_log(promises: tuple[Promise, ...], check: Callable[[Evidence, WitnessLog], Iterable[Result]]) -> Check:
    """Wrap a check that needs a log from its beginning. Without such a log its promises are not applicable."""

    def checked(evidence: Evidence) -> Iterable[Result]:
        log = evidence.whole_log
        if log is None:
            return [NotApplicable(promise, evidence.why_no_log) for promise in promises]
        return check(evidence, log)

    return checked


def by_log(
    name: str,
    promises: tuple[Promise, ...],
    check: Callable[[Evidence, WitnessLog], Iterable[Result]],
    more: Set[Source] = frozenset(),
) -> Checker:
    """A checker whose `check` needs a log from its beginning, and `more` sources than those of the log."""
    return Checker(name, promises, OF_LOG | more, of_whole_log(promises, check))
