"""Mark files: Aeron's bytes, take-over rules, signals, errors."""

import struct

import pytest

from support.memory_storage import MemoryStorage
from support.wire_data import golden
from upheaval_node.errors import DecodeError, StorageError, UsageError
from upheaval_node.files import layout, mark_file as mf
from upheaval_node.files.error_log import ErrorRecord
from upheaval_node.marks import MarkMaker
from upheaval_node.protocol import archive_mark_messages as amm, cluster_mark_messages as cmm
from upheaval_node.protocol.message import with_values

PATH = "cluster/cluster-mark.dat"
CONSENSUS_MODULE = cmm.ClusterComponentType.CONSENSUS_MODULE

CLUSTER = cmm.MarkFileHeader(
    component_type=CONSENSUS_MODULE,
    pid=29104,
    archive_stream_id=10,
    service_stream_id=104,
    consensus_module_stream_id=105,
    ingress_stream_id=101,
    member_id=0,
    service_id=-1,
    cluster_id=0,
    aeron_directory="/dev/shm/aeron",
    control_channel="aeron:ipc?term-length=128k",
    ingress_channel="aeron:tcp",
    authenticator="default",
    services_cluster_dir="cluster",
)
ARCHIVE = amm.MarkFileHeader(
    pid=29104,
    control_stream_id=10,
    local_control_stream_id=10,
    events_stream_id=30,
    archive_id=1,
    control_channel="aeron:tcp?endpoint=h:8010",
)


def opened(
    storage: MemoryStorage, header: cmm.MarkFileHeader = CLUSTER, now_ms: int = 1000
) -> mf.MarkFile[cmm.MarkFileHeader]:
    return mf.MarkFile(storage, PATH, header, now_ms=now_ms)


def read(storage: MemoryStorage) -> cmm.MarkFileHeader:
    return mf.read_mark_file(storage, PATH, cmm.MarkFileHeader).header


@pytest.mark.parametrize(
    ("key", "component", "service"),
    [
        ("clusterMarkFirst136Hex", CONSENSUS_MODULE, -1),
        ("clusterMarkService0First136Hex", cmm.ClusterComponentType.CONTAINER, 0),
    ],
)
def test_cluster_mark_files_of_a_real_cluster_are_read(key: str, component: int, service: int) -> None:
    storage = MemoryStorage()
    storage.put(PATH, bytes.fromhex(golden()[key]).ljust(8192, b"\0"))
    header = read(storage)
    assert (header.version, header.component_type, header.service_id) == (768, component, service)
    assert (header.pid, header.activity_timestamp, header.header_length) == (29104, -1, 8192)
    assert cmm.SCHEMA.encode(header)[:136] == bytes.fromhex(golden()[key])


def test_archive_mark_file_of_a_real_cluster_is_read() -> None:
    storage = MemoryStorage()
    storage.put(PATH, bytes.fromhex(golden()["archiveMarkFirst136Hex"]).ljust(8192, b"\0"))
    header = mf.read_mark_file(storage, PATH, amm.MarkFileHeader).header
    assert (header.version, header.control_stream_id, header.events_stream_id, header.archive_id) == (196864, 10, 30, 1)


@pytest.mark.parity("MF-04")
def test_a_new_module_mark_file_has_the_bytes_of_a_real_one() -> None:
    storage = MemoryStorage()
    mark = opened(storage, now_ms=1795175423816)
    mark.signal_ready(1795175423900)
    mark.signal_terminated()
    assert storage.content(PATH)[:136] == bytes.fromhex(golden()["clusterMarkFirst136Hex"])


def test_a_new_archive_mark_file_has_the_bytes_of_a_real_one() -> None:
    storage = MemoryStorage()
    mark = mf.MarkFile(storage, "archive/archive-mark.dat", ARCHIVE, now_ms=1795175423735)
    mark.signal_ready(1795175423900)
    mark.signal_terminated()
    assert storage.content("archive/archive-mark.dat")[:136] == bytes.fromhex(golden()["archiveMarkFirst136Hex"])


