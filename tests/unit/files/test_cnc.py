"""The header and buffers of cnc.dat."""

import struct

import pytest

from upheaval_node.counters import Counters
from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.files import cnc


def test_buffers_lie_back_to_back_in_the_order_of_aeron() -> None:
    layout = cnc.CncLayout(1024 + 768, 2048 + 128, 1 << 20, 4096)
    assert layout.counters_metadata_offset == 128 + 1792 + 2176
    assert layout.counters_metadata_length == 4 << 20
    assert layout.counters_values_offset == layout.counters_metadata_offset + (4 << 20)
    assert layout.error_log_offset == layout.counters_values_offset + (1 << 20)
    assert layout.file_length >= layout.error_log_offset + 4096
    assert layout.file_length % 4096 == 0


def test_a_header_is_not_ready_until_its_version_is_written() -> None:
    layout = cnc.CncLayout()
    content = bytearray(layout.header(start_timestamp_ms=123, pid=77))
    assert len(content) == cnc.HEADER_LENGTH
    assert cnc.read_header(content) is None
    content[:4] = cnc.ready_version()
    assert cnc.read_header(content) == cnc.CncHeader(layout, 123, 77)
    assert struct.unpack_from("<iiiiiiqqqi", content) == (
        512,
        layout.to_driver_length,
        layout.to_clients_length,
        layout.counters_metadata_length,
        layout.counters_values_length,
        layout.error_log_length,
        10_000_000_000,
        123,
        77,
        4096,
    )


def test_a_short_file_is_not_ready() -> None:
    assert cnc.read_header(b"") is None
    assert cnc.read_header(bytes(127)) is None


@pytest.mark.parametrize(("offset", "value"), [(0, 1 << 16), (4, -1), (12, 17), (16, -128)])
def test_an_impossible_header_is_refused(offset: int, value: int) -> None:
    content = bytearray(cnc.CncLayout().header(start_timestamp_ms=1, pid=2))
    content[:4] = cnc.ready_version()
    struct.pack_into("<i", content, offset, value)
    with pytest.raises(DecodeError):
        cnc.read_header(content)


def test_uneven_counter_buffers_are_a_usage_error() -> None:
    with pytest.raises(UsageError):
        cnc.CncLayout(counters_values_length=1000).header(start_timestamp_ms=1, pid=2)


def test_two_components_share_the_counters_of_one_file() -> None:
    layout = cnc.CncLayout(counters_values_length=128 * 64, error_log_length=0)
    content = memoryview(bytearray(layout.file_length))
    values = content[layout.counters_values_offset : layout.counters_values_offset + layout.counters_values_length]
    metadata_end = layout.counters_metadata_offset + layout.counters_metadata_length
    metadata = content[layout.counters_metadata_offset : metadata_end]
    Counters(values, metadata).reserve_up_to(32)
    driver, module = Counters(values, metadata, 0, 32), Counters(values, metadata, 32)
    mine = module.allocate(203, b"k", "commit", 5)
    assert mine.id == 32
    seen = driver.find(203)
    assert seen is not None
    mine.set(9)
    assert seen.get() == 9
    assert (driver.changes, module.changes) == (0, 2)
