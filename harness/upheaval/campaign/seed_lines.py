"""The files with the lines of a campaign and with one of its seeds, and what lines have of faults. Knows nothing of how
seeds run.
"""

from collections import Counter
from enum import StrEnum
from typing import Final

from upheaval.records.jsonfields import Json

SEEDS_FILE: Final = "seeds.jsonl"
"""The file with one line per seed of a campaign."""
SEED_FILE: Final = "seed.json"


class Fate(StrEnum):
    """The fate of a planned fault. Each fault counts as planned, and as one of the others."""

    PLANNED = "planned"
    PROVED = "proved"
    """It took effect and was healed, with evidence for both."""
    UNSEEN = "unseen"
    """It began, but was not proved."""
    LEFT_OUT = "left_out"
    """It could not begin, or the run ended before."""


FaultCounts = dict[str, Counter[Fate]]
"""How many faults of each kind had each fate."""


def fields_of(faults: FaultCounts) -> dict[str, Json]:
    """The JSON fields: for each kind all fates, even those with no fault."""
    return {kind: {fate.value: faults[kind][fate] for fate in Fate} for kind in sorted(faults)}
