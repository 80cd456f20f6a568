"""Counters in shared memory: seen across processes, disjoint ranges, a dead driver's file."""

import itertools
import struct
from pathlib import Path

import pytest

from unit.runtime.parties import child, read_line
from upheaval_node.counters import COMMIT_POSITION, RECORDING_POSITION, Counters
from upheaval_node.errors import UsageError
from upheaval_node.runtime.mark_lock import AlreadyRunning
from upheaval_node.runtime.shared_counters import (
    DRIVER_RANGE,
    MODULE_RANGE,
    CncFile,
    attach_cnc,
    create_cnc,
    service_range,
)

MODULE = """
    import sys
    from upheaval_node.runtime.shared_counters import MODULE_RANGE, attach_cnc
    counters = attach_cnc(sys.argv[1]).counters(MODULE_RANGE)
    commit = counters.allocate(203, b"key", "commit")
    print(counters.find(100).get(), flush=True)
    for line in sys.stdin:
        commit.set(int(line))
        print("set", flush=True)
"""


def test_counters_are_seen_across_processes_in_both_directions(tmp_path: Path) -> None:
    path = str(tmp_path / "aeron" / "cnc.dat")
    counters = create_cnc(path, pid=1, now_ms=2, is_shared=True).counters(DRIVER_RANGE)
    recording = counters.allocate(RECORDING_POSITION, b"", "rec-pos", 4711)
    with child(MODULE, path) as process:
        assert read_line(process) == b"4711"
        commit = counters.find(COMMIT_POSITION, b"key")
        assert commit is not None
        assert process.stdin is not None
        for value in (64, 1 << 62, -1):
            process.stdin.write(b"%d\n" % value)
            process.stdin.flush()
            assert read_line(process) == b"set"
            assert commit.get() == value
    assert MODULE_RANGE[0] <= commit.id < MODULE_RANGE[1]
    assert recording.id < MODULE_RANGE[0]


def test_a_shared_file_is_scanned_over_all_ranges_and_no_further(tmp_path: Path) -> None:
    cnc = create_cnc(str(tmp_path / "aeron" / "cnc.dat"), pid=1, now_ms=2, is_shared=True)
    service = cnc.counters(service_range(9)).allocate(1, b"", "last range")
    seen: list[str] = []
    cnc.counters().for_each(lambda counter, type_id, key, label: seen.append(label))
    assert seen == ["last range"]
    assert service.id == service_range(9)[0]


def test_one_process_uses_the_file_from_its_start(tmp_path: Path) -> None:
    path = str(tmp_path / "aeron" / "cnc.dat")
    counters = create_cnc(path, pid=1, now_ms=2, is_shared=False).counters()
    assert counters.allocate(1, b"", "first").id == 0
    raw = Path(path).read_bytes()
    attached = attach_cnc(path)
    assert isinstance(attached, CncFile)
    offset = attached.header.counters_metadata_offset
    assert struct.unpack_from("<ii", raw, offset) == (1, 1)
    assert struct.unpack_from("<i", raw, offset + 512) == (0,)
    assert (attached.header.pid, attached.header.start_timestamp_ms) == (1, 2)


def test_the_file_of_a_dead_driver_is_not_attached_to_but_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "aeron" / "cnc.dat")
    assert attach_cnc(path) is None, "no file yet"
    code = """
        import os, sys
        from upheaval_node.runtime.shared_counters import create_cnc
        create_cnc(sys.argv[1], pid=os.getpid(), now_ms=1, is_shared=True)
        print("made", flush=True)
        sys.stdin.read()
    """
    with child(code, path) as process:
        assert read_line(process) == b"made"
        attached = attach_cnc(path)
        assert attached is not None
        assert attached.is_driver_alive()
        with pytest.raises(AlreadyRunning):
            create_cnc(path, pid=1, now_ms=2, is_shared=True)
        process.kill()
        process.wait()
        assert not attached.is_driver_alive()
    assert attach_cnc(path) is None
    assert create_cnc(path, pid=3, now_ms=4, is_shared=True).header.pid == 3
    attached = attach_cnc(path)
    assert attached is not None
    assert attached.header.pid == 3


def test_ranges_do_not_overlap() -> None:
    ranges = [DRIVER_RANGE, MODULE_RANGE, *(service_range(index) for index in range(10))]
    assert all(first[1] == second[0] for first, second in itertools.pairwise(ranges))
    with pytest.raises(UsageError):
        service_range(10)
    assert ranges[-1][1] <= 8192
    assert Counters.in_memory(8).capacity == 8


def test_a_full_disk_is_told_at_the_start_and_not_by_a_signal_later(tmp_path: Path) -> None:
    code = """
        import resource, signal, sys
        from upheaval_node.errors import StorageError
        from upheaval_node.runtime.shared_counters import create_cnc
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            create_cnc(sys.argv[1], pid=1, now_ms=2, is_shared=True)
        except StorageError as error:
            print("refused", flush=True)
    """
    with child(code, str(tmp_path / "aeron" / "cnc.dat")) as process:
        assert read_line(process) == b"refused"
