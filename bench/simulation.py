"""`python -m bench.simulation`: how many simulated seconds one second of processor time gives, and what a seed costs.

Three members in one world, idle and under a load of 20 operations a second. The time is that of this process on its
processor, so that other programs on the machine change it little; the median of some rounds is printed. Of seeds of a
campaign, also how many calls of functions one makes, which no other program changes.
"""

import argparse
import json
import statistics
import sys
import time
from cProfile import Profile
from pstats import Stats
from typing import Final

from upheaval.campaign.seed import try_seed
from upheaval.records import owned_folder
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.world import World
from upheaval.workload import WorkloadSettings
from upheaval_node.types import S

RATE: Final = 20
WARM_UP_NS: Final = 2 * S
GOALS: Final = {"idle": 500.0, "load": 100.0}


def seconds_per_processor_second(seed: int, seconds: int, *, rate: int) -> float:
    """How far a cluster gets in one second of processor time; a rate of 0 is a cluster without clients."""
    cluster = SimulatedCluster(World(seed))
    cluster.start_all()
    cluster.wait_until_leader()
    if rate:
        cluster.start_load(WorkloadSettings(seed=seed, rate=rate, slots=8, keys=4))
    cluster.world.run_for(WARM_UP_NS)
    begin = time.process_time()
    cluster.world.run_for(seconds * S)
    taken = time.process_time() - begin
    cluster.require_no_failure()
    return seconds / taken


def cost_of_seeds(count: int) -> dict[str, float]:
    """The medians over the first seeds: processor seconds as they are, and calls, which are counted in another run."""
    seconds, calls = [], []
    with owned_folder("bench") as scratch:
        for seed in range(1, count + 1):
            seconds.append(try_seed(seed, None, scratch).processor_seconds)
            profile = Profile()
            profile.runcall(try_seed, seed, None, scratch)
            calls.append(Stats(profile).total_calls)  # type: ignore[attr-defined]
    return {"processor_seconds": round(statistics.median(seconds), 2), "calls": statistics.median(calls)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30, help="simulated seconds of each round")
    parser.add_argument("--seeds", type=int, default=6, help="seeds of a campaign, from 1 on")
    parsed = parser.parse_args(arguments)
    figures: dict[str, dict[str, float]] = {}
    for name, rate in (("idle", 0), ("load", RATE)):
        rounds = [seconds_per_processor_second(seed, parsed.seconds, rate=rate) for seed in range(parsed.rounds)]
        figures[name] = {"simulated_seconds": round(statistics.median(rounds), 1), "goal": GOALS[name]}
    if parsed.seeds:
        figures["seed"] = cost_of_seeds(parsed.seeds)
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
