"""Simplifies a seed that failed: its cluster, its load and its faults, with the timing of that seed."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Final

from upheaval.campaign.edits import edited
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.pool import some_at_a_time
from upheaval.campaign.seed import SeedOrigin, SeedOutcome, try_origin
from upheaval.campaign.shrink import Budget, Shrinking
from upheaval.campaign.swarm_tape import read_swarm, tape_of
from upheaval.campaign.tape import Fields, Span
from upheaval.campaign.tries import Try, TryLog, code_fields, search_fields
from upheaval.records import Json, owned_folder

SECONDS_AFTER: Final = 2
"""The seconds of load after the moment at which a promise broke."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """The simplest plan that fails the same way, and the other results of the search."""

    origin: SeedOrigin
    tape: Span
    wanted: Fingerprint
    shown: Try
    runs: int
    is_over: bool
    """Whether the budget ended the search."""
    others: dict[Fingerprint, Fields]
    """Other failures, with the tape of each."""

    @property
    def faults(self) -> int:
        """The number of remaining faults."""
        return sum(span.name == "fault" for span in self.tape.spans)


def shrink_seed(
    origin: SeedOrigin,
    failed: Try,
    tries: Path,
    budget: Budget,
    jobs: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Smallest:
    """The simplest plan with the first fingerprint of `failed`, which is the outcome of the origin."""
    wanted, tape = failed.fingerprints[0], tape_of(origin.swarm())
    code: dict[str, Json] = {**code_fields(origin.own), "compatibility": origin.compatibility}
    log = TryLog(tries, search_fields(origin.seed, origin.planted, wanted, tape, code))
    with owned_folder("campaign") as scratch, some_at_a_time(partial(try_tape, origin, scratch=scratch), jobs) as run:
        searched = Shrinking(
            tape, wanted, failed, lambda fields: read_swarm(fields, origin.seed)[1], run, log, budget, jobs, say=say
        )
        searched.bold = lambda root: _shorter(root, searched.shown)
        searched.shrink()
    return Smallest(
        replace(origin, tape=searched.best.to_fields(), digest=""),
        searched.best,
        wanted,
        searched.shown,
        log.runs,
        searched.is_over,
        log.others(wanted),
    )


def try_tape(origin: SeedOrigin, tape: Fields, scratch: Path) -> Try:
    """Run and judge a tape in `scratch`, and leave nothing there."""
    return try_of(try_origin(replace(origin, tape=tape), scratch / str(os.getpid()), None))


def try_of(outcome: SeedOutcome) -> Try:
    """The part of an outcome that is compared with other outcomes."""
    return Try(tuple(outcome.fingerprints), round(outcome.seconds * 1000), outcome.operations)


def _shorter(root: Span, shown: Try) -> Iterator[Fields]:
    """Shorten the load: to soon after the moment of the broken promise, if that ended the run; else by halves."""
    for choice in root.choices:
        if choice.label == "seconds" and isinstance(choice.value, int):
            broken = ceil(shown.run_ms / 1000) + SECONDS_AFTER
            for seconds in (broken, *choice.alternatives.simpler(choice.value)):
                yield edited(root, values={(0, choice.label): seconds})
