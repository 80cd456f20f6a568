"""An open loop: messages at their times, without waiting for answers. Latency counts from when a message was due."""

import struct
import time
from typing import Final

from bench.figures import Figures, from_latencies
from bench.own import MESSAGE_LENGTH, POLL_LIMIT, WARM_UP_NS, LoadClient, request_of, running_cluster
from bench.ticks import Ticks
from upheaval_node.client.session import ClusterClient
from upheaval_node.ports import Buffer
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.types import NEVER_NS, US, Now, S

AHEAD_NS: Final = 80 * US
_ID: Final = struct.Struct("<q")


class OpenLoad:
    """Sends at fixed times and notes how long after its time each message was answered. An agent of its loop.

    It is to be woken `AHEAD_NS` before a message is due and spins to the time: how late a thread wakes up is no latency
    of the cluster.
    """

    def __init__(self, client: ClusterClient, rate: int, seconds: float) -> None:
        self._client = client
        self.interval_ns: Final = S // rate
        self._body = request_of(MESSAGE_LENGTH)[_ID.size :]
        self.begin_ns: Final = time.monotonic_ns() + S
        self._count = round(rate * (seconds + WARM_UP_NS / S))
        self._next = 0
        self._is_refused = False
        self._warm_up = round(rate * WARM_UP_NS / S)
        self.latencies_ms: list[float] = []
        self.answered = 0

    @property
    def is_done(self) -> bool:
        return self.answered == self._count

    def do_work(self, now: Now) -> int:
        work = self._client.poll(self._on_answer, POLL_LIMIT)
        while self._next < self._count and now.ns + AHEAD_NS >= self._due_ns(self._next):
            while time.monotonic_ns() < self._due_ns(self._next):
                pass
            self._is_refused = self._client.offer(_ID.pack(self._next) + self._body) <= 0
            if self._is_refused:
                break
            self._next += 1
            work += 1
        return work

    def next_deadline_ns(self) -> int:
        return self._due_ns(self._next) if self._is_refused else NEVER_NS

    def _due_ns(self, number: int) -> int:
        return self.begin_ns + number * self.interval_ns

    def _on_answer(self, _timestamp: int, payload: Buffer) -> None:
        (number,) = _ID.unpack_from(payload)
        self.answered += 1
        if number >= self._warm_up:
            self.latencies_ms.append((time.monotonic_ns() - self._due_ns(number)) / 1e6)


def measure(rate: int, seconds: float, *, sync_level: int) -> Figures:
    """A rate of 64-byte echoes through a three-member cluster with Aeron's default settings."""
    with running_cluster(profile="aeron", sync_level=sync_level) as cluster:
        client = LoadClient(cluster, 0)
        load = OpenLoad(client.session, rate, seconds)
        client.cycle = DutyCycle(client.loop, SystemClock(), (client.media, client.session, load))
        ticks = Ticks(client.loop, load.begin_ns - AHEAD_NS, load.interval_ns)
        deadline_ns = time.monotonic_ns() + round((seconds + 30) * S)
        if not client.cycle.run_until(lambda: load.is_done, deadline_ns):
            raise RuntimeError(f"{load.answered} messages were answered")
        ticks.close()
        return from_latencies(load.latencies_ms, seconds)
