"""A simulated cluster for tests of the whole system: members that can be stopped, killed, wiped and looked at, and
clients that say one thing after the other.

What a test does and sees goes through `System`, `SystemClient` and `Chorus`: deaths, starts, orders, and what services
received. Time is virtual and passes only inside the calls that wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.world import World
from upheaval.system import LEADER, ClusterSpec, MemberStatus, is_caught_up
from upheaval_node.client.session import ClusterClient, MessageHandler
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.module_state import ControlToggle, ModuleState
from upheaval_node.counters import (
    CONSENSUS_MODULE_STATE,
    CONTROL_TOGGLE,
    ELECTION_COUNT,
    SNAPSHOT_COUNT,
    cluster_key,
)
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.member import MemberAgent, MemberConfig, MemberPorts, build_together
from upheaval_node.ports import Agent, Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.service.api import (
    ClientSession,
    Cluster,
    ClusteredService,
    ClusterRole,
    SnapshotImage,
    SnapshotPublication,
)
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.types import Now, S

WAIT_S: Final = 30.0
RETRY_NS: Final = 1_000_000


class Chorus(ClusteredService):
    """Answers each message with itself and keeps it; `t ID DELAY` schedules a timer, `o TEXT` offers to the log."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.offered: list[bytes] = []
        self.fired: list[int] = []
        self.sessions: list[int] = []
        self.closed: list[tuple[int, str]] = []
        self.roles: list[ClusterRole] = []
        self.terms: list[int] = []
        self.loaded = 0
        self.snapshots = 0
        self.is_terminated = False
        self.cluster: Cluster | None = None

    @property
    def state(self) -> tuple[list[bytes], list[bytes], list[int]]:
        return self.messages, self.offered, self.fired

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        self.cluster = cluster
        while snapshot_image is not None and (record := snapshot_image.read()) is not None:
            kind, content = record[:1], record[1:]
            if kind == b"f":
                self.fired.append(int(content))
            else:
                (self.messages if kind == b"m" else self.offered).append(content)
        self.loaded = len(self.messages)

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        self.snapshots += 1
        for kind, records in ((b"m", self.messages), (b"o", self.offered)):
            for record in records:
                publication.offer(kind, record)
        for correlation_id in self.fired:
            publication.offer(b"f%d" % correlation_id)

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        self.sessions.append(session.id)

    def on_session_close(self, session: ClientSession, timestamp: int, reason: cm.CloseReason) -> None:
        self.closed.append((session.id, reason.name))

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        content, cluster = bytes(payload), self.cluster
        assert cluster is not None
        if session is None:
            self.offered.append(content)
            return
        self.messages.append(content)
        match content.split():
            case [b"t", correlation_id, delay]:
                cluster.schedule_timer(int(correlation_id), timestamp + int(delay))
            case [b"o", text]:
                cluster.offer(text)
        session.respond(content)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.fired.append(correlation_id)

    def on_role_change(self, role: ClusterRole) -> None:
        self.roles.append(role)

    def on_new_leadership_term_event(self, **fields: object) -> None:
        self.terms.append(int(str(fields["leadership_term_id"])))

    def on_terminate(self, cluster: Cluster) -> None:
        self.is_terminated = True


class SystemClient:
    """A client on a host of its own. Implements `ports.Agent` and the client's `EgressListener`."""

    def __init__(self) -> None:
        self.session: ClusterClient | None = None
        self.received: list[bytes] = []
        self.leaders: list[int] = []
        self.events: list[cm.SessionEvent] = []
        self.answers: list[cm.AdminResponse] = []
        self.on_message: MessageHandler = self._keep
        self._queue: list[bytes] = []

    @property
    def is_connected(self) -> bool:
        return self.session is not None and self.session.is_connected

    @property
    def is_closed(self) -> bool:
        return self.session is not None and self.session.is_closed

    @property
    def leader_id(self) -> int:
        assert self.session is not None
        return self.session.leader_member_id

    @property
    def id(self) -> int:
        assert self.session is not None
        return self.session.session_id

    def say(self, payloads: Sequence[bytes]) -> None:
        """Send these in order, each as soon as it is taken."""
        self._queue += payloads

    @property
    def has_said_all(self) -> bool:
        return not self._queue

    def do_work(self, now: Now) -> int:
        session = self.session
        assert session is not None
        work = session.do_work(now) + session.poll(self.on_message)
        while self._queue and session.is_connected and session.offer(self._queue[0]) > 0:
            del self._queue[0]
            work += 1
        return work

    def next_deadline_ns(self) -> int:
        assert self.session is not None
        deadline_ns = self.session.next_deadline_ns()
        return min(deadline_ns, self.session._now.ns + RETRY_NS) if self._queue else deadline_ns

    def _keep(self, timestamp: int, payload: Buffer) -> None:
        self.received.append(bytes(payload))

    def on_session_event(self, event: cm.SessionEvent) -> None:
        self.events.append(event)

    def on_new_leader(self, event: cm.NewLeaderEvent) -> None:
        self.leaders.append(event.leader_member_id)

    def on_admin_response(self, response: cm.AdminResponse) -> None:
        self.answers.append(response)


