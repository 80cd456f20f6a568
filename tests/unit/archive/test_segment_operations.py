"""Segments that are detached, deleted, attached and moved; recordings that are purged."""

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_world import SETTINGS, ArchiveWorld, Member, replay_all, signals_of, stream_session
from support.media_world import offer
from support.memory_storage import MemoryStorage
from upheaval_node.archive.catalog import decode_catalog
from upheaval_node.archive.codes import ErrorCode
from upheaval_node.archive.reader import read_recordings
from upheaval_node.archive.segments import segment_bases
from upheaval_node.media.api import Publication
from upheaval_node.protocol.archive_messages import RecordingSignal, RecordingState
from upheaval_node.settings import KIB, ArchiveSettings

STREAM = 100
SEGMENT = 64 * KIB
LENGTH = 1024
PER_SEGMENT = SEGMENT // LENGTH
LEVELS = [0, 1]


def channel_at(position: int) -> str:
    term, offset = divmod(position, SEGMENT)
    return f"aeron:ipc?term-length=64k|init-term-id=0|term-id={term}|term-offset={offset}"


class Recorded:
    """Recordings of messages of equal length, of which a whole number fills a segment."""

    def __init__(self, level: int = 0) -> None:
        self.world = ArchiveWorld()
        archive = ArchiveSettings(segment_length=SEGMENT, catalog_capacity=4 * KIB, file_sync_level=level)
        self.member: Member = self.world.member(settings=archive)
        self.client = self.member.client
        self.storage: MemoryStorage = self.member.storage

    def start(self, first: int, count: int, *, stream_id: int = STREAM) -> Publication:
        """An active recording of messages `first` and on, each at its number times its length."""
        publication = self.member.driver.add_publication(channel_at(first * LENGTH), stream_id)
        self.world.call(self.client.start_recording("aeron:ipc", stream_id, auto_stop=True))
        for number in range(first, first + count):
            offer(self.world, publication, number.to_bytes(4, "little").ljust(LENGTH - 32, b"x"))
        self.world.settle()
        return publication

    def record(self, first: int, count: int, *, stream_id: int = STREAM) -> int:
        """The same, stopped."""
        publication = self.start(first, count, stream_id=stream_id)
        publication.close()
        self.world.until(lambda: any(each.signal == RecordingSignal.STOP for each in self.client.signals))
        return self.client.take_signals()[-1].recording_id

    def numbers(self, recording_id: int) -> list[int]:
        """What the recording holds, as a replay sends it and as it is on disk."""
        replayed = [int.from_bytes(each[:4], "little") for _, each in replay_all(self.world, self.member, recording_id)]
        found = next(each for each in read_recordings(self.storage) if each.recording_id == recording_id)
        assert found.problem is None
        assert [int.from_bytes(each.payload[:4], "little") for each in found.messages()] == replayed
        return replayed

    def bases(self, recording_id: int = 0) -> list[int]:
        return segment_bases(self.storage, "archive", recording_id)

    def range_of(self, recording_id: int = 0) -> tuple[int, int]:
        start = self.world.call(self.client.start_position(recording_id))
        return start, self.world.call(self.client.stop_position(recording_id))


@pytest.mark.parametrize("level", LEVELS)
def test_detached_segments_are_no_longer_replayed_and_stay_until_they_are_deleted(level: int) -> None:
    recorded = Recorded(level)
    recorded.record(0, 5 * PER_SEGMENT - 3)
    assert recorded.bases() == [0, SEGMENT, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT]
    assert recorded.world.call(recorded.client.detach_segments(0, 2 * SEGMENT)) == 0
    assert recorded.range_of() == (2 * SEGMENT, 5 * SEGMENT - 3 * LENGTH)
    assert len(recorded.bases()) == 5
    assert recorded.numbers(0) == list(range(2 * PER_SEGMENT, 5 * PER_SEGMENT - 3))
    code, _ = recorded.world.refused(recorded.client.replay(0, 0, -2, "aeron:ipc", 900))
    assert code == ErrorCode.INVALID_POSITION
    assert signals_of(recorded.client) == []

    assert recorded.world.call(recorded.client.delete_detached_segments(0)) == 2
    recorded.world.settle()
    assert recorded.bases() == [2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT]
    (signal,) = recorded.client.take_signals()
    assert (signal.signal, signal.recording_id) == (RecordingSignal.DELETE, 0)
    assert (signal.subscription_id, signal.position) == (-1, -1)
    assert recorded.numbers(0) == list(range(2 * PER_SEGMENT, 5 * PER_SEGMENT - 3))


