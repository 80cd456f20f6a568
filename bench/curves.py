"""What a cluster costs by what is asked of it: `python -m bench.curves [--only open|length|members|sessions]`.

An open loop (messages at their times, without waiting for answers; latency counts from when a message was due),
payloads of 32 bytes to 64 KiB, one to five members, and up to ten thousand sessions with one leader, of which each is
opened and sends one message. Processes on this machine, Aeron's settings but for the number of sessions. Prints JSON.
"""

import argparse
import json
import struct
import sys
import time
from collections.abc import Callable
from random import SystemRandom
from typing import Any, Final

import psutil

from bench import open_load
from bench.figures import Figures, from_latencies
from bench.own import LoadClient, cpu_seconds, request_of, running_cluster
from upheaval.runtimes.process import ProcessCluster
from upheaval_node.client.session import ClusterClient
from upheaval_node.client.session_group import SessionGroup
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.settings import MediaSettings
from upheaval_node.types import S

LENGTHS: Final = (32, 256, 2048, 16_384, 65_536)
MEMBERS: Final = (1, 3, 5)
SESSIONS: Final = (1, 100, 1000, 10_000)
RATE: Final = 1000
WINDOW: Final = 64
BATCH: Final = 50
"""Sessions that speak at the same time."""
SILENCE_S: Final = 15.0
"""Longer than the time-out of a session that says nothing."""
_ID: Final = struct.Struct("<q")


class Sessions:
    """As many sessions as wanted, on one connection to each member."""

    def __init__(self, cluster: ProcessCluster) -> None:
        loop = Loop()
        media = MediaDriver(SelectorNetwork(loop, None), StaticResolver(), MediaSettings(), SystemRandom(), None)
        self._group = SessionGroup(media, cluster.ingress_endpoints(), random=SystemRandom(), message_timeout_ns=60 * S)
        self._cycle = DutyCycle(loop, SystemClock(), (media, self._group))
        self.all: list[ClusterClient] = []
        self.answers = 0

    def add(self, count: int) -> None:
        """Returns once they are open."""
        self.all = [self._group.open(self._on_answer) for _ in range(count)]
        self.until(lambda: all(session.is_connected for session in self.all), 60)

    def stay(self, seconds: float) -> None:
        """Say nothing for a while but that they live."""
        self._cycle.run_until(lambda: False, time.monotonic_ns() + round(seconds * S))

    def have_left(self, leader: int) -> bool:
        """Whether all of them are connected to another leader."""
        return all(session.is_connected and session.leader_member_id != leader for session in self.all)

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        if not self._cycle.run_until(condition, time.monotonic_ns() + round(seconds * S)):
            lost = [session for session in self.all if session.error is not None]
            why = str(lost[0].error) if lost else "none"
            raise RuntimeError(f"{len(self.all)} sessions, {self.answers} answers, {len(lost)} ended: {why}")

    def _on_answer(self, _timestamp: int, _payload: Buffer) -> None:
        self.answers += 1


def open_loop(rate: int, seconds: float) -> dict[str, float]:
    """Latency at a fixed rate, synced and not."""
    found: dict[str, float] = {}
    for level in (0, 1):
        figures: Figures = open_load.measure(rate, seconds, sync_level=level)
        found |= {f"sync_{level}_{name}": round(value, 3) for name, value in figures.as_dict().items()}
    return found


def closed_loop(length: int, members: int, seconds: float) -> dict[str, float]:
    """A window of messages of a length, and what the processor does for one."""
    with running_cluster(profile="aeron", sync_level=0, members=members) as cluster:
        processes = [psutil.Process(f.pid) for member in cluster.members for f in member.node.processes()]
        client = LoadClient(cluster, WINDOW, length)
        before = cpu_seconds(processes) + time.process_time()
        client.run(seconds)
        used = cpu_seconds(processes) + time.process_time() - before
        figures = from_latencies(client.load.latencies_ms, seconds)
        row = {name: round(value, 3) for name, value in figures.as_dict().items()}
        megabytes = length * figures.per_second / 1e6
        return {
            **row,
            "microseconds": round(used * 1e6 / client.load.answered, 1),
            "mb_per_second": round(megabytes, 1),
        }


def many_sessions(wanted: int) -> dict[str, float]:
    """Opens sessions, has each of them send one message, say nothing, and follow a change of leader."""
    with running_cluster(profile="aeron", sync_level=0, max_sessions=wanted + 10) as cluster:
        processes = [psutil.Process(f.pid) for member in cluster.members for f in member.node.processes()]
        clients, begin, before = Sessions(cluster), time.monotonic(), cpu_seconds(processes)
        clients.add(wanted)
        opened, opening = time.monotonic() - begin, cpu_seconds(processes) - before
        begin, before = time.monotonic(), cpu_seconds(processes)
        for first in range(0, wanted, BATCH):
            answered, batch = clients.answers, clients.all[first : first + BATCH]
            for session in batch:
                clients.until(lambda session=session: session.offer(request_of(64)) > 0, 10)
            clients.until(lambda answered=answered, batch=batch: clients.answers - answered == len(batch), 30)
        sent, sending = time.monotonic() - begin, cpu_seconds(processes) - before
        before = cpu_seconds(processes)
        clients.stay(SILENCE_S)
        silence = (cpu_seconds(processes) - before) / SILENCE_S
        memory = max(process.memory_info().rss for process in processes) / 1e6
        row = {"open_s": opened, "open_member_ms": opening * 1e3 / wanted, "send_s": sent}
        row |= {"send_member_ms": sending * 1e3 / wanted, "silent_cores": silence, "member_mb": memory}
        leader, killed = clients.all[0].leader_member_id, time.monotonic()
        cluster.member(leader).node.kill()
        clients.until(lambda: clients.have_left(leader), 60)
        row["followed_s"] = time.monotonic() - killed
        return {name: round(value, 3) for name, value in row.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("open", "length", "members", "sessions"), action="append")
    parser.add_argument("--seconds", type=float, default=4.0, help="measured time of each row")
    parser.add_argument("--sessions", type=int, nargs="+", default=SESSIONS)
    options = parser.parse_args()
    kinds = options.only or ("open", "length", "members", "sessions")
    found: dict[str, Any] = {}
    if "open" in kinds:
        found["open"] = {str(RATE): open_loop(RATE, options.seconds)}
    if "length" in kinds:
        found["length"] = {str(length): closed_loop(length, 3, options.seconds) for length in LENGTHS}
    if "members" in kinds:
        found["members"] = {str(members): closed_loop(64, members, options.seconds) for members in MEMBERS}
    if "sessions" in kinds:
        found["sessions"] = {str(wanted): many_sessions(wanted) for wanted in options.sessions}
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