class System:
    """A cluster of `members`, all started; `services` of each are made anew at every start."""

    def __init__(
        self,
        members: int = 3,
        *,
        seed: int = 1,
        settings: MemberSettings | None = None,
        services: Callable[[], list[Chorus]] = lambda: [Chorus()],
        starts: Sequence[int] | None = None,
        on_build: Callable[[int, ConsensusModule], None] = lambda member_id, module: None,
    ) -> None:
        self.cluster = SimulatedCluster(
            World(seed), ClusterSpec(members), settings=settings or profile_settings("test")
        )
        self.cluster.build = self._build
        self.services: dict[int, list[Chorus]] = {}
        self.modules: dict[int, ConsensusModule] = {}
        self.clients: list[SystemClient] = []
        self._client_processes: list[SimulatedProcess] = []
        self._make_services = services
        self._on_build = on_build
        self._offline: dict[int, Callable[[RecordingLog], object]] = {}
        for member_id in range(members) if starts is None else starts:
            self.cluster.members[member_id].start()

    def _build(
        self, config: MemberConfig, ports: MemberPorts, services: Sequence[ClusteredService]
    ) -> list[MemberAgent]:
        change = self._offline.pop(config.member_id, None)
        if change is not None:
            log = RecordingLog(ports.storage)
            change(log)
            log.close()
        chorus = self.services[config.member_id] = self._make_services()
        cluster = replace(config.settings.cluster, service_count=len(chorus))
        config = replace(
            config,
            services=config.services[:1] * len(chorus),
            settings=replace(config.settings, cluster=cluster),
        )
        agents = build_together(config, ports, chorus)
        (module,) = (agent for agent in agents if isinstance(agent, ConsensusModule))
        self.modules[config.member_id] = module
        self._on_build(config.member_id, module)
        return agents

    # --- members ---

    @property
    def live(self) -> list[int]:
        return [member.member_id for member in self.cluster.members if member.alive]

    def start(self, *member_ids: int) -> None:
        """These members, or all that are down."""
        for member_id in member_ids or self.cluster.member_ids:
            self.cluster.members[member_id].start()

    def kill(self, *member_ids: int) -> None:
        for member_id in member_ids or self.cluster.member_ids:
            self.cluster.members[member_id].kill()

    def stop(self, *member_ids: int) -> None:
        """In good order."""
        for member_id in member_ids or self.cluster.member_ids:
            self.cluster.members[member_id].stop()

    def wipe(self, *member_ids: int) -> None:
        """Members that are down get an empty disk."""
        for member_id in member_ids:
            member = self.cluster.members[member_id]
            assert not member.alive
            member.replace_disk()

    def change_recording_log(self, member_id: int, change: Callable[[RecordingLog], object]) -> None:
        """What happens to the file of a member that is down, before its next start."""
        self._offline[member_id] = change

    def status(self, member_id: int) -> MemberStatus:
        return self.cluster.status()[member_id]

    def service(self, member_id: int, service_id: int = 0) -> Chorus:
        return self.services[member_id][service_id]

    def leader(self) -> int:
        """Wait until a leader serves and every live member leads or follows it."""
        cluster = self.cluster

        def is_settled() -> bool:
            statuses = cluster.status()
            return bool(self.live) and all(is_caught_up(statuses, member_id) for member_id in self.live)

        cluster.wait_until(is_settled, WAIT_S, "settled cluster")
        leader = cluster.leader()
        assert leader is not None
        return leader

    def followers(self) -> list[int]:
        leader = self.leader()
        return [member_id for member_id in self.live if member_id != leader]

    def counter(self, member_id: int, type_id: int, service_id: int | None = None) -> int:
        """A counter of the module, or of a service."""
        found = self.cluster.members[member_id].counters.find(type_id, cluster_key(0, service_id))
        return 0 if found is None else found.get()

    def elections(self, member_id: int) -> int:
        return self.counter(member_id, ELECTION_COUNT)

    def snapshot_counts(self) -> dict[int, int]:
        return {member_id: self.counter(member_id, SNAPSHOT_COUNT) for member_id in self.live}

    def snapshot_entries(self, member_id: int) -> list[tuple[int, int, bool]]:
        """Position, service and validity of the snapshots that a running member knows."""
        entries = self.modules[member_id].recording_log.entries
        return [(entry.log_position, entry.service_id, entry.is_valid) for entry in entries if entry.is_snapshot]

    # --- time ---

    def until(self, condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        self.cluster.wait_until(condition, timeout_s, what)

    def run_for(self, seconds: float) -> None:
        self.cluster.world.run_for(int(seconds * S))
        self.cluster.require_no_failure()

    # --- orders ---

    def toggle(self, order: ControlToggle) -> None:
        found = self.cluster.members[self.leader()].counters.find(CONTROL_TOGGLE, cluster_key(0))
        assert found is not None
        found.set(order)

    def is_neutral(self) -> bool:
        return self.counter(self.leader(), CONTROL_TOGGLE) == ControlToggle.NEUTRAL

    def snapshot(self) -> None:
        """Have one taken, and wait until every live member has it and goes on."""
        before = self.snapshot_counts()
        self.toggle(ControlToggle.SNAPSHOT)
        self.until(lambda: all(count > before[key] for key, count in self.snapshot_counts().items()), "snapshot")
        self.until(
            lambda: all(self.counter(each, CONSENSUS_MODULE_STATE) == ModuleState.ACTIVE for each in self.live),
            "active members",
        )

    def end(self, order: ControlToggle) -> None:
        """SHUTDOWN or ABORT, and wait until all members have ended."""
        self.toggle(order)
        self.until(lambda: not self.live, "end of all members")

    # --- clients ---

    def client(
        self, members: Sequence[int] | None = None, endpoints: Mapping[int, str] | None = None, **settings: object
    ) -> SystemClient:
        """A connected client that knows all members, or only these, by their `endpoints` or other ones."""
        client = self.connecting_client(members, endpoints, **settings)
        self.until(lambda: client.is_connected or client.is_closed, "session")
        assert client.session is not None
        assert client.is_connected, client.session.error
        return client

    def connecting_client(
        self, members: Sequence[int] | None = None, endpoints: Mapping[int, str] | None = None, **settings: object
    ) -> SystemClient:
        cluster = self.cluster
        host = f"party-{len(self.clients) + 1}"
        client = SystemClient()
        process = SimulatedProcess(cluster.world, host, host, on_exit=lambda _process: None)
        driver = MediaDriver(
            cluster.fabric.network(process),
            StaticResolver(),
            cluster.settings.media,
            cluster.world.stream(host),
            name=host,
        )
        endpoints = endpoints or cluster.ingress_endpoints
        known = {each: endpoints[each] for each in (endpoints if members is None else members)}
        client.session = ClusterClient(
            driver,
            known,
            random=cluster.world.stream(f"{host}/session"),
            listener=client,
            **settings,  # type: ignore[arg-type]
        )
        agents: list[Agent] = [driver, client]
        process.start(agents)
        self.clients.append(client)
        self._client_processes.append(process)
        return client

    def follow(self, client: SystemClient) -> None:
        """Wait until the client is connected to the leader that serves now."""
        leader = self.leader()
        term = self.status(leader).leadership_term_id
        session = client.session
        assert session is not None
        self.until(lambda: session.is_connected and session.leadership_term_id == term, "session with the leader")

    def forget(self, client: SystemClient) -> None:
        """The client's process is killed."""
        process = self._client_processes[self.clients.index(client)]
        process.kill()
        self.cluster.fabric.kill(process)

    def say(self, client: SystemClient, payloads: Sequence[bytes]) -> None:
        """Send, without waiting for answers."""
        process = self._client_processes[self.clients.index(client)]
        process.post(lambda: client.say(payloads))
        self.until(lambda: client.has_said_all, "taking of the messages")

    def echo(self, client: SystemClient, payloads: Sequence[bytes]) -> None:
        """Send, and wait for all answers."""
        wanted = len(client.received) + len(payloads)
        process = self._client_processes[self.clients.index(client)]
        process.post(lambda: client.say(payloads))
        self.until(lambda: len(client.received) >= wanted, f"{len(payloads)} answers")

    def act(self, client: SystemClient, action: Callable[[ClusterClient], object]) -> None:
        """Let the client's process do something with its session."""
        process = self._client_processes[self.clients.index(client)]
        session = client.session
        assert session is not None
        process.post(lambda: action(session) and None)

    def await_messages(self, count: int) -> None:
        """All services of all live members have this many messages, the same ones."""

        def agree() -> bool:
            heard = [service.messages for member_id in self.live for service in self.services[member_id]]
            return all(len(messages) == count and messages == heard[0] for messages in heard)

        self.until(agree, f"{count} messages everywhere: {self.counts()}")

    def counts(self) -> dict[int, int]:
        return {member_id: len(self.service(member_id).messages) for member_id in self.live}

    def roles(self) -> list[str | None]:
        return [self.status(member_id).role for member_id in self.live]

    def has_lost_its_leader(self) -> bool:
        return all(status.role != LEADER for status in self.cluster.status() if status.alive)


def numbered(prefix: str, count: int, size: int = 0) -> list[bytes]:
    """Messages that differ, each at least `size` bytes long."""
    return [f"{prefix}-{number}".encode().ljust(size, b".") for number in range(count)]
