"""Observed media: each whole message is shown once, whatever takes it; nothing else changes."""

from support.media_world import World
from upheaval_node.media.api import Abort, Message
from upheaval_node.media.observed import ObservedMedia
from upheaval_node.ports import Tracer
from upheaval_node.protocol.frames import TYPE_DATA

Shown = tuple[str, str, int, bytes]


class Seen:
    """A `MessageObserver` that keeps what it sees."""

    def __init__(self) -> None:
        self.shown: list[Shown] = []
        self.positions: list[int] = []

    def on_message(
        self, component: str, direction: str, stream_id: int, peer: str, position: int, payload: bytes
    ) -> None:
        self.shown.append((component, direction, stream_id, payload))
        self.positions.append(position)

    def tracer(self, tracer: Tracer, component: str) -> Tracer:
        return tracer

    def of(self, direction: str) -> list[bytes]:
        return [payload for _, each, _, payload in self.shown if each == direction]


class Pair:
    """A publication and a subscription of one ipc stream, on observed media."""

    def __init__(self, stream_id: int = 101, *, sees_logs: bool = True, term_length: str = "64k") -> None:
        self.world = World()
        self.seen = Seen()
        driver = self.world.driver()
        media = ObservedMedia(driver, self.seen, "tested", sees_logs=sees_logs)
        self.available: list[object] = []
        self.gone: list[object] = []
        self.publication = media.add_publication(f"aeron:ipc?term-length={term_length}", stream_id)
        self.subscription = media.add_subscription(
            "aeron:ipc", stream_id, on_available=self.available.append, on_unavailable=self.gone.append
        )
        self.world.settle()


def test_messages_are_shown_when_they_are_taken_and_when_they_are_delivered() -> None:
    pair = Pair()
    assert pair.publication.offer(b"one") > 0
    assert pair.publication.offer(b"t", b"wo") > 0
    assert pair.seen.shown == [("tested", "send", 101, b"one"), ("tested", "send", 101, b"two")]
    got: list[bytes] = []
    pair.subscription.poll(lambda message: got.append(bytes(message.payload)), 10)
    assert got == pair.seen.of("receive") == [b"one", b"two"]
    assert pair.seen.positions == [64, 128, 64, 128]


def test_a_message_that_comes_again_is_shown_once() -> None:
    pair = Pair()
    pair.publication.offer(b"one")
    refusals = [True, True, False]

    def refuse_twice(message: Message) -> None:
        if refusals.pop(0):
            raise Abort

    for _ in range(3):
        pair.subscription.poll(refuse_twice, 10)
    assert refusals == []
    assert pair.seen.of("receive") == [b"one"]


def test_what_is_not_taken_is_not_shown() -> None:
    world = World()
    seen = Seen()
    media = ObservedMedia(world.driver(), seen, "tested", sees_logs=True)
    publication = media.add_publication("aeron:ipc", 101)
    assert publication.offer(b"nobody listens") < 0
    assert seen.shown == []


def test_blocks_are_shown_as_far_as_they_are_consumed() -> None:
    pair = Pair()
    long = bytes(range(256)) * 12
    for payload in (b"one", long, b"three"):
        assert pair.publication.offer(payload) > 0
    (image,) = pair.subscription.images
    assert image is pair.available[0] is pair.subscription.image(image.session_id)
    block = image.next_block()
    assert block is not None
    image.consume(block.start + 64)
    assert pair.seen.of("receive") == [b"one"]
    while (block := image.next_block()) is not None:
        image.consume(block.end)
    assert pair.seen.of("receive") == [b"one", long, b"three"]
    pair.publication.close()
    pair.world.settle()
    assert pair.gone == [image]


def test_runs_of_frames_are_shown_message_by_message() -> None:
    pair = Pair(stream_id=100)
    block = bytearray()
    for payload in (b"first", b"second"):
        header = (32 + len(payload)).to_bytes(4, "little") + bytes([0, 0xC0]) + TYPE_DATA.to_bytes(2, "little")
        block += header + bytes(24) + payload + bytes(-len(payload) % 32)
    assert pair.publication.offer_frames(block) == 128
    assert pair.seen.of("send") == [b"first", b"second"]
    assert pair.seen.positions == [64, 128]


def test_contents_are_no_messages() -> None:
    for pair in (Pair(stream_id=106), Pair(stream_id=107)):
        pair.publication.offer(b"a part of a snapshot")
        assert pair.seen.of("send") == []
    archive = Pair(stream_id=100, sees_logs=False)
    (image,) = archive.subscription.images
    archive.publication.offer(b"an entry")
    block = image.next_block()
    assert block is not None
    image.consume(block.end)
    assert archive.seen.of("receive") == []
