"""Makes a seed that failed smaller as long as it fails alike: less time, fewer faults, no snapshots, no restart.

What is left out changes what is drawn later, so the smallest one that is found is not the smallest one there is.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Final

from upheaval.campaign.seed import SeedOrigin, SeedOutcome, try_origin
from upheaval.campaign.swarm import Cut
from upheaval_node.types import S

TRIES_MAX: Final = 40
SECONDS_AFTER: Final = 8
"""Of load after the last fault, as every seed has."""


def shrink(
    origin: SeedOrigin, failed: SeedOutcome, scratch: Path, say: Callable[[str], None] = lambda _: None
) -> SeedOrigin:
    """The smallest one that was found to break the same promise."""
    smallest = replace(origin, cut=origin.cut or origin.swarm().whole)
    tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for cut in _smaller(smallest, failed):
            if tries >= TRIES_MAX:
                return smallest
            tries += 1
            wanted = replace(smallest, cut=cut)
            outcome = try_origin(wanted, scratch, None)
            if (outcome.verdict, outcome.promise) == (failed.verdict, failed.promise):
                smallest, failed, is_smaller = wanted, outcome, True
                say(f"{len(cut.faults)} faults, {cut.seconds} s of load fail alike ({tries} of {TRIES_MAX} tries)")
                break
    return smallest


def _smaller(origin: SeedOrigin, failed: SeedOutcome) -> Iterator[Cut]:
    """What may be left out next: most at once first."""
    cut = origin.cut
    assert cut is not None
    whole = replace(origin, cut=None).swarm()
    planned = [whole.faults[number] for number in cut.faults]
    last_ns = max((fault.start_ns + fault.duration_ns for fault in planned), default=0)
    # What broke at once broke by then; else the time after the last fault has to do.
    seconds = min(ceil(last_ns / S) + SECONDS_AFTER, ceil(failed.seconds) + 2)
    if seconds < cut.seconds:
        has_ending = cut.has_ending and whole.ending_ns < (seconds - SECONDS_AFTER) * S
        within = tuple(number for number in cut.faults if whole.faults[number].start_ns < seconds * S)
        yield replace(cut, seconds=seconds, has_ending=has_ending, faults=within)
    if cut.has_ending:
        yield replace(cut, has_ending=False)
    if cut.has_snapshots:
        yield replace(cut, has_snapshots=False)
    size = len(cut.faults)
    while size:
        for begin in range(0, len(cut.faults), size):
            yield replace(cut, faults=cut.faults[:begin] + cut.faults[begin + size :])
        size //= 2
