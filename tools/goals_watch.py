"""Fail when a campaign no longer reaches a goal that campaigns reached.

python tools/goals_watch.py SUMMARY.json compares the summary of `upheaval campaign --out` with docs/goals.json. It ends
with 1 and the names of what is missing. A goal is expected of so many seeds if a campaign that reached it half as often
as the recorded one would miss it in one of a million.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from goals_table import RECORD, Reached

CHANCE_MAX: Final = 1e-6


def expected(record: Reached, seeds: int) -> list[str]:
    """The goals that so many seeds reach, by a record."""
    shares = {name: count / record.seeds for name, count in record.goals.items()}
    return [name for name, share in shares.items() if (1 - share / 2) ** seeds < CHANCE_MAX]


def missing(record: Reached, campaign: Reached) -> list[str]:
    """The expected goals that a campaign did not reach."""
    return [name for name in expected(record, campaign.seeds) if not campaign.goals.get(name)]


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    if len(arguments) != 1:
        print("usage: python tools/goals_watch.py SUMMARY.json", file=sys.stderr)
        return 2
    record, campaign = Reached.read(RECORD), Reached.read(Path(arguments[0]))
    lost = missing(record, campaign)
    print(f"{len(expected(record, campaign.seeds))} goals expected of {campaign.seeds} seeds, {len(lost)} not reached")
    for name in lost:
        print(f"  {name}: {record.goals[name]} of {record.seeds} seeds reached it before", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
