"""`python -m bench.forms`: what compiled modules bring, in alternating rounds of one run, and whether they do the same.

Each round is a process of its own, one with the compiled modules (`make compiled`) and one with the sources in turn:
seeds of a campaign, simulated seconds in one second of processor time, and messages through a cluster of processes by
the processor time of members and client, which a busy machine changes little. Of seeds also the digest of the execution
and every field but the times are compared; one that differs is the exit status 1.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import psutil

from bench.own import WARM_UP_NS, LoadClient, cpu_seconds, running_cluster
from bench.simulation import RATE, seconds_per_processor_second
from upheaval.campaign.seed import SeedOrigin, SeedRun
from upheaval.campaign.seeds import parse_seeds
from upheaval.records import owned_folder
from upheaval_node.compiled import VARIABLE, form
from upheaval_node.types import NEVER_NS, S

FORMS: Final = {"pure": "1", "compiled": "0"}
KINDS: Final = ("seeds", "simulation", "node")
SIMULATED_SECONDS: Final = 30
TIMES: Final = "processor_seconds"
REQUIRED: Final = {"seeds": 2.5, "idle": 340 / 68, "load": 100 / 35, "window": 1.5}
"""Of compiled to pure. Simulated seconds by what the sources gave on two quiet cores."""


def measure_seeds(first: int, last: int) -> list[dict[str, Any]]:
    """Fields and digest of each seed; what the processor did for it is among the fields."""
    found = []
    with owned_folder("forms") as scratch:
        for seed in range(first, last + 1):
            run = SeedRun(SeedOrigin(seed, None).swarm(), scratch / str(seed))
            outcome = run.run()
            found.append({**outcome.to_fields(), "digest": run.stage.digest()})
    return found


def measure_simulation(rate: int, seconds: int) -> dict[str, float]:
    """Simulated seconds in one second of processor time."""
    return {"simulated_seconds": seconds_per_processor_second(1, seconds, rate=rate)}


def measure_node(window: int, sync_level: int, seconds: int) -> dict[str, float]:
    """Messages a second, and the processor's microseconds for one of them on members and client together."""
    with running_cluster(profile="aeron", sync_level=sync_level) as cluster:
        client = LoadClient(cluster, window)
        members = [psutil.Process(f.pid) for member in cluster.members for f in member.node.processes()]
        load = client.load
        load.end_ns = NEVER_NS
        client.cycle.run_until(_after(WARM_UP_NS), NEVER_NS)
        begin, answered = time.monotonic_ns(), load.answered
        processor = cpu_seconds(members) + time.process_time()
        client.cycle.run_until(_after(seconds * S), NEVER_NS)
        count = load.answered - answered
        taken = cpu_seconds(members) + time.process_time() - processor
        load.end_ns = 0
        return {"rate": count * S / (time.monotonic_ns() - begin), "microseconds": taken * 1e6 / count}


def _after(ns: int) -> Callable[[], bool]:
    end_ns = time.monotonic_ns() + ns
    return lambda: time.monotonic_ns() >= end_ns


def round_of(which: str, *words: object) -> Any:
    """What a process of that form measured."""
    command = [sys.executable, "-m", "bench.forms", "--measure", *map(str, words)]
    done = subprocess.run(command, env={**os.environ, VARIABLE: FORMS[which]}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)


def compare_seeds(seeds: Sequence[int]) -> dict[str, Any]:
    """Each seed in both forms, one after the other."""
    ratios, sums, different = [], dict.fromkeys(FORMS, 0.0), []
    for seed in seeds:
        (pure,), (compiled,) = (round_of(which, "seeds", seed, seed) for which in FORMS)
        times = {"pure": pure.pop(TIMES), "compiled": compiled.pop(TIMES)}
        for which, taken in times.items():
            sums[which] += taken
        ratios.append(times["pure"] / times["compiled"])
        names = [name for name in pure if pure[name] != compiled[name]]
        if names:
            different.append({"seed": seed, "fields": names})
        verdict = f"differs in {', '.join(names)}" if names else f"same, {pure['verdict']}"
        say(f"seed {seed}: {verdict}; pure {times['pure']:.2f} s, compiled {times['compiled']:.2f} s")
    return {
        "seeds": len(seeds),
        "different": different,
        **{f"{which}_{TIMES}": round(total, 2) for which, total in sums.items()},
        "ratio": round(sums["pure"] / sums["compiled"], 2),
        "ratio_median": round(statistics.median(ratios), 2),
        "ratio_range": [round(min(ratios), 2), round(max(ratios), 2)],
        "required": REQUIRED["seeds"],
    }


def compare(name: str, rounds: int, words: Sequence[object], figure: str, required: float) -> dict[str, Any]:
    """The medians of a figure in both forms, and the ratio of each round by how much better compiled is."""
    measured: dict[str, list[dict[str, float]]] = {which: [] for which in FORMS}
    for _ in range(rounds):
        for which in FORMS:
            measured[which].append(round_of(which, *words))
            say(f"{name}, {which}: {measured[which][-1]}")
    pairs = [(p[figure], c[figure]) for p, c in zip(measured["pure"], measured["compiled"], strict=True)]
    ratios = [p / c if figure == "microseconds" else c / p for p, c in pairs]
    medians = {which: round(statistics.median(each[figure] for each in measured[which]), 1) for which in FORMS}
    spread = {"ratio": round(statistics.median(ratios), 2), "ratio_range": [round(r, 2) for r in sorted(ratios)]}
    return {"figure": figure, **medians, **spread, "required": round(required, 2)}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(words: Sequence[str]) -> int:
    """One round: what the words say, as JSON."""
    functions: dict[str, Callable[..., Any]] = {
        "seeds": measure_seeds,
        "simulation": measure_simulation,
        "node": measure_node,
    }
    wanted = os.environ.get(VARIABLE) == FORMS["compiled"]
    if wanted and not form().modules:
        print(f"bench.forms: {form()}: make compiled", file=sys.stderr)
        return 2
    print(json.dumps(functions[words[0]](*map(int, words[1:]))))
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=KINDS, action="append", help="may be repeated (default: all)")
    parser.add_argument("--seeds", default="1..8", metavar="A..B", help="of a campaign (default 1..8)")
    parser.add_argument("--rounds", type=int, default=3, help="of everything else (default 3)")
    parser.add_argument("--seconds", type=int, default=5, help="of load in a round (default 5)")
    parser.add_argument("--windows", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--sync-levels", type=int, nargs="+", default=[0, 1])
    options = parser.parse_args(arguments)
    if options.measure:
        return measure(options.measure)
    kinds = options.only or KINDS
    figures: dict[str, Any] = {}
    words: tuple[object, ...]
    if "seeds" in kinds:
        figures["seeds"] = compare_seeds(parse_seeds(options.seeds))
    if "simulation" in kinds:
        for name, rate in (("idle", 0), ("load", RATE)):
            words = ("simulation", rate, SIMULATED_SECONDS)
            figures[name] = compare(name, options.rounds, words, "simulated_seconds", REQUIRED[name])
    if "node" in kinds:
        for window in options.windows:
            for sync_level in options.sync_levels:
                name = f"window {window}, sync level {sync_level}"
                words = ("node", window, sync_level, options.seconds)
                figures[name] = compare(name, options.rounds, words, "microseconds", REQUIRED["window"])
    print(json.dumps(figures, indent=2))
    return 1 if figures.get("seeds", {}).get("different") else 0


if __name__ == "__main__":
    sys.exit(main())