def test_nothing_to_delete_is_signalled_at_once() -> None:
    recorded = Recorded()
    recorded.record(0, PER_SEGMENT)
    assert recorded.world.call(recorded.client.delete_detached_segments(0)) == 0
    recorded.world.settle()
    assert signals_of(recorded.client) == [RecordingSignal.DELETE]


def test_segments_of_an_active_recording_are_purged_while_it_goes_on() -> None:
    recorded = Recorded()
    publication = recorded.start(0, 3 * PER_SEGMENT + 5)
    recorded.client.take_signals()
    assert recorded.world.call(recorded.client.purge_segments(0, 3 * SEGMENT)) == 3
    for number in range(5):
        offer(recorded.world, publication, (1000 + number).to_bytes(4, "little"))
    recorded.world.settle()
    assert signals_of(recorded.client) == [RecordingSignal.DELETE]
    assert recorded.bases() == [3 * SEGMENT]
    publication.close()
    recorded.world.until(lambda: read_recordings(recorded.storage)[0].is_stopped)
    assert recorded.numbers(0) == [*range(3 * PER_SEGMENT, 3 * PER_SEGMENT + 5), *range(1000, 1005)]


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (SEGMENT + LENGTH, "invalid segment start"),
        (-SEGMENT, "not past first segment"),
        (0, "not past first segment"),
        (4 * SEGMENT, "in use by recording"),
        ((1 << 62), "in use by recording"),
    ],
)
def test_a_start_is_refused_that_is_no_later_segment_of_the_recording(position: int, text: str) -> None:
    recorded = Recorded()
    recorded.record(0, 3 * PER_SEGMENT + 2)
    for call in (recorded.client.detach_segments(0, position), recorded.client.purge_segments(0, position)):
        code, found = recorded.world.refused(call)
        assert code == ErrorCode.GENERIC
        assert text in found
    assert recorded.range_of() == (0, 3 * SEGMENT + 2 * LENGTH)


def test_segments_that_a_replay_still_needs_are_not_detached() -> None:
    recorded = Recorded()
    recorded.record(0, 4 * PER_SEGMENT)
    replay = recorded.world.call(recorded.client.replay(0, SEGMENT, -1, "aeron:ipc", 900))
    code, text = recorded.world.refused(recorded.client.detach_segments(0, 2 * SEGMENT))
    assert (code, "replay in progress" in text) == (ErrorCode.GENERIC, True)
    assert recorded.world.refused(recorded.client.purge_recording(0))[0] == ErrorCode.ACTIVE_RECORDING
    assert recorded.world.call(recorded.client.detach_segments(0, SEGMENT)) == 0
    recorded.world.call(recorded.client.stop_replay(replay))
    recorded.world.settle()
    assert stream_session(replay) != 0
    assert recorded.world.call(recorded.client.detach_segments(0, 2 * SEGMENT)) == 0


@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("level", LEVELS)
def test_attached_segments_belong_to_the_recording_again(first: int, level: int) -> None:
    recorded = Recorded(level)
    recorded.record(first, 4 * PER_SEGMENT)
    recorded.world.call(recorded.client.detach_segments(0, 3 * SEGMENT))
    assert recorded.world.call(recorded.client.attach_segments(0)) == 3
    assert recorded.range_of()[0] == first * LENGTH
    assert recorded.numbers(0) == list(range(first, first + 4 * PER_SEGMENT))
    assert recorded.world.call(recorded.client.attach_segments(0)) == 0


def test_segments_are_attached_up_to_the_first_gap() -> None:
    recorded = Recorded()
    recorded.record(0, 4 * PER_SEGMENT)
    recorded.world.call(recorded.client.detach_segments(0, 3 * SEGMENT))
    recorded.storage.remove("archive/0-65536.rec")
    assert recorded.world.call(recorded.client.attach_segments(0)) == 1
    assert recorded.numbers(0) == list(range(2 * PER_SEGMENT, 4 * PER_SEGMENT))


@pytest.mark.parametrize("content", [b"", bytes(SEGMENT), b"\x01" * SEGMENT, bytes(100) + b"\xff" * SEGMENT])
def test_a_file_that_is_no_segment_of_the_recording_is_not_attached(content: bytes) -> None:
    recorded = Recorded()
    recorded.record(0, 3 * PER_SEGMENT)
    recorded.world.call(recorded.client.purge_segments(0, 2 * SEGMENT))
    recorded.world.settle()
    file = recorded.storage.open("archive/0-65536.rec", create=True)
    file.write(0, (content,))
    file.close()
    assert recorded.world.refused(recorded.client.attach_segments(0))[0] == ErrorCode.GENERIC
    assert recorded.range_of()[0] == 2 * SEGMENT


