"""Our own cluster under measurement: throughput over the network path, failover, start, memory, idle cost.

One client process (this one) keeps a window of 64-byte echo requests in flight on one session.
"""

import contextlib
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import psutil

from bench.figures import Figures, from_latencies
from bench.warm_up import WarmUp
from upheaval.records import OWN_SYSTEM
from upheaval.runtimes.process import ProcessCluster
from upheaval.system import ClusterSpec
from upheaval_node.client.operations import echo_request
from upheaval_node.client.session import ClusterClient
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Buffer
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.runtime.tls import TlsIdentity
from upheaval_node.settings import MediaSettings, profile_settings
from upheaval_node.types import NEVER_NS, Now, S

MESSAGE_LENGTH = 64
WARM_UP_NS = S
POLL_LIMIT = 64
"""Answers taken in one turn: what they make room for leaves before the rest is looked at."""
_ID = struct.Struct("<q")
_TAIL = echo_request(0, b"")[_ID.size :]


def request_of(length: int) -> bytes:
    """An echo request of `length` bytes, with the id 0 in its first eight."""
    return echo_request(0, b"v" * (length - _ID.size - len(_TAIL)))


class WindowLoad:
    """Keeps `window` echoes in flight until `end_ns` and notes the latency of each. An agent of the client's loop."""

    def __init__(self, client: ClusterClient, window: int, message_length: int = MESSAGE_LENGTH) -> None:
        self._client = client
        self._window = window
        self._body = request_of(message_length)[_ID.size :]
        self._next_id = 1
        self._sent_ns: dict[int, int] = {}
        self.begin_ns = 0
        self.end_ns = 0
        self.latencies_ms: list[float] = []
        self.answered = 0
        self.last_answer_ns = 0

    @property
    def is_idle(self) -> bool:
        return not self._sent_ns

    def forget_unanswered(self) -> None:
        """What a dead leader took with it is not waited for."""
        self._sent_ns.clear()

    def do_work(self, now: Now) -> int:
        work = self._client.poll(self._on_answer, POLL_LIMIT)
        offer, sent, body = self._client.offer, self._sent_ns, self._body
        while now.ns < self.end_ns and len(sent) < self._window:
            number = self._next_id
            if offer(_ID.pack(number) + body) <= 0:
                break
            sent[number] = time.monotonic_ns()
            self._next_id = number + 1
            work += 1
        return work

    def next_deadline_ns(self) -> int:
        return NEVER_NS

    def _on_answer(self, _timestamp: int, payload: Buffer) -> None:
        now_ns = time.monotonic_ns()
        sent_ns = self._sent_ns.pop(_ID.unpack_from(payload)[0], None)
        self.answered += 1
        self.last_answer_ns = now_ns
        if sent_ns is not None and sent_ns >= self.begin_ns and now_ns <= self.end_ns:
            self.latencies_ms.append((now_ns - sent_ns) / 1e6)


class LoadClient:
    """A session with the cluster in this process, driven by one loop."""

    def __init__(self, cluster: ProcessCluster, window: int, message_length: int = MESSAGE_LENGTH) -> None:
        loop = self.loop = Loop()
        tls = cluster.client_tls()
        network = SelectorNetwork(loop, None if tls is None else TlsIdentity(tls))
        media = self.media = MediaDriver(network, StaticResolver(), MediaSettings(), SystemRandom(), None)
        self.session = ClusterClient(media, cluster.ingress_endpoints(), random=SystemRandom())
        self.load = WindowLoad(self.session, window, message_length)
        self.cycle = DutyCycle(loop, SystemClock(), (media, self.session, self.load))
        if not self.cycle.run_until(lambda: self.session.is_connected, time.monotonic_ns() + 10 * S):
            raise RuntimeError(f"no session: {self.session.error}")

    def send(self, count: int) -> None:
        """Send `count` messages and wait for their answers, however long that takes."""
        load = self.load
        wanted = load.answered + count
        load.end_ns = NEVER_NS
        self.cycle.run_until(lambda: load.answered >= wanted, NEVER_NS)
        load.end_ns = 0
        self.cycle.run_until(lambda: load.is_idle, time.monotonic_ns() + 5 * S)

    def run(self, seconds: float) -> None:
        """Load until its rate is steady and for `seconds` after that, then wait for what is in flight."""
        load = self.load
        load.begin_ns = load.end_ns = NEVER_NS
        warm_up = WarmUp(time.monotonic_ns())
        answered = load.answered
        self.cycle.run_until(lambda: warm_up.is_over(time.monotonic_ns(), load.answered - answered), NEVER_NS)
        load.begin_ns = time.monotonic_ns()
        load.end_ns = load.begin_ns + round(seconds * S)
        self.cycle.run_until(lambda: time.monotonic_ns() >= load.end_ns, NEVER_NS)
        self.cycle.run_until(lambda: load.is_idle, time.monotonic_ns() + 5 * S)


