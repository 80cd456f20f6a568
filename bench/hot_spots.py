"""Where the time of a loaded cluster goes: processor time a message, and its split over the parts of the code.

`python bench/hot_spots.py` samples leader, one follower and the client with py-spy while echoes are in flight. A sample
counts for the innermost function of ours; waiting for input is left out.
"""

import argparse
import collections
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from bench import own

PACKAGES = ("upheaval_node", "bench")
SHOWN = 12


def part_of(stack: str) -> str | None:
    """`folder/module function` of the innermost frame of ours; None while the loop waits."""
    frames = stack.split(";")
    if "select" in frames[-1]:
        return None
    for frame in reversed(frames):
        name, _, place = frame.partition(" (")
        path = place.rpartition(":")[0]
        for package in PACKAGES:
            if f"{package}/" in path:
                return f"{path.rpartition(package + '/')[2].removesuffix('.py')} {name}"
    return "interpreter"


def shares(raw: str) -> list[tuple[str, float]]:
    counts: collections.Counter[str] = collections.Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        part = part_of(stack)
        if part is not None:
            counts[part] += int(count)
    total = sum(counts.values()) or 1
    return [(part, count / total) for part, count in counts.most_common(SHOWN)]


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def profile(window: int, sync_level: int, seconds: float) -> dict[str, tuple[float, list[tuple[str, float]]]]:
    """By process: processor microseconds a message, and the largest shares of it."""
    with (
        own.running_cluster(profile="aeron", sync_level=sync_level) as cluster,
        tempfile.TemporaryDirectory(prefix="bench-profile-", dir="/var/tmp") as folder,
    ):
        client = own.LoadClient(cluster, window)
        leader = client.session.leader_member_id
        pids = {m.member_id: m.node.processes()[0].pid for m in cluster.members}
        watched = {
            "leader": psutil.Process(pids[leader]),
            "follower": psutil.Process(pids[(leader + 1) % len(pids)]),
            "client": psutil.Process(),
        }
        client.run(0.5)
        before = {name: cpu_seconds(process) for name, process in watched.items()}
        answered = client.load.answered
        client.run(seconds)
        answered = client.load.answered - answered
        per_message = {name: (cpu_seconds(p) - before[name]) * 1e6 / answered for name, p in watched.items()}
        samplers = {
            name: subprocess.Popen(
                ["py-spy", "record", "-d", str(int(seconds)), "-r", "200", "-f", "raw", "-o", f"{folder}/{name}"]
                + ["-p", str(process.pid)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for name, process in watched.items()
        }
        end = time.monotonic() + seconds + 1
        while time.monotonic() < end and any(s.poll() is None for s in samplers.values()):
            client.run(1.0)
        for sampler in samplers.values():
            sampler.wait()
        return {name: (per_message[name], shares((Path(folder) / name).read_text())) for name in watched}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--sync-level", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    result = profile(arguments.window, arguments.sync_level, arguments.seconds)
    for name, (microseconds, parts) in result.items():
        print(f"{name}: {microseconds:.1f} us of processor time a message, of that")
        for part, share in parts:
            print(f"  {share:6.1%}  {part}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