@pytest.mark.parametrize("level", LEVELS)
def test_a_purged_recording_is_gone_with_its_files(level: int) -> None:
    recorded = Recorded(level)
    recorded.record(0, 10 * PER_SEGMENT)
    recorded.record(0, 5, stream_id=STREAM + 1)
    assert recorded.world.call(recorded.client.purge_recording(0)) == 11
    assert recorded.world.refused(recorded.client.purge_recording(0))[0] == ErrorCode.UNKNOWN_RECORDING
    recorded.world.settle()
    assert signals_of(recorded.client) == [RecordingSignal.DELETE]
    assert (recorded.bases(0), recorded.bases(1)) == ([], [0])
    assert recorded.numbers(1) == list(range(5))
    call = recorded.client.list_recordings(0, 10)
    recorded.world.until(lambda: call.done)
    assert [each.recording_id for each in call.descriptors] == [1]
    content = recorded.storage.content("archive/archive.catalog")
    states = [entry.state for entry in decode_catalog(content).entries]
    assert states == [RecordingState.DELETED, RecordingState.VALID]


def test_files_of_a_purge_that_a_crash_cut_short_are_removed_at_the_next_start() -> None:
    recorded = Recorded()
    recorded.record(0, 10 * PER_SEGMENT)
    recorded.record(0, 5, stream_id=STREAM + 1)
    call = recorded.client.purge_recording(0)
    recorded.world.until(lambda: call.done)
    for base in (0, SEGMENT):
        recorded.storage.open(f"archive/0-{base}.rec", create=True).close()
    recorded.world.remove(recorded.member)
    member = recorded.world.member(recorded.storage)
    assert (recorded.bases(0), recorded.bases(1)) == ([], [0])
    assert len(replay_all(recorded.world, member, 1)) == 5


def test_an_image_for_a_recording_that_was_purged_meanwhile_is_refused() -> None:
    recorded = Recorded()
    recorded.record(0, 5)
    recorded.world.call(recorded.client.extend_recording(0, "aeron:ipc?alias=more", STREAM))
    recorded.world.call(recorded.client.purge_recording(0))
    recorded.member.driver.add_publication(channel_at(5 * LENGTH), STREAM)
    recorded.world.settle()
    assert recorded.bases() == []
    assert [error.error_code for error in recorded.client.late_errors] == [ErrorCode.UNKNOWN_RECORDING]


@pytest.mark.parametrize("level", LEVELS)
def test_segments_migrate_after_and_before_another_recording(level: int) -> None:
    recorded = Recorded(level)
    middle = recorded.record(2 * PER_SEGMENT, 2 * PER_SEGMENT)
    following = recorded.record(4 * PER_SEGMENT, PER_SEGMENT + 9)
    before = recorded.record(0, 2 * PER_SEGMENT)
    assert recorded.world.call(recorded.client.migrate_segments(following, middle)) == 2
    assert recorded.world.call(recorded.client.migrate_segments(before, middle)) == 2
    recorded.world.settle()
    assert signals_of(recorded.client) == [RecordingSignal.DELETE] * 2
    assert recorded.numbers(middle) == list(range(5 * PER_SEGMENT + 9))
    assert recorded.bases(middle) == [each * SEGMENT for each in range(6)]
    for moved, start in ((following, 4 * SEGMENT), (before, 0)):
        assert recorded.range_of(moved) == (start, start)
        assert recorded.bases(moved) == []


@pytest.mark.parametrize(
    ("first", "count", "stream_id", "text"),
    [
        (4 * PER_SEGMENT, 5, STREAM + 1, "differ in stream id"),
        (3 * PER_SEGMENT, 5, STREAM, "not contiguous"),
        (4 * PER_SEGMENT + 1, 5, STREAM, "not contiguous"),
    ],
)
def test_recordings_that_do_not_fit_are_not_migrated(first: int, count: int, stream_id: int, text: str) -> None:
    recorded = Recorded()
    target = recorded.record(2 * PER_SEGMENT, 2 * PER_SEGMENT)
    source = recorded.record(first, count, stream_id=stream_id)
    code, found = recorded.world.refused(recorded.client.migrate_segments(source, target))
    assert (code, text in found) == (ErrorCode.GENERIC, True), found
    assert len(recorded.bases(source)) == 1


def test_recordings_that_meet_within_a_segment_are_not_migrated() -> None:
    recorded = Recorded()
    target = recorded.record(0, PER_SEGMENT + 3)
    source = recorded.record(PER_SEGMENT + 3, 9)
    code, text = recorded.world.refused(recorded.client.migrate_segments(source, target))
    assert (code, "not a segment boundary" in text) == (ErrorCode.GENERIC, True), text


