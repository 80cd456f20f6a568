"""Lines of a campaign's result: of each kind of fault how many had which fate, and promises that were not judged."""

from collections import Counter
from typing import Final

from upheaval.campaign.seed_lines import Fate, FaultCounts

GAPS_SHOWN: Final = 5


def fault_rows(faults: FaultCounts) -> list[str]:
    """Lines of text: a head, a line for each kind, and the sums."""
    rows = [*sorted(faults.items()), ("all", sum(faults.values(), Counter[Fate]()))]
    widest = max(len(kind) for kind, _ in rows)
    head = f"  {'':<{widest}}" + "".join(f"{fate:>9}" for fate in Fate)
    return [head, *(f"  {kind:<{widest}}" + "".join(f"{counts[fate]:>9}" for fate in Fate) for kind, counts in rows)]


def gap_rows(gaps: Counter[str], seeds: int) -> list[str]:
    """A line for each promise that could not be judged in some seeds, the most frequent first."""
    lines = [f"{gap} (in {count} of {seeds} seeds)" for gap, count in gaps.most_common(GAPS_SHOWN)]
    more = len(gaps) - len(lines)
    return [*lines, *([f"not checked: {more} others (--json)"] if more else [])]
