"""Makes a plan that failed simpler as long as it fails alike: an edit of its tape that does is the next one to edit.

Alike is by fingerprint. A failure with another one is a finding of its own and is never taken for the first one. What
was tried is kept in a file, by the tape: a search that was ended goes on where it was, since it takes the same way.
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
"""What a plan reads of a tape."""
Run = Callable[[Sequence[Fields]], Iterator[Try]]
"""Runs plans, some at a time; what they showed in the same order."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When a search ends: after so many runs, those of an earlier start included, or so many seconds of this one."""

    runs: int = RUNS_MAX
    seconds: float = float("inf")


@dataclass(slots=True)
class Shrinking:
    """A search from one tape that fails. `best` is the simplest that fails alike so far."""

    best: Span
    wanted: Fingerprint
    shown: Try
    """By the best one."""
    read: Read
    run: Run
    log: TryLog
    budget: Budget = field(default_factory=Budget)
    jobs: int = 1
    bold: Pass | None = None
    """What is tried before all else, after each success."""
    say: Callable[[str], None] = lambda _: None
    is_over: bool = False
    """Whether the budget ended it; else no edit is left."""
    _begin: float = field(default_factory=time.monotonic)

    def shrink(self) -> Span:
        """Until no edit is left that fails alike, or the budget is spent."""
        passes = PASSES if self.bold is None else (self.bold, *PASSES)
        is_simpler = True
        while is_simpler and not self.is_over:
            is_simpler = False
            for edits in passes:
                while self._improve(edits):
                    is_simpler = True
        return self.best

    def _improve(self, edits: Pass) -> bool:
        """Whether one of the edits fails alike; it is the best one then."""
        simpler = self._simpler(edits(self.best))
        while not self.is_over and (batch := list(islice(simpler, self.jobs))):
            for span, tried in zip(batch, self._try(batch), strict=False):
                if self.wanted in tried.fingerprints:
                    self.best, self.shown = span, tried
                    spans, changed, _ = span.complexity
                    self.say(f"{len(self.log)} runs: {spans - 1} spans and {changed} choices fail alike")
                    return True
        return False

    def _simpler(self, tapes: Iterable[Fields]) -> Iterator[Span]:
        """What is read of them, as far as it is simpler than the best and not known to fail otherwise."""
        limit = self.best.complexity
        for tape in tapes:
            span = self.read(tape)
            known = self.log.get(span.to_fields())
            if span.complexity < limit and (known is None or self.wanted in known.fingerprints):
                yield span

    def _try(self, batch: list[Span]) -> Iterator[Try]:
        """Ends early where the budget does."""
        tapes = [span.to_fields() for span in batch]
        unknown: list[Fields] = []
        for tape in tapes:
            if self.log.get(tape) is None and tape not in unknown:
                unknown.append(tape)
        left = self.budget.runs - len(self.log)
        self.is_over = len(unknown) > left or time.monotonic() - self._begin > self.budget.seconds
        if self.is_over:
            return
        for missing, tried in zip(unknown, self.run(unknown), strict=True):
            self.log.add(missing, tried)
        for tape in tapes:
            known = self.log.get(tape)
            assert known is not None
            yield known
