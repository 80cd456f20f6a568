"""Whole members (media driver, archive, consensus module, echo service) on one memory network, in virtual time.

Everything runs when the test says so, in a fixed order: one seed gives one run. Members can be killed, closed in good
order, started again on their disks, and cut off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from support.archive_world import Syncs
from support.media_world import RecordedErrors
from support.memory_network import MemoryConnection, MemoryListener, MemoryNetwork
from support.memory_storage import MemoryStorage
from upheaval_node.archive.archive import Archive
from upheaval_node.client.session import ClusterClient
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.election_states import Role
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.counters import Counters
from upheaval_node.errors import NodeError, TerminationError
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Agent, Buffer, Connection, ConnectionHandler
from upheaval_node.service.api import ClientSession, Cluster, ClusteredService, SnapshotImage, SnapshotPublication
from upheaval_node.service.container import ServiceContainer
from upheaval_node.settings import MemberSettings, profile_settings
from upheaval_node.types import MS, Now

EPOCH_MS = 1_700_000_000_000


def members_string(count: int) -> str:
    return "|".join(f"{i},m{i}:1,m{i}:2,m{i}:3,m{i}:4,m{i}:5" for i in range(count))


class EchoService(ClusteredService):
    """Answers with what it got, and keeps everything with its position."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, bytes]] = []
        self.opened: list[int] = []
        self.closed: list[tuple[int, str]] = []
        self.terms: list[int] = []

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        self.opened.append(session.id)

    def on_session_close(self, session: ClientSession, timestamp: int, reason: object) -> None:
        self.closed.append((session.id, str(getattr(reason, "name", reason))))

    def on_new_leadership_term_event(self, **fields: object) -> None:
        self.terms.append(int(str(fields["leadership_term_id"])))

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        self.messages.append((position, bytes(payload)))
        if session is not None:
            session.respond(payload)


class KeepingService(EchoService):
    """An echo service whose messages are its state, snapshots included."""

    def __init__(self) -> None:
        super().__init__()
        self.started_with = 0
        self.snapshots: list[int] = []
        self.cluster: Cluster | None = None

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        self.cluster = cluster
        while snapshot_image is not None and (message := snapshot_image.read()) is not None:
            self.messages.append((int.from_bytes(message[:8], "little"), message[8:]))
        self.started_with = len(self.messages)

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        assert self.cluster is not None
        self.snapshots.append(self.cluster.log_position)
        for position, payload in self.messages:
            publication.offer(position.to_bytes(8, "little"), payload)


class RecordedTrace:
    """A `Tracer` that keeps its events."""

    def __init__(self) -> None:
        self.events: list[tuple[int, str, dict[str, int | str | bool | None]]] = []

    def emit(self, now: Now, event: str, **fields: int | str | bool | None) -> None:
        self.events.append((now.ns, event, fields))

    def named(self, event: str) -> list[dict[str, int | str | bool | None]]:
        return [fields for _, name, fields in self.events if name == event]


class HostNetwork:
    """`ports.Network` of one host: knows what to break when the host dies or is cut off."""

    def __init__(self, network: MemoryNetwork, host: str) -> None:
        self._network = network
        self._host = host
        self._listeners: list[MemoryListener] = []
        self._ends: list[MemoryConnection] = []
        self.is_cut_off = False

    def listen(self, address: str, accept: Callable[[Connection], ConnectionHandler]) -> MemoryListener:
        def accept_here(connection: Connection) -> ConnectionHandler:
            assert isinstance(connection, MemoryConnection)
            self._ends.append(connection)
            return accept(connection)

        listener = self._network.listen(address, accept_here)
        self._listeners.append(listener)
        return listener

    def dial(self, address: str, handler: ConnectionHandler) -> MemoryConnection:
        end = self._network.dial("nowhere:1" if self.is_cut_off else address, handler)
        self._ends.append(end)
        return end

    def break_all(self, *, is_dead: bool) -> None:
        """Every connection is reset; a dead host does not even learn of it, and listens no more."""
        for end in self._ends:
            if not end.is_open:
                continue
            end.is_open = False
            other = end.other
            for each in (end, other):
                if each in self._network.connections:
                    self._network.connections.remove(each)
            if other is not None and other.is_open:
                other.is_open = False
                if other.handler is not None:
                    other.handler.on_closed("connection reset")
            if not is_dead and end.handler is not None:
                end.handler.on_closed("connection reset")
        self._ends.clear()
        if is_dead:
            for listener in self._listeners:
                listener.close()
            self._listeners.clear()

    def cut_off(self) -> None:
        """Nothing gets in or out until `rejoin`."""
        self.is_cut_off = True
        self._network.refused.update(listener.address for listener in self._listeners)
        self.break_all(is_dead=False)

    def rejoin(self) -> None:
        self.is_cut_off = False
        self._network.refused.difference_update(listener.address for listener in self._listeners)