@pytest.mark.parity("MF-12")
def test_the_texts_are_read_back() -> None:
    storage = MemoryStorage()
    opened(storage)
    header = read(storage)
    assert (header.aeron_directory, header.control_channel) == ("/dev/shm/aeron", "aeron:ipc?term-length=128k")
    assert (header.ingress_channel, header.authenticator, header.services_cluster_dir) == (
        "aeron:tcp",
        "default",
        "cluster",
    )


@pytest.mark.parity("MF-13")
def test_the_version_is_written_only_when_the_component_is_ready() -> None:
    storage = MemoryStorage()
    mark = opened(storage)
    assert (read(storage).version, read(storage).activity_timestamp) == (0, mf.ACTIVATION_IN_PROGRESS)
    mark.signal_ready(1500)
    assert (read(storage).version, read(storage).activity_timestamp, read(storage).start_timestamp) == (768, 1500, 1000)


@pytest.mark.parity("MF-14")
def test_a_failed_start_lets_the_next_one_take_over_at_once() -> None:
    storage = MemoryStorage()
    opened(storage).signal_failed_start()
    assert (read(storage).version, read(storage).activity_timestamp) == (-1, -1)
    opened(storage, now_ms=1001)


@pytest.mark.parity("MF-11", "CX-22", "SC-01")
def test_an_active_file_refuses_a_second_owner_until_the_time_out() -> None:
    storage = MemoryStorage()
    mark = opened(storage)
    mark.signal_ready(1000)
    mark.update_activity(5000)
    assert mf.is_active(read(storage), 14_999)
    for now_ms in (5000, 14_999):
        with pytest.raises(UsageError):
            opened(storage, now_ms=now_ms)
    opened(storage, now_ms=15_000).signal_ready(15_000)
    assert read(storage).start_timestamp == 15_000


def test_an_owner_that_died_while_starting_does_not_lock_the_folder() -> None:
    storage = MemoryStorage()
    opened(storage)
    successor = opened(storage, now_ms=1001)
    successor.signal_ready(1001)
    assert mf.is_active(read(storage), 1001)


def test_an_orderly_end_frees_the_file() -> None:
    storage = MemoryStorage()
    mark = opened(storage)
    mark.signal_ready(1000)
    mark.signal_terminated()
    assert not mf.is_active(read(storage), 1001)
    opened(storage, now_ms=1001)


def test_another_major_version_is_refused() -> None:
    storage = MemoryStorage()
    content = bytearray(cmm.SCHEMA.encode(with_values(CLUSTER, version=1 << 16, activity_timestamp=-1)))
    storage.put(PATH, bytes(content).ljust(8192, b"\0"))
    with pytest.raises(DecodeError):
        opened(storage)


@pytest.mark.parametrize(
    ("old", "new", "is_allowed"),
    [
        (cmm.ClusterComponentType.UNKNOWN, CONSENSUS_MODULE, True),
        (cmm.ClusterComponentType.BACKUP, CONSENSUS_MODULE, True),
        (CONSENSUS_MODULE, CONSENSUS_MODULE, True),
        (CONSENSUS_MODULE, cmm.ClusterComponentType.BACKUP, False),
        (cmm.ClusterComponentType.CONTAINER, CONSENSUS_MODULE, False),
    ],
)
def test_a_file_of_another_component_is_refused(old: int, new: int, is_allowed: bool) -> None:
    storage = MemoryStorage()
    mark = opened(storage, with_values(CLUSTER, component_type=old))
    mark.signal_ready(1000)
    mark.signal_terminated()
    if is_allowed:
        opened(storage, with_values(CLUSTER, component_type=new))
        assert read(storage).component_type == new
    else:
        with pytest.raises(UsageError):
            opened(storage, with_values(CLUSTER, component_type=new))


@pytest.mark.parity("MF-05", "MF-10")
def test_a_candidate_term_of_an_earlier_release_is_kept() -> None:
    storage = MemoryStorage()
    old = with_values(CLUSTER, version=768, activity_timestamp=-1, candidate_term_id=12, header_length=8192)
    storage.put(PATH, cmm.SCHEMA.encode(old).ljust(8192, b"\0"))
    assert opened(storage).header.candidate_term_id == 12
    assert read(storage).candidate_term_id == 12
    assert opened(MemoryStorage()).header.candidate_term_id == -1


