"""The terms of a copied log, and what a backup writes into its recording log."""

from dataclasses import replace

import pytest

from support.memory_storage import MemoryStorage
from upheaval_node.backup.log_terms import find_terms, name_terms
from upheaval_node.backup.offer import Offer
from upheaval_node.backup.recording_log_update import (
    RetrievedSnapshot,
    name_snapshots,
    name_start_term,
    newest_position,
    wanted_snapshots,
)
from upheaval_node.cluster.members import parse_members
from upheaval_node.errors import PeerError
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.media.api import Block
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.frames import FLAG_BEGIN, FLAGS_UNFRAGMENTED, TYPE_DATA, TYPE_PAD, DataHeader
from upheaval_node.types import align

MEMBER = parse_members("0,h:1,h:2,h:3,h:4,h:5")[0]
OFFER = Offer(MEMBER, 0, (), 0, 5, 4096, 9)


def event(term: int, base: int) -> cm.NewLeadershipTermEvent:
    return cm.NewLeadershipTermEvent(term, base, 1000 + term, base, 0, 1, cm.ClusterTimeUnit.MILLIS, 1)


def frame(payload: bytes, flags: int = FLAGS_UNFRAGMENTED, kind: int = TYPE_DATA) -> bytes:
    length = 32 + len(payload)
    header = DataHeader(length, flags, kind, 0, 1, 100, 0, 0).pack()
    return (header + payload).ljust(align(length, 32), b"\0")


def block(*frames: bytes, start: int = 0) -> Block:
    data = b"".join(frames)
    return Block(memoryview(bytearray(data)), start, start + len(data))


def message(size: int) -> bytes:
    return cm.SCHEMA.encode(cm.SessionMessageHeader(1, 2, 3)) + b"x" * size


def test_terms_are_found_among_other_entries() -> None:
    term = cm.SCHEMA.encode(event(3, 64))
    timer = cm.SCHEMA.encode(cm.TimerEvent(3, 1, 2))
    found = find_terms(block(frame(message(9)), frame(term), frame(timer), frame(term), start=64))
    assert found == [event(3, 64), event(3, 64)]
    assert find_terms(block(frame(message(1)), frame(timer))) == []


def test_what_users_write_is_no_term() -> None:
    """A fragment after the first one begins with a user's bytes; so may those of another schema."""
    term = cm.SCHEMA.encode(event(3, 0))
    foreign = term[:4] + b"\x01\x00" + term[6:]
    frames = [frame(term, 0), frame(term, FLAG_BEGIN), frame(foreign), frame(b"\x18\x00"), frame(term, kind=TYPE_PAD)]
    assert [find_terms(block(each)) for each in frames] == [[]] * 5


@pytest.mark.parametrize("bad", [event(-1, 0), event(1, -32), event(1, 96)])
def test_an_impossible_term_is_refused(bad: cm.NewLeadershipTermEvent) -> None:
    with pytest.raises(PeerError, match="log entry at 64"):
        find_terms(block(frame(cm.SCHEMA.encode(bad)), start=64))
    with pytest.raises(PeerError, match="log entry at 64"):
        find_terms(block(frame(cm.SCHEMA.encode(event(1, 0))[:12]), start=64))


def test_terms_are_named_once_and_the_last_one_first() -> None:
    storage = MemoryStorage()
    log = RecordingLog(storage)
    assert name_terms(log, 7, [event(0, 0), event(1, 64), event(4, 128)]) == 3
    assert name_terms(log, 7, [event(4, 128), event(5, 256)]) == 1
    entries = log.entries
    assert [each.leadership_term_id for each in sorted(entries, key=lambda each: each.entry_index)] == [4, 1, 0, 5]
    assert [(each.leadership_term_id, each.term_base_log_position, each.log_position) for each in entries] == [
        (0, 0, 64),
        (1, 64, -1),
        (4, 128, 256),
        (5, 256, -1),
    ]
    assert [(each.recording_id, each.timestamp) for each in entries] == [(7, 1000), (7, 1001), (7, 1004), (7, 1005)]
    assert RecordingLog(storage).entries == entries


