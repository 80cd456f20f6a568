"""The bytes of snapshots: order and fields of the messages, and what is refused when it is read back."""

import struct

import pytest

from support.memory_storage import MemoryStorage
from upheaval_node.cluster.module_snapshot import (
    ModuleSnapshot,
    TrackerState,
    check_service_snapshot,
    decode_module_snapshot,
    encode_module_snapshot,
)
from upheaval_node.cluster.pending_messages import PendingMessages, first_message_id
from upheaval_node.errors import DecodeError
from upheaval_node.files import layout
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT32
from upheaval_node.service.snapshots import ServiceSnapshot, SessionState, decode_snapshot, encode_snapshot


def module_snapshot() -> ModuleSnapshot:
    trackers = []
    for service_id, payloads in ((0, []), (1, [b"a", b"bc"])):
        pending = PendingMessages(service_id)
        for payload in payloads:
            pending.enqueue(payload)
        trackers.append(TrackerState(pending.record(), pending.encoded_messages()))
    return ModuleSnapshot(
        log_position=4096,
        leadership_term_id=3,
        app_version=1,
        next_session_id=9,
        sessions=[
            cm.ClusterSession(4, 40, 640, -1, NULL_INT32, 102, "aeron:tcp?endpoint=c:1"),
            cm.ClusterSession(8, 80, 960, -1, cm.CloseReason.TIMEOUT, 102, "aeron:tcp?endpoint=c:2"),
        ],
        timers=[cm.Timer(11, 1_700_000_000_000), cm.Timer(-5, 7)],
        trackers=trackers,
    )


def service_snapshot() -> ServiceSnapshot:
    sessions = (SessionState(7, 102, "aeron:tcp?endpoint=c:1", b"me"), SessionState(2, 103, "aeron:ipc", b""))
    return ServiceSnapshot(4096, 3, cm.ClusterTimeUnit.MILLIS, 1, sessions, (b"one", b"", b"\xff" * 40))


@pytest.mark.parity("ST-02")
def test_the_module_writes_its_messages_in_aerons_order() -> None:
    messages = encode_module_snapshot(module_snapshot())
    templates = [struct.unpack_from("<H", message, 2)[0] for message in messages]
    assert templates == [100, 105, 103, 103, 104, 104, 107, 107, 1, 1, 100]
    assert all(struct.unpack_from("<H", message, 4)[0] == 111 for message in messages)
    begin = struct.unpack_from("<qqqiiii", messages[0], 8)
    assert begin == (1, 4096, 3, 0, 0, 0, 1)
    assert struct.unpack_from("<i", messages[-1], 8 + 28) == (cm.SnapshotMark.END,)
    # The state names the tracker of service 0 as releases with one service did.
    assert struct.unpack_from("<qqq", messages[1], 8) == (9, first_message_id(0) + 1, first_message_id(0))
    header = struct.unpack_from("<qqq", messages[8], 8)
    assert header == (0, first_message_id(1) + 1, (1 << 63) - 1)
    assert messages[8][32:] == b"a"


@pytest.mark.parity("ST-01")
def test_what_is_written_is_read_back() -> None:
    assert decode_module_snapshot(encode_module_snapshot(module_snapshot())) == module_snapshot()


def test_members_of_older_releases_and_what_comes_after_the_end_are_passed_over() -> None:
    messages = encode_module_snapshot(module_snapshot())
    old = cm.SCHEMA.encode(cm.ClusterMembers(0, 2, "0,a:1"))
    assert decode_module_snapshot([*messages[:2], old, *messages[2:], b"\xff"]) == module_snapshot()


@pytest.mark.parametrize("cut", range(11))
def test_a_snapshot_without_its_end_is_none(cut: int) -> None:
    with pytest.raises(DecodeError):
        decode_module_snapshot(encode_module_snapshot(module_snapshot())[:cut])


def test_a_snapshot_that_begins_twice_or_belongs_to_a_service_is_none() -> None:
    messages = encode_module_snapshot(module_snapshot())
    with pytest.raises(DecodeError, match="twice"):
        decode_module_snapshot([messages[0], *messages])
    with pytest.raises(DecodeError, match="type 2"):
        decode_module_snapshot(encode_snapshot(service_snapshot()))
    with pytest.raises(DecodeError, match="service 1"):
        decode_module_snapshot([*messages[:7], *messages[8:]])


def test_a_service_writes_its_sessions_by_id_and_then_its_state() -> None:
    messages = encode_snapshot(service_snapshot())
    templates = [struct.unpack_from("<H", message, 2)[0] for message in messages[:4]]
    assert templates == [100, 102, 102, 100]
    assert struct.unpack_from("<qqqiiii", messages[0], 8) == (2, 4096, 3, 0, 0, 0, 1)
    assert [struct.unpack_from("<qi", message, 8) for message in messages[1:3]] == [(2, 103), (7, 102)]
    assert tuple(messages[4:]) == service_snapshot().state
    decoded = decode_snapshot(messages)
    assert (decoded.log_position, decoded.state) == (4096, service_snapshot().state)
    assert [each.id for each in decoded.sessions] == [2, 7]


def test_the_module_knows_a_whole_snapshot_of_a_service() -> None:
    messages = encode_snapshot(service_snapshot())
    check_service_snapshot(messages, 4096, 3)
    for wrong in (messages[:3], messages[1:], encode_module_snapshot(module_snapshot())):
        with pytest.raises(DecodeError):
            check_service_snapshot(wrong, 4096, 3)
        with pytest.raises(DecodeError):
            decode_snapshot(wrong)
    for position, term in ((4096 + 32, 3), (4096, 2)):
        with pytest.raises(DecodeError):
            check_service_snapshot(messages, position, term)


def test_a_snapshot_in_a_time_unit_that_does_not_exist_is_none() -> None:
    messages = encode_snapshot(service_snapshot())
    wrong = bytearray(messages[0])
    wrong[40:44] = (77).to_bytes(4, "little")
    with pytest.raises(DecodeError, match="time unit 77"):
        decode_snapshot([bytes(wrong), *messages[1:]])


def test_the_recording_log_keeps_how_long_a_snapshot_is() -> None:
    storage = MemoryStorage()
    log = RecordingLog(storage)
    log.append_term(0, 0, 0, 5)
    log.append_snapshot(3, 0, 0, 4096, 6, 0, recorded_length=640)
    log.append_snapshot(4, 0, 0, 4096, 6, -1, recorded_length=320)
    log.append_snapshot(5, 0, 0, 8192, 7, -1)
    again = RecordingLog(storage)
    assert [entry.recorded_length for entry in again.entries] == [-1, 640, 320, -1]
    again.invalidate_snapshot(again.entries[1:3])
    lengths = [(entry.recorded_length, entry.is_valid) for entry in RecordingLog(storage).entries]
    assert lengths == [(-1, True), (640, False), (320, False), (-1, True)]
    assert [entry.log_position for entry in again.latest_snapshot_set()] == [8192]


def test_bytes_that_another_writer_left_after_a_snapshot_mean_nothing() -> None:
    storage = MemoryStorage()
    log = RecordingLog(storage)
    log.append_snapshot(3, 0, 0, 4096, 6, 0, recorded_length=640)
    log.close()
    file = storage.open(layout.RECORDING_LOG)
    file.write(48, [struct.pack("<q", 641)])
    assert [entry.recorded_length for entry in RecordingLog(storage).entries] == [-1]