@pytest.mark.parity("MF-09")
def test_the_member_id_is_written_when_it_is_known() -> None:
    storage = MemoryStorage()
    mark = opened(storage, with_values(CLUSTER, member_id=-1))
    mark.update_member_id(2)
    assert read(storage).member_id == mark.header.member_id == 2
    archive = mf.MarkFile(storage, "archive/archive-mark.dat", ARCHIVE, now_ms=1)
    with pytest.raises(UsageError):
        archive.update_member_id(2)


@pytest.mark.parity("MF-06")
def test_a_file_without_a_message_header_is_read() -> None:
    storage = MemoryStorage()
    old = with_values(CLUSTER, version=768, header_length=8192)
    storage.put(PATH, cmm.SCHEMA.encode_body(old).ljust(8192, b"\0"))
    content = mf.read_mark_file(storage, PATH, cmm.MarkFileHeader)
    assert content.schema_version == 0
    assert (content.header.member_id, content.header.aeron_directory) == (0, "/dev/shm/aeron")
    head = storage.open(PATH).read(0, 8192)
    assert mf.decode_header(head, cmm.MarkFileHeader) == content.header
    assert mf.owner_of(head) == mf.MarkOwner(old.pid, old.activity_timestamp)


def test_a_header_begins_like_one_or_is_refused() -> None:
    with pytest.raises(DecodeError, match="neither with a message header nor with a version"):
        mf.decode_header(b"\t\t\t\t".ljust(8192, b"\0"), cmm.MarkFileHeader)


@pytest.mark.parametrize("content", [b"", b"1234567", b"x" * 200, bytes(100)])
def test_what_is_no_mark_file_is_refused(content: bytes) -> None:
    storage = MemoryStorage()
    storage.put(PATH, content)
    with pytest.raises(DecodeError):
        read(storage)


def test_a_missing_file_is_a_storage_error() -> None:
    with pytest.raises(StorageError):
        read(MemoryStorage())


def test_errors_are_recorded_and_the_next_owner_begins_without() -> None:
    storage = MemoryStorage()
    mark = opened(storage)
    mark.error_log.record(1100, "boom")
    mark.error_log.record(1200, "boom")
    mark.signal_terminated()
    expected = [ErrorRecord("boom", 2, 1100, 1200)]
    assert mf.read_mark_file(storage, PATH, cmm.MarkFileHeader).errors == expected
    opened(storage, now_ms=20_000)
    assert mf.read_mark_file(storage, PATH, cmm.MarkFileHeader).errors == []


@pytest.mark.parity("MF-01")
@pytest.mark.parametrize("length", [0, (1 << 20) - 1, -1, 1 << 31])
def test_error_buffers_outside_the_limits_are_refused(length: int) -> None:
    with pytest.raises(UsageError):
        mf.MarkFile(MemoryStorage(), PATH, CLUSTER, now_ms=1, error_buffer_length=length)


def test_the_file_is_as_long_as_header_and_errors_in_whole_pages() -> None:
    storage = MemoryStorage()
    mf.MarkFile(storage, PATH, CLUSTER, now_ms=1, error_buffer_length=(1 << 20) + 1)
    assert len(storage.content(PATH)) == 8192 + (1 << 20) + 4096


def test_texts_that_do_not_fit_the_header_are_refused() -> None:
    with pytest.raises(UsageError):
        opened(MemoryStorage(), with_values(CLUSTER, aeron_directory="x" * 8192))


@pytest.mark.parity("MF-08")
def test_the_cluster_id_is_read_back() -> None:
    storage = MemoryStorage()
    opened(storage, with_values(CLUSTER, cluster_id=9))
    assert read(storage).cluster_id == 9


def test_a_time_that_was_torn_in_its_write_does_not_lock_the_folder_of_a_node() -> None:
    storage = MemoryStorage()
    maker = MarkMaker(storage, "/member-0", 0, 7, 1_700_000_000_000)
    maker.archive(0, "m0:5")
    half = storage.content(layout.ARCHIVE_MARK)
    at = half.index(struct.pack("<q", mf.ACTIVATION_IN_PROGRESS))
    storage.put(layout.ARCHIVE_MARK, half[:at] + struct.pack("<q", 1_700_000_000_000)[:6] + half[at + 6 :])
    maker.archive(0, "m0:5").signal_ready(1_700_000_000_001)
