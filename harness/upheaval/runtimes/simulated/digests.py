"""`python -m upheaval.runtimes.simulated.digests`: the digests of the committed seeds, computed anew.

Without arguments it prints them as JSON. `--write` replaces the committed file: do that when the node or the simulation
was changed on purpose, and say in the commit why. One execution a seed, to the byte, is what the digests promise.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from upheaval.runtimes.simulated.runner import RunSettings, run_seed

SEEDS: Final = range(20)
FILE: Final = Path(__file__).parents[4] / "tests" / "simulation" / "digests.json"


def settings_of(seed: int) -> RunSettings:
    """The runs differ in more than their seed, so that the digests cover sizes and sync levels."""
    return RunSettings(
        members=(3, 3, 3, 5, 1)[seed % 5], sync_level=(1, 0, 2)[seed % 3], faults=3, overlapping=seed % 2 == 1, rate=60
    )


def compute(seeds: list[int]) -> dict[str, str]:
    """The digest of each seed's execution, by the seed as text."""
    return {str(seed): run_seed(seed, settings_of(seed)).digest for seed in seeds}


def main(arguments: list[str] | None = None) -> int:
    """Print the digests, or write them into the committed file."""
    parser = argparse.ArgumentParser(description="Digests of simulated runs.")
    parser.add_argument("seeds", nargs="*", type=int, help="seeds to run (default: the committed ones)")
    parser.add_argument("--write", action="store_true", help=f"replace {FILE.name}")
    parsed = parser.parse_args(arguments)
    digests = compute(parsed.seeds or list(SEEDS))
    text = json.dumps(digests, indent=2) + "\n"
    if parsed.write:
        FILE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