def test_a_term_of_another_recording_is_refused() -> None:
    log = RecordingLog(MemoryStorage())
    name_terms(log, 7, [event(0, 0)])
    with pytest.raises(PeerError, match="term 1 of the log"):
        name_terms(log, 8, [event(1, 64)])


def snapshot(service_id: int, position: int, recording_id: int = 1) -> cm.BackupResponseSnapshot:
    return cm.BackupResponseSnapshot(recording_id, 2, 64, position, 500, service_id)


def retrieved(*snapshots: cm.BackupResponseSnapshot) -> list[RetrievedSnapshot]:
    return [RetrievedSnapshot(each, 20 + each.recording_id, 100) for each in snapshots]


def start(log: RecordingLog, position: int, *snapshots: cm.BackupResponseSnapshot) -> bool:
    return name_start_term(
        log, recording_id=7, start_position=position, retrieved=retrieved(*snapshots), offer=OFFER, timestamp=1
    )


@pytest.mark.parity("BA-03")
def test_the_latest_snapshot_is_the_highest_one_of_the_module() -> None:
    found = retrieved(snapshot(0, 960), snapshot(-1, 128), snapshot(-1, 512), snapshot(-1, 256))
    assert newest_position(found) == 512
    assert newest_position(retrieved(snapshot(0, 960))) == newest_position([]) == -1


def test_the_snapshot_of_the_module_is_named_last_with_its_length() -> None:
    log = RecordingLog(MemoryStorage())
    name_snapshots(log, retrieved(snapshot(1, 128, 3), snapshot(0, 128, 2), snapshot(-1, 128, 1)))
    by_index = sorted(log.entries, key=lambda each: each.entry_index)
    assert [(each.service_id, each.recording_id, each.recorded_length) for each in by_index] == [
        (1, 23, 100),
        (0, 22, 100),
        (-1, 21, 100),
    ]


def places(log: RecordingLog) -> list[tuple[int, int, int]]:
    terms = [each for each in log.entries if not each.is_snapshot]
    return [(each.recording_id, each.leadership_term_id, each.term_base_log_position) for each in terms]


def test_a_copy_that_begins_later_lies_in_the_term_of_its_snapshot_or_the_named_one() -> None:
    log = RecordingLog(MemoryStorage())
    assert start(log, 128, snapshot(0, 128), snapshot(-1, 128))
    assert places(log) == [(7, 2, 64)]
    known = RecordingLog(MemoryStorage())
    name_snapshots(known, retrieved(snapshot(0, 128), snapshot(-1, 128)))
    assert start(known, 128)
    assert places(known) == [(7, 2, 64)]
    bare = RecordingLog(MemoryStorage())
    assert start(bare, 8192)
    assert places(bare) == [(7, 5, 4096)]


def test_a_term_that_begins_in_the_copy_is_not_named_for_its_start() -> None:
    log = RecordingLog(MemoryStorage())
    assert not start(log, 32, snapshot(0, 128), snapshot(-1, 128))
    assert places(log) == []


def test_only_what_is_not_there_is_wanted() -> None:
    log = RecordingLog(MemoryStorage())
    offered = (snapshot(0, 128), snapshot(-1, 128))
    offer = replace(OFFER, snapshots=offered)
    assert wanted_snapshots(log, offer) == list(offered)
    name_snapshots(log, retrieved(snapshot(0, 128)))
    assert wanted_snapshots(log, offer) == [offered[1]]
    name_snapshots(log, retrieved(snapshot(-1, 128)))
    assert wanted_snapshots(log, offer) == []
    later = (snapshot(0, 256), snapshot(-1, 256))
    assert wanted_snapshots(log, replace(OFFER, snapshots=later)) == list(later)
    log.invalidate_snapshot(log.latest_snapshot_set())
    assert wanted_snapshots(log, offer) == list(offered)
