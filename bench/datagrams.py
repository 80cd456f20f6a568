"""`python bench/datagrams.py`: what the forwarders of datagrams carry, what they add, and what Aeron does through them.

Datagrams a second of the forwarders' own processor time; round trips of 64 bytes, directly and through one forwarder,
in turn; and with `--seconds` operations a second of three members of Aeron (`--runtime`: as processes, or in containers
with agents) with forwarders on every link beside those of consensus alone and beside none, in turn. With `--queued` the
same for the agent that gets datagrams from the kernel, in a network of its own (`unshare -n`, as root). Prints JSON,
medians.
"""

import argparse
import json
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from upheaval.execution.links import open_links, watch_consensus
from upheaval.runtime_names import LIVE_RUNTIMES, PROCESS
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until
from upheaval.workload import WorkloadSettings
from upheaval_chaos import queue_agent
from upheaval_chaos.errors import EnvironmentFault
from upheaval_chaos.proxy_server import ProxyServer
from upheaval_chaos.toxiproxy import StandardToxiproxy
from upheaval_node.protocol.frames import TYPE_DATA

SIZES = (64, 1408, 8192)
TOXICS: Mapping[str, tuple[str, Mapping[str, int], float] | None] = {
    "plain": None,
    "drop 1 %": ("timeout", {"timeout": 0}, 0.01),
    "drop 1 % of data of one stream": ("timeout", {"timeout": 0, "frame_type": TYPE_DATA, "stream_id": 100}, 0.01),
    "delay 1 ms": ("latency", {"latency": 1, "jitter": 0}, 1.0),
}
AGENT = ("127.0.0.1", "8474")
BURST = 64
PINGS = 500
NAME = "p"


