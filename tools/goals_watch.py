"""Fail when a campaign no longer reaches a goal that campaigns reached.

python tools/goals_watch.py SUMMARY.json compares the summary of `upheaval campaign --out` with docs/goals.json. It ends
with 1 and the names of what is missing. A goal is expected of so many seeds if they would miss it once in a million
campaigns, even if the record reached it by luck more often than others do.
"""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from goals_table import RECORD, Reached
from upheaval.errors import HarnessError

CHANCE_MAX: Final = 1e-6
DEVIATIONS: Final = 3
"""How many standard deviations a recorded count may be above its expected value."""


def expected(record: Reached, seeds: int) -> list[str]:
    """The goals that so many seeds reach, by a record."""
    return [
        name for name, count in record.goals.items() if (1 - _least_share(count, record.seeds)) ** seeds < CHANCE_MAX
    ]


def _least_share(count: int, seeds: int) -> float:
    # The square root of a count of rare events has a standard deviation of about a half.
    least = max(math.sqrt(count) - DEVIATIONS / 2, 0.0) ** 2
    return least / seeds


def missing(record: Reached, campaign: Reached) -> list[str]:
    """The expected goals that a campaign did not reach."""
    return [name for name in expected(record, campaign.seeds) if not campaign.goals.get(name)]


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    if len(arguments) != 1:
        print("usage: python tools/goals_watch.py SUMMARY.json", file=sys.stderr)
        return 2
    try:
        record, campaign = Reached.read(RECORD), Reached.read(Path(arguments[0]))
    except HarnessError as problem:
        print(f"goals_watch: {problem}", file=sys.stderr)
        return problem.exit_status
    lost = missing(record, campaign)
    print(f"{len(expected(record, campaign.seeds))} goals expected of {campaign.seeds} seeds, {len(lost)} not reached")
    for name in lost:
        print(f"  {name}: {record.goals[name]} of {record.seeds} seeds reached it before", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
