"""Small parts that the tests of the simulated world play with: a process owner, a talker and an echoing agent."""

from collections.abc import Callable, Sequence

from upheaval.runtimes.simulated.network import Fabric
from upheaval.runtimes.simulated.process import SimulatedProcess
from upheaval.runtimes.simulated.world import World
from upheaval_node.ports import Connection
from upheaval_node.types import NEVER_NS, Now


class Direct:
    """An owner without a loop: what is posted to it runs at once."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.alive = True

    @property
    def host(self) -> str:
        return self._host

    def deliver(self, action: Callable[[], None]) -> None:
        action()

    def post(self, action: Callable[[], None]) -> None:
        action()


class Talker:
    """A connection handler that notes what happens, and sends a block when it is connected, as fast as it may."""

    def __init__(self, world: World, to_send: bytes = b"", *, echoes: bool = False) -> None:
        self._world = world
        self._to_send = to_send
        self._echoes = echoes
        self.connection: Connection | None = None
        self.received = bytearray()
        self.chunks: list[tuple[int, int]] = []
        self.closed = ""
        self.closed_ns = 0

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection
        self.on_writable()

    def on_data(self, data: memoryview) -> None:
        self.received += data
        self.chunks.append((self._world.now_ns, len(data)))
        if self._echoes:
            self._to_send += bytes(data)
            self.on_writable()

    def on_writable(self) -> None:
        while self._to_send and self.connection is not None:
            sent = self.connection.send([self._to_send])
            self._to_send = self._to_send[sent:]
            if sent == 0:
                break

    def say(self, text: bytes) -> None:
        self._to_send += text
        self.on_writable()

    def on_closed(self, reason: str) -> None:
        self.closed = reason
        self.closed_ns = self._world.now_ns


class Pair:
    """Two hosts, `a` and `b`; `b` listens on port 1."""

    def __init__(self, seed: int = 1, to_send: bytes = b"") -> None:
        self.world = World(seed)
        self.fabric = Fabric(self.world)
        self.client_owner = Direct("a")
        self.server_owner = Direct("b")
        self.server = Talker(self.world)
        self.client = Talker(self.world, to_send)
        self.fabric.network(self.server_owner).listen("b:1", self._accept)
        self.fabric.network(self.client_owner).dial("b:1", self.client)

    def _accept(self, connection: Connection) -> Talker:
        self.server.connection = connection
        return self.server


class Beacon:
    """An agent that does something each interval, and counts."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._due_ns = 0
        self.times: list[int] = []

    def do_work(self, now: Now) -> int:
        if now.ns < self._due_ns:
            return 0
        self._due_ns = now.ns + self._interval_ns
        self.times.append(now.ns)
        return 1

    def next_deadline_ns(self) -> int:
        return self._due_ns


class Failing:
    """An agent that raises what it was given when its time comes."""

    def __init__(self, error: Exception, due_ns: int) -> None:
        self._error = error
        self._due_ns = due_ns

    def do_work(self, now: Now) -> int:
        if now.ns >= self._due_ns:
            raise self._error
        return 0

    def next_deadline_ns(self) -> int:
        return self._due_ns


class Spinning:
    """An agent that always has a deadline in the past and never has work."""

    def do_work(self, now: Now) -> int:
        return 0

    def next_deadline_ns(self) -> int:
        return 0


class Passive:
    """An agent that only looks at what was posted."""

    def do_work(self, now: Now) -> int:
        return 0

    def next_deadline_ns(self) -> int:
        return NEVER_NS


def running(world: World, agents: Sequence[Beacon | Failing | Spinning | Passive], host: str = "a") -> SimulatedProcess:
    process = SimulatedProcess(world, host, host, on_exit=lambda _process: None)
    process.start(agents)
    return process