class Bench:
    """One sender, one proxy, one receiver."""

    def __init__(self, api: StandardToxiproxy, clock: int) -> None:
        self.api = api
        self.receiver = _socket()
        self.address = self.receiver.getsockname()
        self.source, self.dialled = "127.0.0.1", self.address
        self._clock = clock

    def forward(self) -> None:
        """The sender dials the proxy."""
        self.dialled = _address(self.api.create(NAME, "{}:{}".format(*self.address), protocol="udp"))

    def queue(self) -> None:
        """The sender dials the receiver, from another address."""
        self.source = "127.0.0.2"
        self.api.create(NAME, "{}:{}".format(*self.address), f"{self.source}:0", protocol="udp")

    def cpu_s(self) -> float:
        """Processor time of the proxies so far."""
        return time.clock_gettime(self._clock)

    @contextmanager
    def toxic(self, toxic: tuple[str, Mapping[str, int], float] | None) -> Iterator[None]:
        if toxic is None:
            yield
            return
        kind, attributes, share = toxic
        self.api.add_toxic(NAME, kind, "upstream", attributes, share)
        yield
        self.api.remove_toxic(NAME, kind, "upstream")

    def rate(self, size: int, count: int) -> float:
        """Datagrams a second of its processor time; what is dropped counts, too."""
        frame = struct.pack("<iBBHiiii", size, 0, 0xC0, TYPE_DATA, 0, 1, 100, 0).ljust(size, b"\0")
        with _socket(self.source) as sender:
            sender.connect(self.dialled)
            before = self.cpu_s()
            for _ in range(count // BURST):
                for _ in range(BURST):
                    sender.send(frame)
                self._drain()
            return count / (self.cpu_s() - before)

    def _drain(self) -> None:
        """Take what comes of a burst."""
        self.receiver.settimeout(0.01)
        try:
            for _ in range(BURST):
                self.receiver.recv(65536)
        except TimeoutError:
            return


def round_trips_us(address: tuple[str, int], source: str = "127.0.0.1") -> float:
    """Median of pings that an echo answers."""
    found = []
    with _socket(source) as asker:
        asker.connect(address)
        asker.settimeout(5)
        for _ in range(PINGS):
            begin = time.perf_counter()
            asker.send(bytes(64))
            asker.recv(100)
            found.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(found)


def echo(receiver: socket.socket) -> None:
    receiver.settimeout(None)
    while True:
        data, sender = receiver.recvfrom(65536)
        if not data:
            return
        receiver.sendto(data, sender)


Opening = Callable[[AnyCluster, int], None]
OPENINGS: Final[Mapping[str, Opening]] = {
    "without forwarders": lambda _, __: None,
    "with those of consensus, which are watched": watch_consensus,
    "with all forwarders": open_links,
}


def operations(folder: Path, runtime: str, seconds: float, window: int, opening: Opening) -> float:
    """Acknowledged operations a second of three members of Aeron."""
    with ExitStack() as stack:
        cluster = create_cluster(runtime, folder, ClusterSpec(system="aeron"))
        stack.callback(cluster.down)
        opening(cluster, 1)
        cluster.up(timeout_s=120)
        load = stack.enter_context(ProcessLoad(cluster, WorkloadSettings(slots=window, sessions=4)))
        load.wait_until_acknowledged(window, 60)
        begin, before = time.monotonic(), load.counts.ok
        time.sleep(seconds)
        return (load.counts.ok - before) / (time.monotonic() - begin)


def measure(bench: Bench, rounds: int, count: int) -> dict[str, dict[str, float]]:
    """Rates by size and toxic, and round trips."""
    rates: dict[str, list[float]] = {}
    trips: dict[str, list[float]] = {"directly": [], "through the proxy": []}
    for _ in range(rounds):
        for size in SIZES:
            for name, toxic in TOXICS.items():
                with bench.toxic(toxic):
                    rates.setdefault(f"{size} bytes, {name}", []).append(bench.rate(size, count))
    thread = threading.Thread(target=echo, args=(bench.receiver,))
    thread.start()
    for _ in range(rounds):
        trips["directly"].append(round_trips_us(bench.address))
        trips["through the proxy"].append(round_trips_us(bench.dialled, bench.source))
    with _socket() as end:
        end.sendto(b"", bench.address)
    thread.join()
    bench.receiver.close()
    return {
        "datagrams_per_cpu_second": {name: round(statistics.median(found)) for name, found in rates.items()},
        "round_trip_us": {name: round(statistics.median(found), 1) for name, found in trips.items()},
    }


def forwarded(rounds: int, count: int) -> dict[str, dict[str, float]]:
    """Through a forwarder of this process."""
    with ProxyServer() as server:
        (thread,) = (each for each in threading.enumerate() if each.name == "proxies")
        assert thread.ident is not None
        bench = Bench(StandardToxiproxy(server.address), time.pthread_getcpuclockid(thread.ident))
        bench.forward()
        return measure(bench, rounds, count)


def queued(rounds: int, count: int) -> dict[str, dict[str, float]]:
    """Through an agent in this network name space, which no other process uses."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with subprocess.Popen([sys.executable, "-m", queue_agent.__name__, *AGENT, "0"]) as agent:
        try:
            api = StandardToxiproxy(":".join(AGENT))
            wait_until(partial(_answers, api), timeout_s=20, describe=lambda: "the agent does not start")
            # The processor clock of a process, as Linux numbers it.
            bench = Bench(api, ~agent.pid << 3 | 2)
            bench.queue()
            return measure(bench, rounds, count)
        finally:
            agent.terminate()


def _answers(api: StandardToxiproxy) -> bool:
    try:
        return bool(api.version())
    except EnvironmentFault:
        return False


def _socket(source: str = "127.0.0.1") -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    made.bind((source, 0))
    return made


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=20_000, help="datagrams of a round")
    parser.add_argument("--seconds", type=float, default=0, help="of each round with members of Aeron; 0 for none")
    parser.add_argument("--runtime", choices=LIVE_RUNTIMES, default=PROCESS, help="of those members")
    parser.add_argument("--window", type=int, default=256, help="operations outstanding")
    parser.add_argument("--queued", action="store_true", help="of datagrams that the kernel hands over, only")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.queued and not options.here:
        return subprocess.run(["unshare", "-n", sys.executable, *sys.argv, "--here"], check=False).returncode
    served: dict[str, list[float]] = {name: [] for name in OPENINGS}
    measured = (queued if options.queued else forwarded)(options.rounds, options.count)
    with tempfile.TemporaryDirectory(prefix="upheaval-bench-", dir="/var/tmp") as place:
        for number in range(options.rounds if options.seconds else 0):
            for which, (name, opening) in enumerate(OPENINGS.items()):
                folder = Path(place) / f"{which}-{number}"
                served[name].append(operations(folder, options.runtime, options.seconds, options.window, opening))
                print(f"{name}: {served[name][-1]:.0f} operations a second", file=sys.stderr)
    served_by = {name: round(statistics.median(found)) for name, found in served.items() if found}
    print(json.dumps({**measured, "aeron_operations_per_second": served_by}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
