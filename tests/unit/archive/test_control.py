"""The control protocol: handshake, answers, listings, error codes, and clients that break it."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_requests import RequestingClient
from support.archive_world import ArchiveWorld, Member
from support.media_world import offer
from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.catalog import decode_catalog
from upheaval_node.archive.client import ClientState
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.counters import ARCHIVE_CONTROL_SESSION, Counter
from upheaval_node.media.api import Publication, Subscription
from upheaval_node.protocol import archive_messages as am
from upheaval_node.protocol.archive_messages import ControlResponseCode
from upheaval_node.protocol.constants import ARCHIVE_PROTOCOL_VERSION
from upheaval_node.protocol.message import Message
from upheaval_node.settings import KIB, ArchiveSettings

CHANNEL = "aeron:ipc?term-length=64k"
STREAM = 100


class RawClient:
    """Speaks the protocol message by message."""

    def __init__(self, world: ArchiveWorld, member: Member, version: int = ARCHIVE_PROTOCOL_VERSION) -> None:
        self.world = world
        self.subscription: Subscription = member.driver.add_subscription("aeron:ipc?session-id=5000", 20)
        self.publication: Publication = member.driver.add_publication("aeron:ipc?term-length=64k", 10)
        self.received: list[Message] = []
        self.send(
            am.AuthConnectRequest(
                correlation_id=1,
                response_stream_id=20,
                version=version,
                response_channel="aeron:ipc?session-id=5000",
            )
        )

    def send(self, message: Message) -> None:
        self.send_bytes(am.SCHEMA.encode(message))

    def send_bytes(self, data: bytes) -> None:
        self.world.settle()
        offer(self.world, self.publication, data)

    def poll(self) -> list[Message]:
        """What has come since the last poll."""
        self.received.clear()

        def take(fragment: object) -> None:
            payload: bytes = fragment.payload  # type: ignore[attr-defined]
            message = am.SCHEMA.decode(payload)
            assert message is not None
            self.received.append(message)

        self.world.settle()
        self.subscription.poll(take, 1000)
        return list(self.received)


def started(world: ArchiveWorld, member: Member) -> tuple[Publication, int]:
    publication = member.driver.add_publication(CHANNEL, STREAM)
    subscription_id = world.call(member.client.start_recording("aeron:ipc", STREAM))
    world.settle()
    return publication, subscription_id


# --- handshake ---


def test_a_client_connects_and_learns_the_archive_id() -> None:
    world = ArchiveWorld()
    member = world.member(archive_id=4242)
    assert member.client.archive_id == 4242
    assert member.client.control_session_id >= 0
    assert world.errors.texts == []


@pytest.mark.parametrize("response", ["", "aeron:ipc", "aeron:tcp?endpoint=other:0"])
def test_a_client_connects_over_the_network(response: str) -> None:
    world = ArchiveWorld()
    member = world.member(control_channel="aeron:tcp?endpoint=host:8010")
    other = world.driver()
    client = world.client(other, control_channel="aeron:tcp?endpoint=host:8010", response_channel=response)
    world.until(lambda: client.is_connected)

    assert client.archive_id == 7
    assert client.control_session_id != member.client.control_session_id
    listing = client.list_recordings(0, 5)
    world.call(listing)
    assert listing.descriptors == []


def test_clients_of_one_archive_get_their_own_answers() -> None:
    world = ArchiveWorld()
    member = world.member()
    clients = [world.client(member.driver) for _ in range(5)]
    world.until(lambda: all(client.is_connected for client in clients))
    started(world, member)
    calls = [client.list_recording(0) for client in clients]
    for call in calls:
        world.call(call)
    assert [len(call.descriptors) for call in calls] == [1] * 5
    assert len({client.control_session_id for client in clients}) == 5


def test_the_connect_response_is_repeated_until_the_first_request() -> None:
    world = ArchiveWorld()
    raw = RawClient(world, world.member())
    world.advance(1000)
    responses = raw.poll()
    assert len(responses) >= 4
    first = responses[0]
    assert isinstance(first, am.ControlResponse)
    assert (first.code, first.correlation_id, first.version) == (ControlResponseCode.OK, 1, ARCHIVE_PROTOCOL_VERSION)
    raw.send(am.KeepAliveRequest(control_session_id=first.relevant_id, correlation_id=-1))
    world.advance(1100)
    assert {type(message) for message in raw.poll()} == {am.Ping}


def test_a_session_without_a_request_is_dropped() -> None:
    world = ArchiveWorld()
    raw = RawClient(world, world.member())
    world.advance(6000)
    raw.poll()
    world.settle()
    assert raw.subscription.images == []


def test_a_client_of_another_major_version_is_rejected() -> None:
    world = ArchiveWorld()
    raw = RawClient(world, world.member(), version=2 << 16)
    world.settle()
    response = raw.poll()[0]
    assert isinstance(response, am.ControlResponse)
    assert response.code == ControlResponseCode.ERROR
    assert response.error_message == "invalid client version 2.0.0"


def test_a_client_without_an_archive_gives_up() -> None:
    world = ArchiveWorld()
    client = world.client(world.driver())
    world.until(lambda: client.is_closed)
    assert client.error is not None
    call = client.start_position(0)
    assert call.done
    assert call.error is not None


def test_a_client_learns_that_its_archive_is_gone() -> None:
    world = ArchiveWorld()
    member = world.member()
    call = member.client.list_recordings(0, 1 << 30)
    member.archive.close()
    world.until(lambda: member.client.is_closed)
    assert call.done
    assert member.client.state == ClientState.CLOSED


def test_a_client_far_away_learns_that_its_archive_was_killed() -> None:
    world = ArchiveWorld()
    member = world.member(control_channel="aeron:tcp?endpoint=host:8010")
    client = world.client(world.driver(), control_channel="aeron:tcp?endpoint=host:8010")
    world.until(lambda: client.is_connected)
    call = client.list_recordings(0, 1 << 30)
    world.remove(member)
    world.until(lambda: client.is_closed, ms=60_000)
    assert call.error is not None


def test_a_request_that_is_not_answered_times_out() -> None:
    world = ArchiveWorld()
    member = world.member()
    world.agents.remove(member.archive)
    call = member.client.start_position(0)
    world.until(lambda: call.done, ms=60_000)
    assert call.error is not None


def test_a_client_that_closes_ends_its_session() -> None:
    world = ArchiveWorld()
    member = world.member()
    session_count = member.counters.find(102)
    assert session_count is not None
    assert session_count.get() == 1
    member.client.close()
    world.until(lambda: session_count.get() == 0)


# --- listings ---


def test_listings_give_descriptors_in_order_of_ids() -> None:
    world = ArchiveWorld()
    member = world.member()
    for number in range(5):
        publication = member.driver.add_publication(CHANNEL, STREAM + number)
        world.call(member.client.start_recording(f"aeron:ipc?alias=stream-{number}", STREAM + number))
        world.settle()
        offer(world, publication, b"x" * number)
    world.settle()
    client = member.client

    def ids(call: PendingCall) -> list[int]:
        world.call(call)
        return [descriptor.recording_id for descriptor in call.descriptors]

    assert ids(client.list_recordings(0, 100)) == [0, 1, 2, 3, 4]
    assert ids(client.list_recordings(0, 2)) == [0, 1]
    assert ids(client.list_recordings(3, 2)) == [3, 4]
    assert ids(client.list_recordings(9, 2)) == []
    assert ids(client.list_recording(2)) == [2]
    assert ids(client.list_recording(12)) == []
    assert ids(client.list_recordings_for_uri(0, 10, "alias=stream-3", STREAM + 3)) == [3]
    assert ids(client.list_recordings_for_uri(0, 10, "", STREAM + 1)) == [1]
    assert ids(client.list_recordings_for_uri(0, 10, "alias=stream-3", STREAM)) == []


def test_the_last_matching_recording_is_found() -> None:
    world = ArchiveWorld()
    member = world.member()
    for _ in range(3):
        publication = member.driver.add_publication(CHANNEL + "|session-id=99", STREAM)
        world.call(member.client.start_recording("aeron:ipc?alias=log", STREAM, auto_stop=True))
        offer(world, publication, b"x")
        publication.close()
        world.settle()

    def find(minimum: int, fragment: str, stream_id: int, session_id: int) -> int:
        return world.call(member.client.find_last_matching_recording(minimum, fragment, stream_id, session_id))

    assert find(0, "alias=log", STREAM, 99) == 2
    assert find(3, "alias=log", STREAM, 99) == -1
    assert find(0, "alias=other", STREAM, 99) == -1
    assert find(0, "", STREAM, 98) == -1
    code, _ = world.refused(member.client.find_last_matching_recording(-1, "", STREAM, 99))
    assert code == ErrorCode.UNKNOWN_RECORDING


def test_a_long_listing_reaches_a_client_that_reads_slowly() -> None:
    world = ArchiveWorld()
    settings_ = ArchiveSettings(segment_length=64 * KIB, max_recordings=600)
    member = world.member(settings=settings_)
    for number in range(500):
        publication = member.driver.add_publication(CHANNEL, 1000 + number)
        world.call(member.client.start_recording("aeron:ipc", 1000 + number, auto_stop=True))
        offer(world, publication, b"x")
        publication.close()
    world.settle()
    call = member.client.list_recordings(0, 500)
    for refused in (member.client.list_recordings(0, 1), member.client.list_recording_subscriptions(0, 1)):
        assert world.refused(refused)[0] == ErrorCode.ACTIVE_LISTING
    world.call(call)
    assert [descriptor.recording_id for descriptor in call.descriptors] == list(range(500))


def test_a_session_ends_with_the_stream_of_its_requests() -> None:
    world = ArchiveWorld()
    member = world.member()
    (session,) = member.archive._sessions.values()
    member.client._publication.close()
    world.until(lambda: not member.archive._sessions)
    assert session.close_reason == "request stream ended"


# --- error codes ---

UNKNOWN: list[Callable[[RequestingClient], PendingCall]] = [
    lambda client: client.start_position(77),
    lambda client: client.stop_position(77),
    lambda client: client.recording_position(77),
    lambda client: client.max_recorded_position(77),
    lambda client: client.stop_recording_by_identity(77),
    lambda client: client.truncate(77, 0),
    lambda client: client.replay(77, 0, -1, "aeron:ipc", 900),
    lambda client: client.extend_recording(77, "aeron:ipc", STREAM),
]


@pytest.mark.parametrize("request_", UNKNOWN)
def test_an_unknown_recording_is_named(request_: Callable[[RequestingClient], PendingCall]) -> None:
    world = ArchiveWorld()
    member = world.member()
    assert world.refused(request_(member.client)) == (ErrorCode.UNKNOWN_RECORDING, "unknown recording id: 77")


def test_each_refusal_has_its_code() -> None:
    world = ArchiveWorld()
    member = world.member(settings=ArchiveSettings(segment_length=64 * KIB, max_recordings=2))
    client = member.client
    publication, subscription_id = started(world, member)
    offer(world, publication, b"x" * 40)
    world.settle()
    cases = [
        (client.start_recording("aeron:ipc", STREAM), ErrorCode.ACTIVE_SUBSCRIPTION),
        (client.start_recording("no channel", 5), ErrorCode.GENERIC),
        (client.start_recording("aeron-spy:aeron:ipc", 5), ErrorCode.GENERIC),
        (client.extend_recording(0, "aeron:ipc?alias=x", STREAM), ErrorCode.ACTIVE_RECORDING),
        (client.extend_recording(0, "aeron:ipc", STREAM + 1), ErrorCode.UNKNOWN_RECORDING),
        (client.stop_recording(123456), ErrorCode.UNKNOWN_SUBSCRIPTION),
        (client.stop_recording_channel("aeron:ipc", STREAM + 1), ErrorCode.UNKNOWN_SUBSCRIPTION),
        (client.truncate(0, 0), ErrorCode.ACTIVE_RECORDING),
        (client.replay(0, 7, -1, "aeron:ipc", 900), ErrorCode.GENERIC),
        (client.replay(0, -96, -1, "aeron:ipc", 900), ErrorCode.INVALID_POSITION),
        (client.replay(0, 96 * 2, -1, "aeron:ipc", 900), ErrorCode.INVALID_POSITION),
        (client.replay(0, 32, -1, "aeron:ipc", 900), ErrorCode.INVALID_POSITION),
        (client.replay(0, 0, -3, "aeron:ipc", 900), ErrorCode.GENERIC),
        (client.replay(0, 96, -2, "aeron:ipc", 900), ErrorCode.EMPTY_RECORDING),
        (client.replay(0, 0, -1, "nonsense", 900), ErrorCode.GENERIC),
        (client.stop_replication(5), ErrorCode.UNKNOWN_REPLICATION),
        (client.purge_recording(0), ErrorCode.ACTIVE_RECORDING),
        (client.migrate_segments(0, 0), ErrorCode.GENERIC),
        (client.request(am.ReplayTokenRequest(recording_id=0)), ErrorCode.GENERIC),
        (client.request(am.ReplicateRequest2(src_recording_id=0, live_destination="aeron:ipc")), ErrorCode.GENERIC),
    ]
    for number, (call, expected) in enumerate(cases):
        code, text = world.refused(call)
        assert (number, code) == (number, expected)
        assert text
    world.call(client.stop_recording(subscription_id))
    world.settle()
    assert world.refused(client.replay(0, 96, -1, "aeron:ipc", 900))[0] == ErrorCode.INVALID_POSITION
    assert world.call(client.replay(0, -1, -1, "aeron:ipc", 900)) > 0


def test_more_recordings_than_allowed_are_refused() -> None:
    world = ArchiveWorld()
    member = world.member(settings=ArchiveSettings(segment_length=64 * KIB, max_recordings=2))
    for number in range(2):
        member.driver.add_publication(CHANNEL, number)
        world.call(member.client.start_recording("aeron:ipc", number))
    world.settle()
    assert world.refused(member.client.start_recording("aeron:ipc", 5))[0] == ErrorCode.MAX_RECORDINGS


def test_an_unsupported_request_says_so() -> None:
    world = ArchiveWorld()
    member = world.member()
    for message in (
        am.ReplayTokenRequest(recording_id=0),
        am.TaggedReplicateRequest(src_recording_id=0),
    ):
        _, text = world.refused(member.client.request(message))
        assert text == f"{type(message).__name__} is not supported by this archive"


def test_subscriptions_are_listed_from_an_index_on_and_by_stream_and_channel() -> None:
    world = ArchiveWorld()
    client = world.member().client
    ids = [
        world.call(client.start_recording(f"aeron:ipc?alias={name}|session-id={number}", stream_id))
        for number, (name, stream_id) in enumerate([("one", 5), ("two", 6), ("three", 5)])
    ]

    def listed(*arguments: int, channel: str = "", stream_id: int | None = None) -> list[int]:
        call = client.list_recording_subscriptions(*arguments, channel, stream_id)
        world.until(lambda: call.done)
        assert call.error is None
        return [each.subscription_id for each in call.subscriptions]

    assert listed(0, 10) == ids
    assert listed(0, 2) == ids[:2]
    assert listed(1, 10) == ids[1:]
    assert listed(0, 10, stream_id=5) == [ids[0], ids[2]]
    assert listed(1, 1, stream_id=5) == [ids[2]]
    assert listed(0, 10, channel="alias=t") == ids[1:]
    assert listed(3, 1) == listed(-1, 1) == listed(-(1 << 31), (1 << 31) - 1) == []


def test_a_recording_is_found_under_the_channel_that_it_was_given() -> None:
    world = ArchiveWorld()
    member = world.member()
    publication, _ = started(world, member)
    offer(world, publication, b"x")
    other = member.driver.add_publication(CHANNEL, STREAM + 1)
    world.call(member.client.start_recording("aeron:ipc", STREAM + 1))
    world.until(lambda: other.is_connected)
    name = "aeron:tcp?endpoint=elsewhere:1|mtu=1408|alias=" + "long" * 200
    world.call(member.client.update_channel(0, name))
    for recording_id, channel in ((0, name), (1, "aeron:ipc")):
        call = member.client.list_recording(recording_id)
        world.until(lambda call=call: call.done)
        assert [each.original_channel for each in call.descriptors] == [channel]
    call = member.client.list_recording(0)
    world.until(lambda: call.done)
    assert call.descriptors[0].stripped_channel == name.replace("|mtu=1408", "")
    assert world.refused(member.client.update_channel(0, "no channel"))[0] == ErrorCode.GENERIC
    unknown = member.client.update_channel(9, "aeron:ipc")
    world.until(lambda: unknown.done)
    assert (unknown.error, unknown.error_code) == ("unknown", ErrorCode.UNKNOWN_RECORDING)


def test_a_channel_that_was_given_is_durable_when_it_is_answered() -> None:
    world = ArchiveWorld()
    member = world.member(settings=ArchiveSettings(file_sync_level=1))
    started(world, member)
    world.call(member.client.update_channel(0, "aeron:ipc?alias=other"))
    member.storage.power_cut()
    catalog = member.storage.open("archive/archive.catalog")
    (entry,) = decode_catalog(catalog.read(0, catalog.size())).entries
    assert entry.original_channel == "aeron:ipc?alias=other"


def test_a_counter_tells_who_is_connected_while_it_is() -> None:
    world = ArchiveWorld()
    member = world.member(archive_id=7)
    other = world.client(member.driver)
    world.until(lambda: other.is_connected)
    found: dict[int, tuple[bytes, str]] = {}

    def look() -> None:
        found.clear()

        def visit(counter: Counter, type_id: int, key: bytes, label: str) -> None:
            if type_id == ARCHIVE_CONTROL_SESSION:
                found[counter.get()] = (key[:16], label)

        member.counters.for_each(visit)

    look()
    expected = {
        client.control_session_id: (
            struct.pack("<qq", 7, client.control_session_id),
            "control-session: name=test - archiveId=7",
        )
        for client in (member.client, other)
    }
    assert found == expected
    world.agents.remove(other)
    other.close()
    world.settle()
    look()
    assert found == {member.client.control_session_id: expected[member.client.control_session_id]}


# --- hostile clients ---


def test_a_request_for_the_session_of_another_client_is_ignored() -> None:
    world = ArchiveWorld()
    member = world.member()
    _, subscription_id = started(world, member)
    raw = RawClient(world, member)
    raw.send(
        am.StopRecordingSubscriptionRequest(
            control_session_id=member.client.control_session_id, correlation_id=9, subscription_id=subscription_id
        )
    )
    world.settle()
    assert world.call(member.client.stop_position(0)) == -1
    assert any("unknown session" in text for text in world.errors.texts)


def test_malformed_bytes_cost_the_client_its_stream() -> None:
    world = ArchiveWorld()
    member = world.member()
    raw = RawClient(world, member)
    raw.poll()
    raw.send_bytes(b"\xff" * 40)
    world.until(lambda: not raw.publication.is_connected)
    assert world.call(member.client.list_recordings(0, 1)) is not None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=100),
            st.tuples(st.integers(0, 110), st.binary(max_size=200)),
        ),
        max_size=12,
    )
)
def test_whatever_a_client_sends_the_archive_serves_the_others(noise: list[bytes | tuple[int, bytes]]) -> None:
    world = ArchiveWorld()
    member = world.member()
    raw = RawClient(world, member)
    world.settle()
    responses = [message for message in raw.poll() if isinstance(message, am.ControlResponse)]
    session_id = responses[0].relevant_id
    for piece in noise:
        if isinstance(piece, tuple):
            template, body = piece
            header = len(body).to_bytes(2, "little") + template.to_bytes(2, "little") + b"\x65\0\x0e\0"
            piece = header + session_id.to_bytes(8, "little") + body
        if raw.publication.offer(piece) < 0:
            world.settle()
    world.settle()
    publication, _ = started(world, member)
    offer(world, publication, b"x")
    world.settle()
    # A hostile request may have started recordings of its own; ours is the last.
    listing = member.client.list_recordings_for_uri(0, 100, "", STREAM)
    world.call(listing)
    position = world.call(member.client.max_recorded_position(listing.descriptors[-1].recording_id))
    assert position == publication.position


def test_a_client_that_never_reads_its_answers_is_dropped() -> None:
    world = ArchiveWorld()
    member = world.member()
    raw = RawClient(world, member)
    session_id = next(m.relevant_id for m in raw.poll() if isinstance(m, am.ControlResponse))
    for number in range(5000):
        request = am.ArchiveIdRequest(control_session_id=session_id, correlation_id=number)
        if raw.publication.offer(am.SCHEMA.encode(request)) < 0:
            world.turn()
    world.advance(6000)
    sessions = member.counters.find(102)
    assert sessions is not None
    assert sessions.get() == 1
    assert member.client.is_connected


def test_connects_with_unusable_channels_and_too_many_of_them_are_survived() -> None:
    world = ArchiveWorld()
    member = world.member()
    for channel in (
        "",
        "aeron:ipc?session-id=x",
        "aeron:tcp",
        "aeron-spy:aeron:ipc",
        "aeron:udp?endpoint=a:1",
        "a" * 5000,
    ):
        publication = member.driver.add_publication("aeron:ipc?term-length=1m", 10)
        world.settle()
        message = am.AuthConnectRequest(
            correlation_id=1, response_stream_id=20, version=1 << 16, response_channel=channel
        )
        offer(world, publication, am.SCHEMA.encode(message))
        world.settle()
        assert not publication.is_connected
    publication = member.driver.add_publication("aeron:ipc?term-length=1m", 10)
    world.settle()
    for number in range(300):
        channel = f"aeron:ipc?session-id={number + 2000}"
        message = am.AuthConnectRequest(
            correlation_id=1, response_stream_id=20, version=1 << 16, response_channel=channel
        )
        offer(world, publication, am.SCHEMA.encode(message))
    world.settle()
    assert world.call(member.client.list_recordings(0, 1)) is not None


def test_the_codes_are_those_of_aeron_archive() -> None:
    """Source: io.aeron.archive.client.ArchiveException."""
    assert [code.value for code in ErrorCode] == list(range(17))
    assert ErrorCode.REPLICATION_CONNECTION_FAILURE == 14
