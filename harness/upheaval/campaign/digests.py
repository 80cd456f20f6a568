"""`python -m upheaval.campaign.digests`: the digests of the committed seeds, computed anew.

Without arguments it prints them as JSON. `--write` replaces the committed file: do that when the node or the simulation
was changed on purpose, and say in the commit why. One execution a seed, to the byte, is what the digests promise.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.campaign.seed import SeedRun
from upheaval.campaign.swarm import draw_swarm
from upheaval.execution.run import play
from upheaval.records import owned_folder
from upheaval_chaos.options import option, parse

SEEDS: Final = range(20)
SECONDS: Final = 24
"""The duration of the load: shorter than in a campaign, long enough for some faults."""
FILE: Final = Path(__file__).parents[3] / "tests" / "simulation" / "digests.json"


def compute(seeds: Sequence[int]) -> dict[str, str]:
    """The digest of each seed without variations. Campaigns draw sizes, sync levels and services, so these
    cover them.
    """
    digests = {}
    with owned_folder("digests") as folder:
        for seed in seeds:
            run = SeedRun(draw_swarm(seed, SECONDS).plain(), folder / str(seed))
            play(run.swarm.scenario(), run.stage, lambda _: None)
            digests[str(seed)] = run.stage.digest()
    return digests


@dataclass(frozen=True)
class _Options:
    seeds: tuple[int, ...] = option(nargs="*", help="seeds to run (default: the committed ones)")
    write: bool = option("--write", help=f"replace {FILE.name}")


def main(arguments: list[str] | None = None) -> int:
    """Print the digests, or write them to the committed file."""
    options = parse(argparse.ArgumentParser(description="Digests of simulated runs."), _Options, arguments)
    digests = compute(options.seeds or SEEDS)
    text = json.dumps(digests, indent=2) + "\n"
    if options.write:
        FILE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
