"""How long containers take: from nothing to a leader that serves, and to nothing again; with and without Toxiproxy.

`python bench/containers.py [--rounds N] [--members N]` prints JSON, medians in seconds. The two ways alternate, so that
what else the machine does hits both. Needs the images of `upheaval images build node toxiproxy`; leaves nothing.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from upheaval.execution.links import open_links
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.system import ClusterSpec
from upheaval_chaos.target import Means

GOAL_S = 5.0


def one_round(folder: Path, members: int, *, proxied: bool) -> tuple[float, float]:
    """Seconds to start and to end one cluster."""
    begin = time.monotonic()
    with ExitStack() as stack:
        cluster = DockerCluster.create(folder, ClusterSpec(members=members))
        stack.callback(cluster.down)
        if proxied:
            open_links(cluster, 1, Means.PROXY)
        cluster.up()
        served = time.monotonic()
    return served - begin, time.monotonic() - served


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=3)
    options = parser.parse_args()
    ways = {"members": False, "members_and_toxiproxy": True}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="upheaval-bench-") as place:
        for number in range(options.rounds):
            for name, proxied in ways.items():
                times[name].append(one_round(Path(place) / f"{name}-{number}", options.members, proxied=proxied))
                print(f"{name}: {times[name][-1][0]:.2f} s, {times[name][-1][1]:.2f} s", file=sys.stderr)
    result = {
        name: {
            "to_serving_leader_s": round(statistics.median(start for start, _ in found), 2),
            "tear_down_s": round(statistics.median(end for _, end in found), 2),
        }
        for name, found in times.items()
    }
    print(json.dumps({"members": options.members, "rounds": options.rounds, "goal_s": GOAL_S, **result}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