@dataclass(slots=True)
class Member:
    id: int
    storage: MemoryStorage
    network: HostNetwork
    driver: MediaDriver
    counters: Counters
    archive: Archive
    module: ConsensusModule
    containers: list[ServiceContainer]
    services: Sequence[EchoService]
    trace: RecordedTrace
    errors: RecordedErrors
    agents: list[Agent | Syncs]
    ended: NodeError | None = None

    @property
    def container(self) -> ServiceContainer:
        return self.containers[0]

    @property
    def service(self) -> EchoService:
        return self.services[0]

    @property
    def is_leader(self) -> bool:
        return self.module.role is Role.LEADER and self.module.election is None and self.is_active

    @property
    def is_follower(self) -> bool:
        return self.module.role is Role.FOLLOWER and self.module.election is None and self.is_active

    @property
    def is_active(self) -> bool:
        return self.ended is None and self.module.state is ModuleState.ACTIVE


@dataclass(slots=True)
class Client:
    driver: MediaDriver
    session: ClusterClient
    received: list[bytes] = field(default_factory=list)

    def poll(self) -> int:
        return self.session.poll(lambda _, payload: self.received.append(bytes(payload)))

    def offer(self, payload: Buffer) -> int:
        return self.session.offer(payload)


class ClusterWorld:
    def __init__(
        self,
        count: int = 3,
        *,
        seed: int = 1,
        settings: MemberSettings | None = None,
        services: Callable[[], Sequence[EchoService]] = lambda: [EchoService()],
    ) -> None:
        self.count = count
        self.services = services
        self.network = MemoryNetwork()
        chosen = settings or profile_settings("test")
        self.settings = replace(chosen, cluster=replace(chosen.cluster, service_count=len(services())))
        self.random = Random(seed)
        self.ns = 1_000_000_000
        self.storages = [MemoryStorage() for _ in range(count)]
        self.members: dict[int, Member] = {}
        self.clients: list[Client] = []
        # Agents on the network that are neither members nor clients.
        self.parties: list[Agent] = []
        # Members whose process is paused (SIGSTOP): their connections live on.
        self.paused: set[int] = set()

    # --- members ---

    def start_all(self) -> None:
        for member_id in range(self.count):
            self.start(member_id)

    def start(self, member_id: int) -> Member:
        """Start a member on its disk."""
        storage = self.storages[member_id]
        settings = self.settings
        network = HostNetwork(self.network, f"m{member_id}")
        counters = Counters.in_memory(512)
        errors = RecordedErrors()
        trace = RecordedTrace()
        driver = MediaDriver(
            network, StaticResolver(), settings.media, Random(self.random.random()), counters, errors=errors
        )
        archive = Archive(
            driver,
            storage,
            counters,
            settings.archive,
            Random(self.random.random()),
            errors,
            control_channel=f"aeron:tcp?endpoint=m{member_id}:5",
            archive_id=member_id,
        )
        context = ModuleContext(
            driver, storage, counters, settings, members_string(self.count), member_id, trace, errors
        )
        module = ConsensusModule(context, Random(self.random.random()))
        services = self.services()
        containers = [
            ServiceContainer(
                driver, counters, service, settings.cluster, service_id=service_id, tracer=trace, errors=errors
            )
            for service_id, service in enumerate(services)
        ]
        agents: list[Agent | Syncs] = [driver, Syncs(storage), archive, module, *containers]
        member = Member(
            member_id, storage, network, driver, counters, archive, module, containers, services, trace, errors, agents
        )
        self.members[member_id] = member
        return member

    def kill(self, member_id: int) -> None:
        """SIGKILL: nothing is said, connections are reset, what was written stays."""
        self.members.pop(member_id).network.break_all(is_dead=True)

    def close(self, member_id: int) -> None:
        """An orderly end: each component says good-bye, and what it said is sent."""
        member = self.members[member_id]
        for container in member.containers:
            container.close()
        member.module.close(self.now)
        for _ in range(20):
            self.turn()
        member.archive.close()
        member.driver.close()
        self.settle()
        self.kill(member_id)

    # --- time ---

    @property
    def now(self) -> Now:
        return Now(self.ns, EPOCH_MS + self.ns // MS, self.ns % MS)

    def turn(self) -> int:
        """One round of all agents and one step of the network."""
        work = 0
        now = self.now
        for member in list(self.members.values()):
            if member.ended is not None or member.id in self.paused:
                continue
            work += self._run(member, now)
        for client in self.clients:
            work += client.driver.do_work(now) + client.session.do_work(now) + client.poll()
        for party in self.parties:
            work += party.do_work(now)
        return work + self.network.step()

    @staticmethod
    def _run(member: Member, now: Now) -> int:
        """A service that ends in an orderly way leaves its module to go on; every other end is the member's."""
        work = 0
        for agent in list(member.agents):
            try:
                work += agent.do_work(now)
            except TerminationError as error:
                if not (error.expected and isinstance(agent, ServiceContainer)):
                    member.ended = error
                    break
                member.agents.remove(agent)
        return work

    def settle(self, rounds: int = 2000) -> None:
        for _ in range(rounds):
            if self.turn() == 0:
                return
        raise AssertionError("the world does not settle")

    def advance(self, ms: int, step_ms: int = 10) -> None:
        for _ in range(0, ms, step_ms):
            self.settle()
            self.ns += step_ms * MS
        self.settle()

    def until(self, condition: Callable[[], bool], ms: int = 60_000, step_ms: int = 10) -> None:
        """Run, letting time pass, until the condition holds."""
        for _ in range(0, ms, step_ms):
            self.settle()
            if condition():
                return
            self.ns += step_ms * MS
        raise AssertionError(f"the condition does not come true\n{self.describe()}")

    def describe(self) -> str:
        lines = []
        for member in self.members.values():
            module = member.module
            election = module.election
            state = "none" if election is None else election.state.name
            lines.append(
                f"member {member.id}: {module.state.name} {module.role.name} election={state} "
                f"term={module.leadership_term_id} commit={module.commit_position} ended={member.ended}"
            )
            lines += [f"    {text}" for text in member.errors.texts[-6:]]
        return "\n".join(lines)

    # --- the cluster ---

    def leader(self) -> Member | None:
        """The member that leads the highest term."""
        leading = [member for member in self.members.values() if member.is_leader]
        return max(leading, key=lambda member: member.module.leadership_term_id) if leading else None

    def await_leader(self) -> Member:
        self.until(lambda: self.leader() is not None)
        leader = self.leader()
        assert leader is not None
        return leader

    def await_all(self) -> Member:
        """All running members are done with their elections."""
        self.until(
            lambda: all(m.is_leader or m.is_follower for m in self.members.values()) and self.leader() is not None
        )
        return self.await_leader()

    def followers(self) -> list[Member]:
        leader = self.leader()
        return [member for member in self.members.values() if member is not leader]

    def client(self) -> Client:
        """A connected client."""
        driver = MediaDriver(self.network, StaticResolver(), self.settings.media, Random(self.random.random()))
        endpoints = {member_id: f"m{member_id}:1" for member_id in range(self.count)}
        session = ClusterClient(driver, endpoints, random=Random(self.random.random()))
        client = Client(driver, session)
        self.clients.append(client)
        self.until(lambda: session.is_connected or session.is_closed)
        assert session.is_connected, session.error
        return client

    def send(self, client: Client, payloads: Sequence[bytes]) -> None:
        """Offer all payloads, waiting where the transport does not take one."""
        for payload in payloads:
            for _ in range(5000):
                if client.offer(payload) > 0:
                    break
                if self.turn() == 0:
                    self.ns += 10 * MS
            else:
                raise AssertionError(f"offer is refused: {client.session.state}\n{self.describe()}")

    def echo(self, client: Client, payloads: Sequence[bytes]) -> None:
        """Send, and wait for all answers."""
        wanted = len(client.received) + len(payloads)
        self.send(client, payloads)
        self.until(lambda: len(client.received) >= wanted)
