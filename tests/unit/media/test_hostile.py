"""Peers that send anything: only their own connection suffers, and memory stays bounded."""

import struct

import pytest
from hypothesis import given, settings, strategies as st

from support.media_world import World, collect, offer
from upheaval_node.media.api import Publication, Subscription
from upheaval_node.media.endpoints import MAX_SETUPS_PER_LINK, MAX_TOKENS_PER_LINK
from upheaval_node.media.link import MAX_STREAMS, pack_extension, pack_token, pad_frame
from upheaval_node.ports import Connection
from upheaval_node.protocol.frames import DataHeader, Setup, StatusMessage

TERM = 64 * 1024
CHANNEL = "aeron:tcp?endpoint=b:1"
SETUP = Setup(0, 66, 10, 5, 5, TERM, 1408)


class RawPeer:
    """The end of a connection that a test speaks by hand."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.connection: Connection | None = None
        self.is_closed = False

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection

    def on_data(self, data: memoryview) -> None:
        self.received += data

    def on_writable(self) -> None:
        pass

    def on_closed(self, reason: str) -> None:
        self.is_closed = True

    def send(self, *frames: bytes) -> None:
        assert self.connection is not None
        data = b"".join(pad_frame(frame) for frame in frames)
        assert self.connection.send([data]) == len(data)


def data_frame(offset: int, payload: bytes = b"x", *, session: int = 66, term: int = 5, flags: int = 0xC0) -> bytes:
    return DataHeader(32 + len(payload), flags, 1, offset, session, 10, term).pack() + payload


def stage() -> tuple[World, RawPeer, Subscription, Publication]:
    """A receiver with one honest publisher, and a raw connection to it."""
    world = World()
    honest, receiver = world.driver(), world.driver()
    subscription = receiver.add_subscription(CHANNEL, 10)
    publication = honest.add_publication(CHANNEL, 10, session_id=5001)
    peer = RawPeer()
    world.network.dial("b:1", peer)
    world.settle()
    return world, peer, subscription, publication


def check_honest_stream(world: World, subscription: Subscription, publication: Publication) -> None:
    image = subscription.image(5001)
    assert image is not None
    offer(world, publication, b"honest", b"work" * 1000)
    world.settle()
    assert collect(image)[-2:] == [b"honest", b"work" * 1000]


def joined() -> tuple[World, RawPeer, Subscription, Publication]:
    world, peer, subscription, publication = stage()
    peer.send(SETUP.pack())
    world.settle()
    assert subscription.image(66) is not None
    return world, peer, subscription, publication


@pytest.mark.parametrize(
    "frames",
    [
        [data_frame(32)],
        [data_frame(0), data_frame(0)],
        [data_frame(0, term=6)],
        [data_frame(0, session=67)],
        [data_frame(0), struct.pack("<iBBHiiiiq", 1 << 30, 0, 0xC0, 1, 64, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", -1, 0, 0xC0, 1, 0, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", 8, 0, 0xC0, 1, 0, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", TERM + 32, 0, 0xC0, 0, 0, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", 33, 0, 0xC0, 0, 0, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", 64, 0, 0xC0, 0, 64, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", 32, 1, 0xC0, 5, 0, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", 32, 0, 0xC0, 2, 0, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", 32, 0, 0xC0, 77, 0, 66, 10, 5, 0)],
        [struct.pack("<iBBHiiiiq", 0, 0, 0xC0, 5, 0, 66, 10, 5, 0)],
        [DataHeader(0, 0xC0, 1, 32, 66, 10, 5).pack()],
        [DataHeader(0, 0xE0, 1, 0, 66, 10, 4).pack()],
        [SETUP._replace(term_length=TERM * 2).pack()],
        [SETUP._replace(term_length=TERM + 1).pack()],
        [SETUP._replace(initial_term_id=4).pack()],
        [SETUP._replace(mtu=1).pack()],
        [pack_extension(b"{}")],
        [b"\xff" * 32],
        [b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"],
    ],
)
def test_a_frame_that_breaks_the_protocol_closes_only_its_connection(frames: list[bytes]) -> None:
    world, peer, subscription, publication = joined()
    peer.send(*frames)
    world.settle()
    assert peer.is_closed
    assert len(world.errors.texts) == 1
    check_honest_stream(world, subscription, publication)


def test_data_before_the_receiver_asked_closes_the_connection() -> None:
    world, peer, subscription, publication = stage()
    peer.send(SETUP.pack(), data_frame(0))
    world.settle()
    assert peer.is_closed
    check_honest_stream(world, subscription, publication)


def test_a_flood_of_setups_closes_the_connection() -> None:
    world, peer, subscription, publication = stage()
    peer.send(*(SETUP._replace(session_id=session).pack() for session in range(MAX_SETUPS_PER_LINK + 1)))
    world.settle()
    assert peer.is_closed
    check_honest_stream(world, subscription, publication)


def test_slow_setups_are_limited_as_well() -> None:
    world, peer, subscription, publication = stage()
    for session in range(MAX_STREAMS + 1):
        if not peer.is_closed:
            peer.send(SETUP._replace(session_id=session).pack())
            world.settle()
    assert peer.is_closed
    assert len(subscription.images) <= MAX_STREAMS + 2
    world.advance(11_000, 100)
    assert [image.session_id for image in subscription.images] == [5001]
    check_honest_stream(world, subscription, publication)


def test_a_flood_of_response_tokens_closes_the_connection() -> None:
    world, peer, subscription, publication = stage()
    peer.send(*(pack_token(token, 20) for token in range(MAX_TOKENS_PER_LINK + 1)))
    world.settle()
    assert peer.is_closed
    check_honest_stream(world, subscription, publication)


def test_a_connection_that_says_nothing_is_closed() -> None:
    world, peer, subscription, publication = stage()
    world.advance(6000, 100)
    assert peer.is_closed
    assert world.errors.texts == []
    check_honest_stream(world, subscription, publication)


def test_a_message_that_never_ends_is_not_collected_beyond_the_maximum() -> None:
    world, peer, subscription, publication = joined()
    image = subscription.image(66)
    assert image is not None
    peer.send(data_frame(0, bytes(1376), flags=0x80))
    for number in range(1, 40):
        peer.send(data_frame(number * 1408, bytes(1376), flags=0))
        world.settle()
        assert collect(image) == []
    peer.send(data_frame(40 * 1408, b"", flags=0x40), data_frame(40 * 1408 + 32, b"next"))
    world.settle()
    assert collect(image) == [b"next"]
    check_honest_stream(world, subscription, publication)


def test_a_publisher_that_ignores_the_window_is_made_to_wait() -> None:
    world, peer, subscription, publication = joined()
    image = subscription.image(66)
    assert image is not None
    position = 0
    (end,) = [end for end in world.network.connections_to("b:1") if end.handler is peer]
    for _ in range(1000):
        frame = data_frame(position % TERM, bytes(992), term=5 + position // TERM)
        if len(end.outgoing) < 100_000:
            peer.send(frame)
            position += 1024
        world.turn()
    assert image.received_position <= TERM + 100_000
    assert end.other is not None
    assert end.other.is_paused
    received = 0
    while (more := len(collect(image))) or end.outgoing:
        received += more
        world.turn()
    assert received == position // 1024
    check_honest_stream(world, subscription, publication)


@pytest.mark.parametrize(
    "status",
    [
        StatusMessage(5001, 10, 0, 64, 1024, 1),
        StatusMessage(5001, 10, 0, TERM, 1024, 1),
        StatusMessage(5001, 10, -5, 0, 1024, 1),
        StatusMessage(5001, 10, 77, 0, 1024, 1),
        StatusMessage(5001, 10, 0, 0, 2**31 - 1, 1),
        StatusMessage(5001, 11, 0, 0, 1024, 1),
        StatusMessage(5002, 10, 0, 0, 1024, 1),
    ],
)
def test_a_status_about_anything_does_no_harm_to_the_publisher(status: StatusMessage) -> None:
    world = World()
    driver = world.driver()
    publication = driver.add_publication(CHANNEL, 10, session_id=5001)
    other = driver.add_publication("aeron:ipc", 10)
    local = driver.add_subscription("aeron:ipc", 10)
    peers: list[RawPeer] = []

    def accept(connection: Connection) -> RawPeer:
        peers.append(RawPeer())
        return peers[-1]

    world.network.listen("b:1", accept)
    world.settle()
    for _ in range(50):
        peers[-1].send(status.pack())
        publication.offer(bytes(1000))
        world.advance(20)
    assert publication.position <= TERM
    offer(world, other, b"fine")
    assert collect(local) == [b"fine"]


def honest_bytes() -> bytes:
    """What an honest publisher sends: announcement, data of all kinds, padding, heartbeat, end of stream."""
    frames = [SETUP.pack()]
    offset = 0
    while offset < TERM - 2048:
        frames.append(data_frame(offset, bytes(900)))
        offset += 960
    frames.append(DataHeader(TERM - offset, 0xC0, 0, offset, 66, 10, 5).pack())
    frames.append(data_frame(0, bytes(1376), term=6, flags=0x80))
    frames.append(data_frame(1408, bytes(100), term=6, flags=0x40))
    frames.append(DataHeader(0, 0xC0, 1, 1408 + 160, 66, 10, 6).pack())
    frames.append(DataHeader(0, 0xE0, 1, 1408 + 160, 66, 10, 6).pack())
    return b"".join(map(pad_frame, frames))


HONEST = honest_bytes()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(0, 200), st.integers(0, len(HONEST) // 32 - 1).map(lambda frame: frame * 32)),
            st.integers(0, 31),
            st.integers(0, 255),
        ),
        max_size=6,
    ),
    st.lists(st.integers(700, 20_000), min_size=1, max_size=5),
)
def test_mutated_frames_at_most_close_their_connection(
    mutations: list[tuple[int, int, int]], pieces: list[int]
) -> None:
    world, peer, subscription, publication = stage()
    conversation = bytearray(HONEST)
    for base, offset, value in mutations:
        conversation[base + offset] = value
    sent = 64
    peer.send(bytes(conversation[:sent]))
    world.settle()
    number = 0
    while sent < len(conversation) and not peer.is_closed:
        piece = pieces[number % len(pieces)]
        assert peer.connection is not None
        peer.connection.send([conversation[sent : sent + piece]])
        sent += piece
        number += 1
        world.settle()
        for image in subscription.images:
            if image.session_id != 5001:
                collect(image)
    if not mutations:
        assert world.errors.texts == []
    check_honest_stream(world, subscription, publication)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5))
def test_random_bytes_on_the_client_socket_do_no_harm_to_the_driver(chunks: list[bytes]) -> None:
    world = World()
    driver = world.driver()
    driver.serve_clients("unix:/m")
    peer = RawPeer()
    world.network.dial("unix:/m", peer)
    world.settle()
    for chunk in chunks:
        if not peer.is_closed:
            peer.send(pack_extension(chunk))
            world.settle()
    publication = driver.add_publication("aeron:ipc", 10)
    subscription = driver.add_subscription("aeron:ipc", 10)
    world.settle()
    offer(world, publication, b"fine")
    assert collect(subscription) == [b"fine"]


@pytest.mark.parametrize(
    "command",
    [
        b"[]",
        b"{",
        b'{"op":1}',
        b'{"op":"fly"}',
        b'{"op":"publish"}',
        b'{"op":"publish","channel":"aeron:ipc","session_id":1,"stream_id":1,"initial_term_id":1,'
        b'"term_length":3,"mtu":1408,"position":0}',
        b'{"op":"publish","channel":"aeron:ipc","session_id":1,"stream_id":99999999999,"initial_term_id":1,'
        b'"term_length":65536,"mtu":1408,"position":0}',
        b'{"op":"publish","channel":"aeron:ipc","session_id":1,"stream_id":1,"initial_term_id":1,'
        b'"term_length":65536,"mtu":1408,"position":-32}',
        b'{"op":"add-destination","channel":"aeron:tcp?endpoint=a:1"}',
        b"[" * 10_000,
    ],
)
def test_a_command_that_is_none_closes_the_clients_connection(command: bytes) -> None:
    world = World()
    driver = world.driver()
    driver.serve_clients("unix:/m")
    peer = RawPeer()
    world.network.dial("unix:/m", peer)
    world.settle()
    peer.send(pack_extension(command))
    world.settle()
    assert peer.is_closed
    assert len(world.errors.texts) == 1
