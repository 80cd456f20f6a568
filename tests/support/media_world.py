"""Media drivers and clients on a memory network, with a clock that only the test moves."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Protocol

from support.memory_network import DEFAULT_CAPACITY, MemoryNetwork
from upheaval_node.media.api import Block, Image, Message, Publication, Subscription
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.settings import KIB, MediaSettings
from upheaval_node.turns import Turns
from upheaval_node.types import MS, Now

SETTINGS = MediaSettings(term_length=64 * KIB, ipc_term_length=64 * KIB, redial_interval_ns=20 * MS)


class RecordedErrors:
    """An `ErrorSink` that keeps what was reported."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def report(self, now: Now, kind: str, text: str) -> None:
        self.texts.append(f"{kind}: {text}")


class Worker(Protocol):
    """The part of an agent that a world drives."""

    def do_work(self, now: Now) -> int: ...


class World:
    """Agents that share a network and a clock."""

    def __init__(
        self,
        pieces: Iterator[int] | None = None,
        capacity: int = DEFAULT_CAPACITY,
        settings: MediaSettings = SETTINGS,
        seed: int = 1,
    ) -> None:
        self.network = MemoryNetwork(pieces, capacity)
        self.settings = settings
        self.random = Random(seed)
        self.errors = RecordedErrors()
        self.agents: list[Worker] = []
        self._turns: dict[Worker, Turns] = {}
        self.ns = 1_000_000

    def driver(self, **changes: int) -> MediaDriver:
        settings = replace(self.settings, **changes)
        driver = MediaDriver(self.network, StaticResolver(), settings, Random(self.random.random()), errors=self.errors)
        self.agents.append(driver)
        self._turns[driver] = Turns((driver,))
        return driver

    @property
    def now(self) -> Now:
        return Now(self.ns, self.ns // MS)

    def turn(self) -> int:
        """One round of all agents, drivers only when they are rung or due, and one step of the network."""
        work = 0
        for agent in self.agents:
            turns = self._turns.get(agent)
            if turns is None:
                work += agent.do_work(self.now)
            else:
                turns.begin(self.ns)
                work += turns.take(self.now)
                turns.due_ns(self.ns)
        return work + self.network.step()

    def settle(self, rounds: int = 20_000) -> None:
        """Run until nothing happens any more, without letting time pass."""
        for _ in range(rounds):
            if self.turn() == 0:
                return
        raise AssertionError("the world does not settle")

    def advance(self, ms: int, step_ms: int = 20) -> None:
        """Let time pass in steps, settling after each."""
        self.settle()
        for _ in range(0, ms, step_ms):
            self.ns += step_ms * MS
            self.settle()


def offer(world: World, publication: Publication, *payloads: bytes) -> None:
    """Offer each payload, running the world while there is back pressure."""
    for payload in payloads:
        for _ in range(1000):
            if publication.offer(payload) > 0:
                break
            world.turn()
        else:
            raise AssertionError(f"offer is refused: {publication.offer(payload)}")


def collect(source: Image | Subscription, limit: int = 1 << 30) -> list[bytes]:
    """The payloads that a poll delivers now."""
    received: list[bytes] = []

    def take(message: Message) -> None:
        received.append(bytes(message.payload))

    source.poll(take, limit)
    return received


def drain_blocks(image: Image) -> list[Block]:
    """Take and consume all blocks that are there now."""
    blocks: list[Block] = []
    while (block := image.next_block()) is not None:
        blocks.append(block)
        image.consume(block.end)
    return blocks
