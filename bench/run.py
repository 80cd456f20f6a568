"""Measure our cluster beside Aeron, etcd and PySyncObj in alternating rounds of one run: a table, and results.json.

Only ratios between figures of one run mean anything on a shared machine.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import open_load, own
from bench.figures import Figures, median
from bench.peers import aeron, etcd, pysyncobj
from upheaval_node.compiled import form

RESULTS = Path(__file__).resolve().parent / "results.json"
RATE = 1000
Contestant = Callable[[], Figures]


def contestants(folder: Path, seconds: float) -> dict[str, Contestant]:
    """Everybody who takes part, by name; one round each in this order."""
    has_aeron, has_etcd = (_takes_part(peer.missing()) for peer in (aeron, etcd))
    java = aeron.build_loader(folder) if has_aeron else folder
    rows: dict[str, Contestant] = {}
    for window in (256, 1024):
        for level in (0, 1):
            rows[f"upheaval, sync {level}, window {window}"] = partial(
                own.measure_throughput, window, seconds, sync_level=level
            )
            if has_aeron:
                rows[f"Aeron, sync {level}, window {window}"] = partial(
                    aeron.measure, java, window, seconds, sync_level=level
                )
        rows[f"PySyncObj, defaults, window {window}"] = partial(pysyncobj.measure, window, seconds, tuned=False)
        rows[f"PySyncObj, best ticks, window {window}"] = partial(pysyncobj.measure, window, seconds, tuned=True)
    for level in (0, 1):
        rows[f"upheaval, sync {level}, {RATE} a second"] = partial(open_load.measure, RATE, seconds, sync_level=level)
        if has_aeron:
            rows[f"Aeron, sync {level}, {RATE} a second"] = partial(
                aeron.measure, java, 0, seconds, sync_level=level, rate=RATE
            )
    if has_etcd:
        rows["etcd, 256 clients"] = partial(etcd.measure, etcd.build_loader(folder), 256, seconds)
    return rows


def _takes_part(lack: str | None) -> bool:
    if lack:
        print(lack, file=sys.stderr)
    return lack is None


def throughput(rounds: int, seconds: float, wanted: str) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/tmp") as folder:
        rows = {name: row for name, row in contestants(Path(folder), seconds).items() if wanted in name}
        if not rows:
            raise SystemExit(f"bench: no row has {wanted!r} in its name")
        measured: dict[str, list[Figures]] = {name: [] for name in rows}
        for number in range(rounds):
            for name, measure in rows.items():
                print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
                measured[name].append(measure())
    return {name: median(figures).as_dict() for name, figures in measured.items()}


def times(rounds: int) -> dict[str, float]:
    print("failover, start, idle", file=sys.stderr, flush=True)
    failovers = sorted(own.measure_failover() for _ in range(rounds))
    quick = sorted(own.measure_failover("aeron", leader_disconnect_ms=50) for _ in range(rounds))
    starts = sorted(own.measure_start() for _ in range(rounds))
    return {
        "failover_s": failovers[rounds // 2],
        "failover_worst_s": failovers[-1],
        "failover_floor_s": own.failover_floor_s("test"),
        "failover_by_connection_s": quick[rounds // 2],
        "failover_by_connection_worst_s": quick[-1],
        "start_to_leader_s": starts[rounds // 2],
        **own.measure_idle(),
    }


def print_table(results: dict[str, dict[str, float]], other: dict[str, float]) -> None:
    width = max(map(len, results))
    print(f"{'':{width}}  {'per second':>10}  {'p50 ms':>8}  {'p99 ms':>8}")
    for name, row in results.items():
        print(f"{name:{width}}  {row['per_second']:10.0f}  {row['p50_ms']:8.2f}  {row['p99_ms']:8.2f}")
    print()
    for name, value in other.items():
        print(f"{name:{width}}  {value:10.3f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured time of each round")
    parser.add_argument("--only", metavar="TEXT", default="", help="rows with this in their names; writes no file")
    arguments = parser.parse_args()
    results = throughput(arguments.rounds, arguments.seconds, arguments.only)
    if arguments.only:
        print_table(results, {})
        return 0
    other = times(arguments.rounds)
    print_table(results, other)
    document = {
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version,
        "node": str(form()),
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "throughput": results,
        "other": other,
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
