"""How likely a run still breaks a promise when, from some moment on, its timing changes.

A timing is another epoch of a run's draws (`World.rekey`). Plan, load and everything before that moment stay the same.
Timings are a sample: if all of them break the promise, few or no later draws avoid that.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.pool import some_at_a_time
from upheaval.campaign.seed import SeedOrigin, try_origin
from upheaval.campaign.shrink_seed import try_of
from upheaval.campaign.text_tries import TextOrigin, try_text
from upheaval.campaign.tries import Try
from upheaval.records import Json, owned_folder
from upheaval.runtimes.simulated.world import START_NS, FreshTiming
from upheaval_node.types import S

POINTS: Final = 16
TIMINGS: Final = 32
"""The number of timings per moment."""


@dataclass(frozen=True, slots=True)
class PlayedText:
    """A run of a scenario: its text and its options."""

    origin: TextOrigin
    text: str


Played = SeedOrigin | PlayedText
"""A run that can be repeated as the same execution."""


def play_again(played: Played, scratch: Path, fresh: FreshTiming | None = None) -> Try:
    """Repeat the run, with other draws from a moment on or with its own."""
    if isinstance(played, SeedOrigin):
        return try_of(try_origin(played, scratch / str(os.getpid()), None, fresh))
    return try_text(played.origin, played.text, scratch, fresh)


@dataclass(frozen=True, slots=True)
class Point:
    """How many of the timings that begin at a moment break the promise. The moment counts from the run's start."""

    since_ns: int
    timings: int
    broken: int

    @property
    def share(self) -> float:
        """The share of timings that break the promise."""
        return self.broken / self.timings

    @property
    def is_unavoided(self) -> bool:
        """Whether all timings that were tried break the promise."""
        return self.broken == self.timings

    def to_fields(self) -> dict[str, Json]:
        """The JSON fields."""
        return {"seconds": round(self.since_ns / S, 6), "timings": self.timings, "broken": self.broken}


def moments(until_ns: int, count: int) -> list[int]:
    """`count` moments, evenly spaced from the start of a run to `until_ns`, both included, in the time of its world."""
    return [START_NS + (until_ns - START_NS) * number // max(count - 1, 1) for number in range(count)]


def likelihood(
    played: Played,
    wanted: Fingerprint,
    since_ns: Sequence[int],
    timings: int = TIMINGS,
    jobs: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Point]:
    """One point per moment, in order, as soon as its timings have run. `progress` gets the number of finished runs."""
    fresh = [FreshTiming(moment_ns, epoch) for moment_ns in since_ns for epoch in range(1, timings + 1)]
    with owned_folder("campaign") as scratch, some_at_a_time(partial(play_again, played, scratch), jobs) as run:
        tries = enumerate(run(fresh), start=1)
        for moment_ns in since_ns:
            broken = 0
            for done, tried in islice(tries, timings):
                broken += breaks(tried, wanted)
                progress(done)
            yield Point(moment_ns - START_NS, timings, broken)


def breaks(tried: Try, wanted: Fingerprint) -> bool:
    """Whether the run breaks the same promise, in any way."""
    return any(shown.is_broken and shown.promise == wanted.promise for shown in tried.fingerprints)


def inevitable(points: Sequence[Point]) -> tuple[int | None, int] | None:
    """The last moment from which some tried timing avoids the failure (None without one), and the moment after it. None
    if the last moment has such a timing.
    """
    avoidable = [number for number, point in enumerate(points) if not point.is_unavoided]
    last = avoidable[-1] if avoidable else -1
    if last + 1 == len(points):
        return None
    return (points[last].since_ns if avoidable else None), points[last + 1].since_ns
