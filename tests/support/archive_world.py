"""Archives on media drivers in one memory network, with storage in memory and a clock that only the test moves."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from support.archive_requests import RequestingClient
from support.media_world import World
from support.memory_storage import MemoryStorage
from upheaval_node.archive.archive import Archive
from upheaval_node.archive.calls import PendingCall
from upheaval_node.counters import RECORDING_POSITION, Counter, Counters, recording_key_prefix
from upheaval_node.media.api import Image
from upheaval_node.media.driver import MediaDriver
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.settings import KIB, ArchiveSettings
from upheaval_node.types import Now

SETTINGS = ArchiveSettings(segment_length=64 * KIB, catalog_capacity=4 * KIB)


class Syncs:
    """Completes the syncs of a storage, unless a test holds them back."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage = storage
        self.is_held = False

    def do_work(self, now: Now) -> int:
        return 0 if self.is_held else self.storage.run_syncs()


@dataclass(slots=True)
class Member:
    """One host: driver, counters, disk, archive and a client of it."""

    driver: MediaDriver
    counters: Counters
    storage: MemoryStorage
    syncs: Syncs
    archive: Archive
    client: RequestingClient

    def counter(self, recording_id: int) -> Counter | None:
        return self.counters.find(RECORDING_POSITION, recording_key_prefix(recording_id))


class ArchiveWorld(World):
    """Members that come and go; `call` and `until` run them until something happened."""

    def member(
        self,
        storage: MemoryStorage | None = None,
        settings: ArchiveSettings = SETTINGS,
        *,
        control_channel: str | None = None,
        archive_id: int = 7,
    ) -> Member:
        """A started member with a connected client."""
        storage = storage if storage is not None else MemoryStorage()
        driver = self.driver()
        counters = Counters.in_memory(512)
        syncs = Syncs(storage)
        archive = Archive(
            driver,
            storage,
            counters,
            settings,
            Random(self.random.random()),
            self.errors,
            control_channel=control_channel,
            archive_id=archive_id,
        )
        self.agents += [syncs, archive]
        member = Member(driver, counters, storage, syncs, archive, self.client(driver))
        self.until(lambda: member.client.is_connected)
        return member

    def client(self, driver: MediaDriver, **arguments: str) -> RequestingClient:
        client = RequestingClient(driver, name="test", **arguments)
        self.agents.append(client)
        return client

    def remove(self, member: Member) -> None:
        """The process of a member is gone, without a word."""
        for agent in (member.driver, member.syncs, member.archive, member.client):
            self.agents.remove(agent)
        self.network.cut()
        for address in list(self.network.listeners):
            self.network.listeners[address].close()

    def shut_down(self, member: Member) -> None:
        """The orderly end of a member."""
        member.archive.close()
        self.settle()
        self.remove(member)

    def until(self, condition: Callable[[], bool], ms: int = 20_000) -> None:
        """Run, letting time pass, until the condition holds."""
        for _ in range(0, ms, 20):
            self.settle()
            if condition():
                return
            self.ns += 20_000_000
        raise AssertionError("the condition does not come true")

    def call(self, call: PendingCall) -> int:
        """The answer of a request that must succeed."""
        self.until(lambda: call.done)
        assert call.error is None, call.error
        return call.relevant_id

    def refused(self, call: PendingCall) -> tuple[int, str]:
        """Error code and text of a request that must fail."""
        self.until(lambda: call.done)
        assert call.error is not None
        return call.error_code, call.error


def signals_of(client: RequestingClient) -> list[RecordingSignal | int]:
    return [signal.signal for signal in client.take_signals()]


def stream_session(replay_session_id: int) -> int:
    """The session id of the stream that a replay sends: the low 32 bits, signed."""
    return ((replay_session_id & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def replay_all(
    world: ArchiveWorld, member: Member, recording_id: int, position: int = -1, length: int = -2
) -> list[tuple[int, bytes]]:
    """End positions and payloads of the messages of a replay that ends by itself."""
    replay = world.call(member.client.replay(recording_id, position, length, "aeron:ipc", 900))
    return follow(world, member, replay)


def follow(world: ArchiveWorld, member: Member, replay_session_id: int) -> list[tuple[int, bytes]]:
    """Subscribe to a replay and take its messages until it ends."""
    images: list[Image] = []
    channel = f"aeron:ipc?session-id={stream_session(replay_session_id)}"
    subscription = member.driver.add_subscription(channel, 900, on_available=images.append)
    received: list[tuple[int, bytes]] = []

    def is_over() -> bool:
        for image in images:
            image.poll(lambda message: received.append((message.position, bytes(message.payload))), 10_000)
        return bool(images) and images[0].is_closed

    world.until(is_over)
    subscription.close()
    return received