@contextlib.contextmanager
def running_cluster(
    *,
    profile: str,
    sync_level: int,
    service: str = "echo",
    members: int = 3,
    tls: Path | None = None,
    system: str = OWN_SYSTEM,
    leader_disconnect_ms: int = 0,
    max_sessions: int = 0,
) -> Iterator[ProcessCluster]:
    with tempfile.TemporaryDirectory(prefix="bench-upheaval-", dir="/var/tmp") as folder:
        spec = ClusterSpec(
            members=members,
            profile=profile,
            sync_level=sync_level,
            service=service,
            tls=str(tls or ""),
            system=system,
            leader_disconnect_ms=leader_disconnect_ms,
            max_sessions=max_sessions,
        )
        cluster = ProcessCluster.create(Path(folder) / "run", spec)
        cluster.up()
        try:
            yield cluster
        finally:
            cluster.down()


def measure_throughput(window: int, seconds: float, *, sync_level: int) -> Figures:
    """Echoed 64-byte messages a second through a three-member cluster with Aeron's default settings."""
    with running_cluster(profile="aeron", sync_level=sync_level) as cluster:
        client = LoadClient(cluster, window)
        client.run(seconds)
        return from_latencies(client.load.latencies_ms, seconds)


def failover_floor_s(profile: str) -> float:
    """Aeron's floor: heartbeat time-out, election time-out, up to half an election time-out, and 0.15 s of work."""
    timeouts = profile_settings(profile).cluster.timeouts
    return (timeouts.leader_heartbeat_ns + 1.5 * timeouts.election_ns) / S + 0.15


def measure_failover(profile: str = "test", *, leader_disconnect_ms: int = 0) -> float:
    """Seconds from SIGKILL of the leader to the first answer under the new one, with a client that keeps trying."""
    with running_cluster(profile=profile, sync_level=0, leader_disconnect_ms=leader_disconnect_ms) as cluster:
        client = LoadClient(cluster, 16)
        client.load.end_ns = NEVER_NS
        client.cycle.run_until(lambda: client.load.answered > 100, time.monotonic_ns() + 10 * S)
        killed_ns = time.monotonic_ns()
        cluster.member(client.session.leader_member_id).node.kill()
        old_term = client.session.leadership_term_id
        client.cycle.run_until(lambda: client.session.leadership_term_id > old_term, killed_ns + 30 * S)
        client.load.forget_unanswered()
        led_ns = time.monotonic_ns()
        if not client.cycle.run_until(lambda: client.load.last_answer_ns > led_ns, killed_ns + 30 * S):
            raise RuntimeError("no answer under a new leader")
        return (client.load.last_answer_ns - killed_ns) / S


def measure_start(profile: str = "aeron") -> float:
    """Seconds from nothing to a leader that serves, three members."""
    begin = time.monotonic()
    with running_cluster(profile=profile, sync_level=0):
        return time.monotonic() - begin


def measure_idle(seconds: float = 5.0) -> dict[str, float]:
    """Share of one core that an idle three-member cluster takes, and the largest member's memory after some load."""
    with running_cluster(profile="aeron", sync_level=0) as cluster:
        members = [psutil.Process(f.pid) for m in cluster.members for f in m.node.processes()]
        begin_cpu, begin = cpu_seconds(members), time.monotonic()
        time.sleep(seconds)
        idle = (cpu_seconds(members) - begin_cpu) / (time.monotonic() - begin)
        fresh = max(m.memory_info().rss for m in members)
        LoadClient(cluster, 256).run(3.0)
        loaded = max(m.memory_info().rss for m in members)
    return {"idle_share_of_a_core": idle, "fresh_member_mb": fresh / 1e6, "loaded_member_mb": loaded / 1e6}


def cpu_seconds(members: list[psutil.Process]) -> float:
    return sum(t.user + t.system for t in (m.cpu_times() for m in members))
