"""Simplifies a plan that failed, as long as it fails the same way: an edit of its tape that does is edited next.

Two failures are the same if they have the same fingerprint. A failure with another fingerprint is a finding of its own
and never replaces the first one. A file has all tries, by tape. An interrupted search continues where it was, since it
takes the same path.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from upheaval.campaign.edits import PASSES, Pass
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.tape import Fields, Span
from upheaval.campaign.tries import Try, TryLog

RUNS_MAX: Final = 300

Read = Callable[[Fields], Span]
"""The part of a tape that a plan reads."""
Run = Callable[[Sequence[Fields]], Iterator[Try]]
"""Runs plans, several at a time. Yields their results in the same order."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a search ends: after that many runs, including those before an interruption, or after that many seconds of
    this one.
    """

    runs: int = RUNS_MAX
    seconds: float = float("inf")


@dataclass(slots=True)
class Shrinking:
    """A search that begins at one failing tape. `best` is the simplest one so far that fails the same way."""

    best: Span
    wanted: Fingerprint
    shown: Try
    """The result of the best tape."""
    read: Read
    run: Run
    log: TryLog
    budget: Budget = field(default_factory=Budget)
    jobs: int = 1
    bold: Pass | None = None
    """The pass to try first, and again after each success."""
    say: Callable[[str], None] = lambda _: None
    is_over: bool = False
    """Whether the budget ended the search; otherwise no edit is left."""
    _begin: float = field(default_factory=time.monotonic)
    _runs_before: int = field(init=False)
    """The runs of the log before this search, such as those before an interruption."""

    def __post_init__(self) -> None:
        self._runs_before = self.log.runs

    def shrink(self) -> Span:
        """Search until no edit fails the same way, or the budget is spent."""
        passes = PASSES if self.bold is None else (self.bold, *PASSES)
        is_simpler = True
        while is_simpler and not self.is_over:
            is_simpler = False
            for edits in passes:
                while self._improve(edits):
                    is_simpler = True
        return self.best

    def _improve(self, edits: Pass) -> bool:
        """Try the edits until one fails the same way, and make that the best tape. Returns whether one did."""
        simpler = self._simpler(edits(self.best))
        while not self.is_over and (batch := list(islice(simpler, self.jobs))):
            for span, tried in zip(batch, self._try(batch), strict=False):
                if self.wanted in tried.fingerprints:
                    self.best, self.shown = span, tried
                    self._report()
                    return True
        return False

    def _report(self) -> None:
        spans, changed, _ = self.best.complexity
        runs, runs_max = self.log.runs, self.budget.runs
        seconds = time.monotonic() - self._begin
        seconds_left = min(
            self.budget.seconds - seconds, seconds / max(runs - self._runs_before, 1) * (runs_max - runs)
        )
        self.say(
            f"{runs} of at most {runs_max} runs: {spans - 1} spans and {changed} choices fail alike; "
            f"up to {max(seconds_left, 0):.0f} s more"
        )

    def _simpler(self, tapes: Iterable[Fields]) -> Iterator[Span]:
        """The spans read from these tapes that are simpler than the best, except those known not to fail the
        same way.
        """
        limit = self.best.complexity
        for tape in tapes:
            span = self.read(tape)
            known = self.log.get(span.to_fields())
            if span.complexity < limit and (known is None or self.wanted in known.fingerprints):
                yield span

    def _try(self, batch: list[Span]) -> Iterator[Try]:
        """Run a batch. Ends early when the budget is spent."""
        tapes = [span.to_fields() for span in batch]
        unknown: list[Fields] = []
        for tape in tapes:
            if self.log.get(tape) is None and tape not in unknown:
                unknown.append(tape)
        left = self.budget.runs - self.log.runs
        self.is_over = len(unknown) > left or time.monotonic() - self._begin > self.budget.seconds
        if self.is_over:
            return
        for missing, tried in zip(unknown, self.run(unknown), strict=True):
            self.log.add(missing, tried)
        for tape in tapes:
            known = self.log.get(tape)
            assert known is not None
            yield known
