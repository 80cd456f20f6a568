"""Writing and reading the log: whole entries only, blocks against single messages, entries in fragments."""

from hypothesis import given, settings, strategies as st

from support.cluster_parts import TERM, PartsWorld
from upheaval_node.cluster.log_adapter import LogAdapter
from upheaval_node.errors import DecodeError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.types import Now


class Reader:
    """A `LogHandler` that keeps what it receives."""

    def __init__(self) -> None:
        self.entries: list[tuple[Message, int]] = []
        self.ids: list[int] = []
        self.bad: list[int] = []
        self.stop_at: type[Message] | None = None

    def on_log_messages(self, ids: list[int]) -> None:
        self.ids += ids

    def on_log_entry(self, now: Now, entry: Message, end_position: int) -> bool:
        self.entries.append((entry, end_position))
        return self.stop_at is type(entry)

    def on_bad_log_entry(self, now: Now, end_position: int, error: DecodeError) -> None:
        self.bad.append(end_position)


def open_event(session_id: int, principal: bytes = b"") -> cm.SessionOpenEvent:
    return cm.SessionOpenEvent(TERM, 1, session_id, 5, 102, "aeron:tcp?endpoint=c:1", principal)


def reading(world: PartsWorld, reader: Reader) -> LogAdapter:
    adapter = LogAdapter(reader, max_block_length=4096)
    adapter.attach(world.log_subscription.images[0])
    return adapter


writes = st.lists(
    st.tuples(st.sampled_from(["message", "open", "long", "bad"]), st.integers(1, 3), st.integers(0, 2000)),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(writes, st.lists(st.integers(1, 60), min_size=1, max_size=30))
def test_a_reader_hears_every_entry_once_whatever_the_limits_are(
    written: list[tuple[str, int, int]], steps: list[int]
) -> None:
    world = PartsWorld()
    log = world.leader.active_log
    assert log is not None
    expected: list[tuple[Message, int]] = []
    sent: list[int] = []
    bad: list[int] = []
    for number, (kind, session_id, size) in enumerate(written):
        if kind == "message":
            assert log.append_session_message(TERM, session_id, number, bytes(size))
            sent.append(session_id)
        elif kind == "bad":
            world.log_publication.offer(b"\xee" * 40)
            bad.append(log.position)
        else:
            event = open_event(session_id, b"p" * (size + 1500 if kind == "long" else 0))
            expected.append((event, log.append(event)))
    world.settle()
    reader = Reader()
    adapter = reading(world, reader)
    end = log.position
    limit = 0
    rounds = iter(steps * 3000)
    while adapter.position < end:
        limit = min(end, limit + 32 * next(rounds))
        adapter.poll(world.now, limit)
        assert adapter.position <= limit
        assert adapter.whole_entries_position <= adapter.position
        assert log.whole_entries(adapter.position) >= 0
        assert all(position <= adapter.position for _, position in reader.entries)
    assert reader.entries == expected
    assert reader.ids == sent
    assert reader.bad == bad
    assert adapter.whole_entries_position == end


def test_a_commit_position_never_lies_inside_an_entry() -> None:
    world = PartsWorld()
    log = world.leader.active_log
    assert log is not None
    assert log.append_session_message(TERM, 1, 0, b"short")
    start = log.position
    assert log.append_session_message(TERM, 1, 0, bytes(5000))
    end = log.position
    assert log.append_session_message(TERM, 1, 0, b"short")
    for position in range(0, log.position + 32, 32):
        assert log.whole_entries(position) == (start if start < position < end else position)


def test_an_entry_that_begins_in_one_image_and_ends_in_the_next_is_read_whole() -> None:
    world = PartsWorld()
    log = world.leader.active_log
    assert log is not None
    reader = Reader()
    adapter = reading(world, reader)
    event = open_event(4, b"p" * 4000)
    end = log.append(event)
    world.settle()
    adapter.poll(world.now, end - 64)
    cut = adapter.detach()
    assert 0 < cut < end
    assert adapter.whole_entries_position == 0
    second = world.media.add_subscription("aeron:ipc", 100)
    world.settle()
    (image,) = second.images
    assert image.join_position == cut
    adapter.attach(image)
    adapter.poll(world.now, end)
    assert reader.entries == [(event, end)]


def test_reading_stops_after_an_entry_that_changes_the_state() -> None:
    world = PartsWorld()
    log = world.leader.active_log
    assert log is not None
    action = cm.ClusterActionRequest(TERM, 0, 5, cm.ClusterAction.SUSPEND, 0)
    end = log.append(action)
    log.append(open_event(1))
    world.settle()
    reader = Reader()
    reader.stop_at = cm.ClusterActionRequest
    adapter = reading(world, reader)
    adapter.poll(world.now)
    assert reader.entries == [(action, end)]
    assert adapter.position == end
    adapter.poll(world.now)
    assert len(reader.entries) == 2


def test_an_append_under_back_pressure_leaves_nothing() -> None:
    world = PartsWorld()
    log = world.leader.active_log
    assert log is not None
    while log.append_session_message(TERM, 1, 0, bytes(1000)):
        pass
    position = log.position
    assert log.append(open_event(1)) == 0
    assert log.position == position
    assert len(world.read_log()) > 0
    world.settle()
    assert log.append(open_event(1)) > position


class CountingReader(Reader):
    """Also counts how often it receives messages."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 0

    def on_log_messages(self, ids: list[int]) -> None:
        super().on_log_messages(ids)
        self.told += 1


def test_messages_of_any_schema_version_cost_no_call_each() -> None:
    world = PartsWorld()
    for number, version in enumerate([17, 7, 12, 16, 0xFFFF]):
        header = pack_session_header(TERM, number, 5)
        world.log_publication.offer(header[:6] + version.to_bytes(2, "little") + header[8:] + b"payload")
    world.settle()
    reader = CountingReader()
    reading(world, reader).poll(world.now)
    assert reader.ids == list(range(5))
    assert reader.told == 1
