"""The faults of a campaign as a table: of each kind how many had which fate."""

from collections import Counter

from upheaval.campaign.seed_lines import Fate, FaultCounts


def fault_rows(faults: FaultCounts) -> list[str]:
    """Lines of text: a head, a line for each kind, and the sums."""
    rows = [*sorted(faults.items()), ("all", sum(faults.values(), Counter[Fate]()))]
    widest = max(len(kind) for kind, _ in rows)
    head = f"  {'':<{widest}}" + "".join(f"{fate:>9}" for fate in Fate)
    return [head, *(f"  {kind:<{widest}}" + "".join(f"{counts[fate]:>9}" for fate in Fate) for kind, counts in rows)]
