"""Messages of services: numbered alike on every member, once in the log under any leader, and kept in snapshots."""

import pytest

from support.cluster_parts import PartsWorld
from upheaval_node.cluster.pending_messages import PendingMessages, first_message_id, service_of
from upheaval_node.errors import DecodeError, TerminationError
from upheaval_node.protocol import cluster_messages as cm

FIRST = -(1 << 63) + (2 << 56)


def pending_of(*payloads: bytes) -> PendingMessages:
    pending = PendingMessages(2)
    for payload in payloads:
        pending.enqueue(payload)
    return pending


def appended(world: PartsWorld, pending: PendingMessages) -> list[tuple[int, int, bytes]]:
    """What it brings into the log now: number, time, payload."""
    log = world.leader.active_log
    assert log is not None
    pending.append(log, 7, 1234)
    entries = world.read_log()
    return [
        (entry.cluster_session_id, entry.timestamp, payload)
        for entry, payload in entries
        if isinstance(entry, cm.SessionMessageHeader)
    ]


def test_the_number_of_a_message_names_its_service() -> None:
    assert first_message_id(2) == FIRST
    assert [service_of(first_message_id(service_id) + 5) for service_id in (0, 1, 9)] == [0, 1, 9]


def test_a_leader_appends_each_message_once_in_order() -> None:
    world = PartsWorld()
    pending = pending_of(b"a", b"b")
    assert appended(world, pending) == [(FIRST + 1, 1234, b"a"), (FIRST + 2, 1234, b"b")]
    assert appended(world, pending) == []
    pending.enqueue(b"c")
    assert appended(world, pending) == [(FIRST + 3, 1234, b"c")]


def test_what_is_committed_is_forgotten_and_the_rest_is_appended_again_after_an_election() -> None:
    world = PartsWorld()
    pending = pending_of(b"a" * 50, b"b")
    appended(world, pending)
    pending.restore(128)
    assert (pending.log_id, len(pending)) == (FIRST + 1, 1)
    assert appended(world, pending) == [(FIRST + 2, 1234, b"b")]
    assert world.leader.active_log is not None
    pending.on_committed(world.leader.active_log.position)
    assert (pending.log_id, len(pending)) == (FIRST + 2, 0)


def test_a_member_that_reads_the_message_in_the_log_does_not_append_it() -> None:
    world = PartsWorld()
    pending = pending_of(b"a", b"b", b"c")
    pending.on_log_message(FIRST + 2)
    assert appended(world, pending) == [(FIRST + 3, 1234, b"c")]


def test_a_message_that_the_log_cannot_hold_ends_the_leader() -> None:
    """Not of a container: it would have refused it."""
    world = PartsWorld()
    pending = pending_of(b"a", bytes(8161), b"b")
    log = world.leader.active_log
    assert log is not None
    with pytest.raises(TerminationError, match="8161 bytes of service 2 does not fit into the log") as caught:
        pending.append(log, 7, 1234)
    assert not caught.value.expected
    assert appended(world, pending_of(bytes(8160))) == [(FIRST + 1, 1234, b"a"), (FIRST + 1, 1234, bytes(8160))]


def test_a_service_behind_the_log_offers_what_the_log_has_already() -> None:
    world = PartsWorld()
    pending = pending_of()
    pending.on_log_message(FIRST + 2)
    lagged = [pending.lags]
    for payload in (b"a", b"b", b"c"):
        pending.enqueue(payload)
        lagged.append(pending.lags)
    assert lagged == [True, True, False, False]
    assert appended(world, pending) == [(FIRST + 3, 1234, b"c")]


@pytest.mark.parity("PT-02", "PT-05", "PT-07")
def test_a_snapshot_keeps_what_is_on_its_way() -> None:
    world = PartsWorld()
    pending = pending_of(b"a", b"b", b"c")
    pending.on_log_message(FIRST + 1)
    record, messages = pending.record(), pending.encoded_messages()
    assert (record.next_service_session_id, record.log_service_session_id) == (FIRST + 4, FIRST + 1)
    loaded = PendingMessages(2)
    loaded.load(record, messages)
    loaded.enqueue(b"d")
    expected = [(FIRST + 2, 1234, b"b"), (FIRST + 3, 1234, b"c"), (FIRST + 4, 1234, b"d")]
    assert appended(world, loaded) == expected


@pytest.mark.parity("ST-03")
def test_an_empty_tracker_is_written_with_the_number_after_the_log() -> None:
    pending = pending_of()
    pending.on_log_message(FIRST + 9)
    assert pending.record().next_service_session_id == FIRST + 10


@pytest.mark.parity("PT-06")
@pytest.mark.parametrize("next_id", [FIRST + 2, FIRST + 4])
def test_numbers_with_a_gap_are_refused(next_id: int) -> None:
    pending = pending_of(b"a", b"b")
    record = cm.PendingMessageTracker(next_id, FIRST, 4096, 2)
    with pytest.raises(DecodeError):
        PendingMessages(2).load(record, pending.encoded_messages())


def loaded(pending: PendingMessages) -> PendingMessages:
    """What comes of a snapshot of it."""
    again = PendingMessages(2)
    again.load(pending.record(), pending.encoded_messages())
    return again


def numbers(pending: PendingMessages) -> tuple[int, int, int]:
    return pending.next_id, pending.log_id, len(pending)


@pytest.mark.parity("PT-01")
def test_an_empty_tracker_is_loaded_as_it_was() -> None:
    assert numbers(loaded(pending_of())) == numbers(pending_of()) == (FIRST + 1, FIRST, 0)


@pytest.mark.parity("PT-03")
def test_what_was_appended_and_is_not_committed_is_in_the_snapshot() -> None:
    world = PartsWorld()
    pending = pending_of(b"a", b"b", b"c")
    appended(world, pending)
    again = loaded(pending)
    assert numbers(again) == (FIRST + 4, FIRST, 3)
    assert [payload for _, _, payload in appended(world, again)] == [b"a", b"b", b"c"]


@pytest.mark.parity("PT-04")
def test_what_the_leader_saw_committed_is_in_no_snapshot() -> None:
    world = PartsWorld()
    pending = pending_of(b"a", b"b")
    appended(world, pending)
    assert world.leader.active_log is not None
    pending.on_committed(world.leader.active_log.position)
    pending.enqueue(b"c")
    again = loaded(pending)
    assert numbers(again) == (FIRST + 4, FIRST + 2, 1)
    assert [payload for _, _, payload in appended(world, again)] == [b"c"]
