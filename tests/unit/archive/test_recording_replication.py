"""A requester of recordings of another archive follows their copying: of one, and of several after each other."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from support.archive_world import ArchiveWorld, Member
from support.media_world import offer
from unit.archive.test_replication import CHANNEL, CONTROL, STREAM, frames, messages, record, two_hosts
from upheaval_node.archive.recording_replication import RecordingReplication, ReplicationSource
from upheaval_node.archive.snapshot_replication import SnapshotReplication
from upheaval_node.errors import NodeError, PeerError, TimeoutExpired
from upheaval_node.protocol.archive_messages import RecordingSignal
from upheaval_node.types import Now, S

pytestmark = pytest.mark.pure

SOURCE = ReplicationSource(CONTROL)
TIMEOUT_NS = 2 * S


class Owner:
    """An agent that owns a replication, passes on what its archive says, and keeps the error that ended it."""

    def __init__(self, world: ArchiveWorld, member: Member) -> None:
        self.member = member
        self.replication: RecordingReplication | SnapshotReplication | None = None
        self.error: NodeError | None = None
        world.agents.append(self)

    def do_work(self, now: Now) -> int:
        replication = self.replication
        if replication is None or self.error is not None:
            return 0
        for signal in self.member.client.take_signals():
            replication.on_signal(signal)
        while self.member.client.late_errors:
            replication.on_late_error(self.member.client.late_errors.popleft())
        try:
            return replication.poll(now)
        except NodeError as error:
            self.error = error
            return 1


def one(
    world: ArchiveWorld, target: Member, src: int = 0, *, dst: int = -1, stop_position: int = -1
) -> tuple[Owner, RecordingReplication]:
    owner = Owner(world, target)
    replication = RecordingReplication(
        target.client,
        target.counters,
        SOURCE,
        src,
        now=world.now,
        dst_recording_id=dst,
        stop_position=stop_position,
        progress_timeout_ns=TIMEOUT_NS,
    )
    owner.replication = replication
    return owner, replication


def several(
    world: ArchiveWorld, target: Member, ids: list[int], ended: list[tuple[int, int, bool]] | None = None
) -> tuple[Owner, SnapshotReplication]:
    owner = Owner(world, target)
    heard = [] if ended is None else ended

    def on_ended(now: Now, src: int, dst: int, position: int, has_synced: bool) -> None:
        heard.append((src, dst, has_synced))

    replication = SnapshotReplication(
        target.client, target.counters, SOURCE, ids, progress_timeout_ns=TIMEOUT_NS, on_ended=on_ended
    )
    owner.replication = replication
    return owner, replication


def recordings(world: ArchiveWorld, member: Member, counts: list[int]) -> None:
    """One stopped recording for each count of messages."""
    for number, count in enumerate(counts):
        publication = member.driver.add_publication(f"{CHANNEL}|session-id={50 + number}", STREAM)
        world.call(member.client.start_recording(f"aeron:ipc?session-id={50 + number}", STREAM))
        world.settle()
        offer(world, publication, *messages(count))
        world.settle()
        world.call(member.client.stop_recording_by_identity(number))
        publication.close()
        world.settle()


# --- one ---


def test_a_stopped_recording_is_copied_to_its_end() -> None:
    world, source, target = two_hosts()
    recordings(world, source, [300])
    _, replication = one(world, target)
    assert (replication.recording_id, replication.has_ended) == (-1, False)
    world.until(lambda: replication.has_ended)
    assert replication.has_synced
    assert replication.recording_id == 0
    assert replication.position == world.call(source.client.stop_position(0))
    assert frames(target, 0) == frames(source, 0)


def test_an_active_recording_is_copied_up_to_the_position_that_is_asked_for() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(100))
    middle = publication.position
    offer(world, publication, *messages(100))
    world.settle()
    _, replication = one(world, target, stop_position=middle)
    world.until(lambda: replication.has_ended)
    assert not replication.has_synced
    assert world.call(target.client.stop_position(0)) == middle


def test_a_copy_that_is_begun_is_extended() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(100))
    _, first = one(world, target, stop_position=publication.position)
    world.until(lambda: first.has_ended)
    offer(world, publication, *messages(100))
    world.settle()
    world.call(source.client.stop_recording_by_identity(0))
    world.agents.pop()
    _, replication = one(world, target, dst=0)
    world.until(lambda: replication.has_ended)
    assert replication.has_synced
    assert frames(target, 0) == frames(source, 0)


def test_what_the_source_does_not_have_is_an_error() -> None:
    world, _, target = two_hosts()
    owner, _ = one(world, target, src=9)
    world.until(lambda: owner.error is not None)
    assert isinstance(owner.error, PeerError)
    assert "replication of recording 9 failed: unknown src recording id 9" in str(owner.error)


def test_a_source_that_does_not_answer_is_an_error() -> None:
    world, source, target = two_hosts()
    recordings(world, source, [10])
    world.remove(source)
    owner, _ = one(world, target)
    world.until(lambda: owner.error is not None, ms=60_000)
    assert isinstance(owner.error, PeerError | TimeoutExpired)


@pytest.mark.parity("RR-05")
def test_a_copy_that_does_not_grow_is_given_up_and_the_archive_is_told() -> None:
    world, source, target = two_hosts()
    record(world, source, messages(100))
    owner, replication = one(world, target)
    world.until(lambda: owner.error is not None)
    assert isinstance(owner.error, TimeoutExpired)
    assert f"log replication has not progressed: recording 0 at {replication.position}" in str(owner.error)
    world.until(lambda: world.call(target.client.recording_position(0)) == -1)
    assert replication.release()


def test_a_copy_that_does_not_stop_where_it_should_is_said_to_be_one() -> None:
    world, source, target = two_hosts()
    publication = record(world, source, messages(100))
    owner, replication = one(world, target, stop_position=publication.position)
    # The owner is deaf: the archives are done, and it does not hear of it.
    world.agents.remove(owner)
    world.settle()
    for signal in target.client.take_signals():
        if signal.signal not in (RecordingSignal.REPLICATE_END, RecordingSignal.STOP):
            replication.on_signal(signal)
    replication.position = publication.position
    world.ns += 10 * TIMEOUT_NS
    with pytest.raises(TimeoutExpired, match="log replication failed to stop"):
        replication.poll(world.now)


def test_a_copy_that_is_given_up_at_once_is_stopped_when_the_archive_has_answered() -> None:
    world, source, target = two_hosts()
    record(world, source, messages(100))
    owner, replication = one(world, target)
    world.agents.remove(owner)
    replication.close()
    assert not replication.release()
    world.until(replication.release)
    world.settle()
    assert world.call(target.client.recording_position(0)) == -1


# --- several ---


@pytest.mark.parity("SP-01")
def test_several_are_copied_in_the_order_that_was_asked_for() -> None:
    world, source, target = two_hosts()
    recordings(world, source, [10, 300, 0, 50])
    ended: list[tuple[int, int, bool]] = []
    _, replication = several(world, target, [2, 0, 3, 1, 3], ended)
    world.until(lambda: replication.is_complete)
    assert replication.recordings == {2: 0, 0: 1, 3: 2, 1: 3}
    assert ended == [(2, 0, True), (0, 1, True), (3, 2, True), (1, 3, True)]
    for src, dst in replication.recordings.items():
        assert frames(target, dst) == frames(source, src)


def test_none_is_complete_at_once() -> None:
    world, _, target = two_hosts()
    _, replication = several(world, target, [])
    assert replication.is_complete
    assert replication.recordings == {}


def test_the_first_that_fails_is_an_error_and_what_was_copied_is_told() -> None:
    world, source, target = two_hosts()
    recordings(world, source, [10])
    owner, replication = several(world, target, [0, 7])
    world.until(lambda: owner.error is not None)
    assert isinstance(owner.error, PeerError)
    assert replication.recordings == {0: 0}
    assert not replication.is_complete


def interrupt(world: ArchiveWorld, source: Member, is_due: Callable[[], bool]) -> None:
    """End all replays of the source in the middle."""
    for _ in range(20_000):
        if is_due():
            break
        if world.turn() == 0:
            world.ns += 20_000_000
    assert is_due()
    world.call(source.client.stop_all_replays())


@pytest.mark.parity("SP-02")
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 60_000), st.integers(1, 4))
def test_one_that_ends_before_everything_is_there_is_gone_on_with(position: int, times: int) -> None:
    world, source, target = two_hosts()
    recordings(world, source, [20, 300])
    ended: list[tuple[int, int, bool]] = []
    _, replication = several(world, target, [1, 0], ended)
    for number in range(times):

        def is_due(number: int = number) -> bool:
            counter = target.counter(0)
            is_over = replication.recordings.get(1) is not None
            return is_over or (counter is not None and counter.get() >= position * (number + 1) // times)

        interrupt(world, source, is_due)
    world.until(lambda: replication.is_complete)
    assert replication.recordings == {1: 0, 0: 1}
    assert ended == [(1, 0, False)] * times + [(1, 0, True), (0, 1, True)]
    assert frames(target, 0) == frames(source, 1)
    assert frames(target, 1) == frames(source, 0)


def test_one_that_ends_again_and_again_without_a_byte_is_given_up() -> None:
    world, source, target = two_hosts()
    record(world, source, messages(100))
    owner, replication = several(world, target, [0])
    world.until(lambda: owner.error is not None or (target.counter(0) is not None and world.turn() == 0))
    for _ in range(2000):
        if owner.error is not None:
            break
        world.call(source.client.stop_all_replays())
        world.ns += 100_000_000
    assert isinstance(owner.error, TimeoutExpired)
    assert not replication.is_complete


@pytest.mark.parity("SP-03")
def test_giving_up_several_stops_the_one_that_runs() -> None:
    world, source, target = two_hosts()
    record(world, source, messages(100))
    _, replication = several(world, target, [0])
    world.until(lambda: target.counter(0) is not None)
    replication.close()
    world.until(replication.release)
    world.settle()
    assert world.call(target.client.recording_position(0)) == -1
    assert not replication.is_complete
