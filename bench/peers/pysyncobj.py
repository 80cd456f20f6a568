"""PySyncObj: three processes with the journal on; the client lives in the leader's process, as its API has it.

Run as a script it is one member: `python -m bench.peers.pysyncobj OWN OTHER,OTHER JOURNAL WINDOW SECONDS TUNED`. The
member that leads after the start drives the load and prints one line of JSON.
"""

import json
import math
import sys
import tempfile
import threading
import time
from pathlib import Path

from pysyncobj import SyncObj, SyncObjConf, replicated

from bench.figures import Figures, from_latencies
from bench.processes import free_ports, running
from bench.warm_up import WarmUp

PAYLOAD = "v" * 64


class Store(SyncObj):  # type: ignore[misc]
    """Keeps the last value that was put."""

    def __init__(self, own: str, others: list[str], journal: str, tuned: bool) -> None:
        options = {"appendEntriesPeriod": 0.002, "autoTickPeriod": 0.001} if tuned else {}
        super().__init__(own, others, SyncObjConf(journalFile=journal, commandsQueueSize=100_000, **options))
        self.last = ""

    @replicated  # type: ignore[untyped-decorator]
    def put(self, value: str) -> int:
        self.last = value
        return len(value)


def drive(store: Store, window: int, seconds: float) -> Figures:
    """Keep `window` puts in flight for a while; answers arrive on the store's own thread."""
    latencies: list[float] = []
    begin = end = math.inf
    count = 0
    idle = threading.Semaphore(0)

    def put() -> None:
        sent = time.monotonic()

        def answered(_result: object, error: int) -> None:
            nonlocal count
            count += 1
            now = time.monotonic()
            if error == 0 and begin <= sent and now <= end:
                latencies.append((now - sent) * 1e3)
            if now < end:
                put()
            else:
                idle.release()

        store.put(PAYLOAD, callback=answered)

    for _ in range(window):
        put()
    warm_up = WarmUp(time.monotonic_ns())
    while not warm_up.is_over(time.monotonic_ns(), count):
        time.sleep(0.05)
    end = time.monotonic() + seconds
    begin = end - seconds
    for _ in range(window):
        idle.acquire(timeout=30)
    return from_latencies(latencies, seconds)


def member(own: str, others: str, journal: str, window: str, seconds: str, tuned: str) -> None:
    store = Store(own, others.split(","), journal, tuned == "tuned")
    store.waitReady()
    while not store._isLeader():
        time.sleep(0.05)
    print(json.dumps(drive(store, int(window), float(seconds)).as_dict()), flush=True)


def measure(window: int, seconds: float, *, tuned: bool) -> Figures:
    """One round on a fresh cluster."""
    with tempfile.TemporaryDirectory(prefix="bench-pysyncobj-", dir="/var/tmp") as name:
        folder = Path(name)
        addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        commands = [
            [sys.executable, "-m", "bench.peers.pysyncobj", own, ",".join(a for a in addresses if a != own)]
            + [str(folder / f"journal-{i}"), str(window), str(seconds), "tuned" if tuned else "defaults"]
            for i, own in enumerate(addresses)
        ]
        log = folder / "log"
        with running(commands, log):
            deadline = time.monotonic() + seconds + 60
            while time.monotonic() < deadline:
                for line in log.read_text(errors="replace").splitlines():
                    if line.startswith('{"per_second"'):
                        return Figures(**json.loads(line))
                time.sleep(0.1)
        raise RuntimeError("PySyncObj gave no figures within its time")


if __name__ == "__main__":
    member(*sys.argv[1:])
