"""What each signal of the own archive means to a requester that follows the copying of a recording."""

import pytest

from support.archive_world import ArchiveWorld, Member
from unit.archive.test_recording_replication import one
from unit.archive.test_replication import messages, record, two_hosts
from upheaval_node.archive.recording_replication import RecordingReplication
from upheaval_node.errors import PeerError
from upheaval_node.protocol.archive_messages import RecordingSignal, RecordingSignalEvent

pytestmark = pytest.mark.pure


def running() -> tuple[ArchiveWorld, Member, RecordingReplication]:
    """A copy that goes on for ever, of which nothing has been heard."""
    world, source, target = two_hosts()
    record(world, source, messages(10))
    owner, replication = one(world, target)
    world.agents.remove(owner)
    world.until(lambda: target.counter(0) is not None)
    return world, target, replication


def hear(replication: RecordingReplication, *signals: RecordingSignal, recording_id: int = 0) -> None:
    for signal in signals:
        replication.on_signal(
            RecordingSignalEvent(
                correlation_id=replication._call.relevant_id, recording_id=recording_id, position=32, signal=signal
            )
        )


def is_recording(world: ArchiveWorld, target: Member) -> bool:
    world.settle()
    return world.call(target.client.recording_position(0)) != -1


@pytest.mark.parity("RR-01")
@pytest.mark.parametrize(
    ("signals", "has_ended", "has_synced"),
    [
        ((), False, False),
        ((RecordingSignal.SYNC,), False, True),
        ((RecordingSignal.REPLICATE_END,), True, False),
        ((RecordingSignal.STOP,), False, False),
        ((RecordingSignal.EXTEND, RecordingSignal.REPLICATE_END), False, False),
        ((RecordingSignal.EXTEND, RecordingSignal.REPLICATE_END, RecordingSignal.STOP), True, False),
        (
            (RecordingSignal.EXTEND, RecordingSignal.SYNC, RecordingSignal.STOP, RecordingSignal.REPLICATE_END),
            True,
            True,
        ),
    ],
)
def test_signals_set_their_flags(signals: tuple[RecordingSignal, ...], has_ended: bool, has_synced: bool) -> None:
    _, _, replication = running()
    hear(replication, *signals)
    assert (replication.has_ended, replication.has_synced) == (has_ended, has_synced)


@pytest.mark.parity("RR-02")
@pytest.mark.parametrize(
    "signal",
    [
        RecordingSignal.START,
        RecordingSignal.EXTEND,
        RecordingSignal.REPLICATE,
        RecordingSignal.MERGE,
        RecordingSignal.SYNC,
    ],
)
def test_giving_up_stops_what_has_not_ended(signal: RecordingSignal) -> None:
    world, target, replication = running()
    hear(replication, signal)
    replication.close()
    assert not is_recording(world, target)


@pytest.mark.parity("RR-03")
def test_giving_up_what_has_ended_asks_the_archive_for_nothing() -> None:
    world, target, replication = running()
    hear(replication, RecordingSignal.EXTEND, RecordingSignal.STOP, RecordingSignal.REPLICATE_END)
    replication.close()
    assert is_recording(world, target)


@pytest.mark.parity("RR-04")
def test_a_recording_that_is_deleted_is_an_error() -> None:
    world, _, replication = running()
    hear(replication, RecordingSignal.DELETE)
    with pytest.raises(PeerError, match="the recording was deleted"):
        replication.poll(world.now)


def test_signals_of_others_mean_nothing() -> None:
    world, _, replication = running()
    other = RecordingSignalEvent(correlation_id=replication._call.relevant_id + 1, signal=RecordingSignal.DELETE)
    replication.on_signal(other)
    assert replication.poll(world.now) == 0
    assert not replication.has_ended