def test_segments_never_replace_files_of_the_other_recording() -> None:
    recorded = Recorded()
    target = recorded.record(0, 3 * PER_SEGMENT)
    recorded.world.call(recorded.client.detach_segments(target, 2 * SEGMENT))
    source = recorded.record(0, 2 * PER_SEGMENT)
    _, text = recorded.world.refused(recorded.client.migrate_segments(source, target))
    assert "in the way" in text
    assert recorded.numbers(source) == list(range(2 * PER_SEGMENT))


def test_a_recording_whose_files_are_going_takes_no_second_deletion() -> None:
    recorded = Recorded()
    recorded.record(0, 20 * PER_SEGMENT)
    recorded.member.syncs.is_held = True
    first = recorded.client.purge_segments(0, 10 * SEGMENT)
    second = recorded.client.purge_segments(0, 12 * SEGMENT)
    third = recorded.client.truncate(0, 11 * SEGMENT)
    assert recorded.world.call(first) == 10
    for refused in (second, third):
        code, text = recorded.world.refused(refused)
        assert (code, "another delete operation" in text) == (ErrorCode.GENERIC, True)
    recorded.world.settle()
    assert recorded.world.call(recorded.client.purge_segments(0, 12 * SEGMENT)) == 2


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["detach", "delete", "purge", "attach"]), st.integers(-1, 9)), max_size=8)
)
def test_whatever_is_asked_for_the_recording_is_whole_from_its_start_to_its_end(
    steps: list[tuple[str, int]],
) -> None:
    recorded = Recorded()
    count = 6 * PER_SEGMENT + 11
    recorded.record(0, count)
    client = recorded.client
    for step, segment in steps:
        position = segment * SEGMENT
        calls = {
            "detach": lambda position=position: client.detach_segments(0, position),
            "delete": lambda: client.delete_detached_segments(0),
            "purge": lambda position=position: client.purge_segments(0, position),
            "attach": lambda: client.attach_segments(0),
        }
        call = calls[step]()
        recorded.world.until(lambda call=call: call.done)
        recorded.world.settle()
        assert call.error is None or call.error_code == ErrorCode.GENERIC
        start, stop = recorded.range_of()
        assert (start % SEGMENT, stop) == (0, count * LENGTH)
        assert recorded.numbers(0) == list(range(start // LENGTH, count))


def test_the_position_of_a_recording_survives_a_restart_after_every_operation() -> None:
    recorded = Recorded(1)
    recorded.record(0, 5 * PER_SEGMENT)
    recorded.world.call(recorded.client.purge_segments(0, 2 * SEGMENT))
    recorded.world.call(recorded.client.detach_segments(0, 4 * SEGMENT))
    recorded.world.settle()
    recorded.world.remove(recorded.member)
    recorded.storage.power_cut(None)
    recorded.member = recorded.world.member(recorded.storage, SETTINGS)
    recorded.client = recorded.member.client
    assert recorded.range_of() == (4 * SEGMENT, 5 * SEGMENT)
    assert recorded.world.call(recorded.client.attach_segments(0)) == 2
    assert recorded.numbers(0) == list(range(2 * PER_SEGMENT, 5 * PER_SEGMENT))


INT64 = st.sampled_from([-(1 << 63), -1, 0, 1, 2, 3, SEGMENT, 2 * SEGMENT, (1 << 62), (1 << 63) - 1])


@settings(max_examples=15, deadline=None)
@given(requests=st.lists(st.tuples(st.integers(0, 6), INT64, INT64), max_size=8))
def test_whatever_a_client_asks_for_an_active_recording_goes_on_and_the_archive_serves(
    requests: list[tuple[int, int, int]],
) -> None:
    recorded = Recorded()
    client = recorded.client
    active = recorded.start(0, 2 * PER_SEGMENT, stream_id=7)
    recorded.record(0, 3 * PER_SEGMENT)
    makers = (
        client.detach_segments,
        client.purge_segments,
        client.truncate,
        client.migrate_segments,
        lambda first, _: client.attach_segments(first),
        lambda first, _: client.delete_detached_segments(first),
        lambda first, _: client.purge_recording(first),
    )
    for which, first, second in requests:
        call = makers[which](first, second)
        recorded.world.until(lambda call=call: call.done)
        recorded.world.settle()
    offer(recorded.world, active, (2 * PER_SEGMENT).to_bytes(4, "little"))
    recorded.world.settle()
    start = recorded.world.call(client.start_position(0))
    assert recorded.world.call(client.recording_position(0)) == 2 * SEGMENT + 64
    assert recorded.numbers(0) == list(range(start // LENGTH, 2 * PER_SEGMENT + 1))
    assert [each.problem for each in read_recordings(recorded.storage) if each.problem is not None] == []
