"""`python -m upheaval.campaign.digests`: the digests of the committed seeds, computed anew.

Without arguments it prints them as JSON. `--write` replaces the committed file: do that when the node or the simulation
was changed on purpose, and say in the commit why. One execution a seed, to the byte, is what the digests promise.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from upheaval.campaign.seed import SeedRun
from upheaval.campaign.swarm import draw_swarm
from upheaval.execution.run import play
from upheaval.records import owned_folder

SEEDS: Final = range(20)
SECONDS: Final = 24
"""Of load: shorter than in a campaign, long enough for some faults."""
FILE: Final = Path(__file__).parents[3] / "tests" / "simulation" / "digests.json"


def compute(seeds: list[int]) -> dict[str, str]:
    """The digest of each seed without variations. What a campaign draws covers sizes, sync levels and services."""
    digests = {}
    with owned_folder("digests") as folder:
        for seed in seeds:
            run = SeedRun(draw_swarm(seed, SECONDS).plain(), folder / str(seed))
            play(run.swarm.scenario(), run.stage, lambda _: None)
            digests[str(seed)] = run.stage.digest()
    return digests


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
