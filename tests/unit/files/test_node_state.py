"""The candidate term is stored before it is used, in Aeron's bytes."""

import pytest
from hypothesis import given, strategies as st

from support.memory_storage import MemoryStorage
from support.wire_data import golden
from upheaval_node.errors import DecodeError, StorageError, UsageError
from upheaval_node.files.layout import NODE_STATE
from upheaval_node.files.node_state import FILE_LENGTH, NodeState


def golden_start() -> bytes:
    return bytes.fromhex(golden()["nodeStateFirst64Hex"])


def stored(content: bytes) -> MemoryStorage:
    storage = MemoryStorage()
    storage.put(NODE_STATE, content.ljust(FILE_LENGTH, b"\0"))
    return storage


@pytest.mark.parity("NF-01")
def test_a_missing_file_without_create_is_an_error() -> None:
    with pytest.raises(StorageError):
        NodeState(MemoryStorage(), create=False)


@pytest.mark.parity("NF-02", "NF-03")
def test_a_new_file_has_no_candidate_term() -> None:
    storage = MemoryStorage()
    state = NodeState(storage)
    assert state.is_new
    assert (state.candidate_term_id, state.timestamp, state.log_position) == (-1, -1, -1)
    assert len(storage.content(NODE_STATE)) == FILE_LENGTH
    assert not NodeState(storage).is_new


def test_the_file_of_a_real_cluster_is_read() -> None:
    state = NodeState(stored(golden_start()))
    assert (state.candidate_term_id, state.timestamp, state.log_position) == (0, 1795175423912, 0)


def test_the_file_of_a_real_cluster_is_written() -> None:
    storage = MemoryStorage()
    assert NodeState(storage).propose_max_candidate_term_id(0, 0, 1795175423912) == 0
    assert storage.content(NODE_STATE) == golden_start().ljust(FILE_LENGTH, b"\0")


@pytest.mark.parity("NF-04")
def test_a_higher_term_is_stored_with_position_and_time() -> None:
    storage = MemoryStorage()
    assert NodeState(storage).propose_max_candidate_term_id(7, 640, 123) == 7
    again = NodeState(storage)
    assert (again.candidate_term_id, again.log_position, again.timestamp) == (7, 640, 123)


@pytest.mark.parametrize("term", [7, 6, -1])
def test_a_term_that_is_not_higher_changes_nothing(term: int) -> None:
    storage = MemoryStorage()
    state = NodeState(storage, sync_level=1)
    state.propose_max_candidate_term_id(7, 640, 123)
    writes, syncs = storage.count_writes, storage.count_syncs
    assert state.propose_max_candidate_term_id(term, 999, 456) == 7
    assert (storage.count_writes, storage.count_syncs) == (writes, syncs)
    assert (state.log_position, state.timestamp) == (640, 123)


@pytest.mark.parametrize("level", [1, 2])
def test_a_proposed_term_survives_a_power_cut_when_the_call_returns(level: int) -> None:
    storage = MemoryStorage()
    state = NodeState(storage, sync_level=level)
    state.propose_max_candidate_term_id(3, 64, 5)
    storage.power_cut()
    assert NodeState(storage, create=False).candidate_term_id == 3


def test_a_failing_disk_does_not_let_a_vote_out() -> None:
    storage = MemoryStorage()
    state = NodeState(storage)
    storage.error = "input/output error"
    with pytest.raises(StorageError):
        state.propose_max_candidate_term_id(3, 64, 5)
    assert state.candidate_term_id == -1


def test_a_file_that_was_never_initialised_is_new() -> None:
    for content in (b"", bytes(FILE_LENGTH)):
        storage = MemoryStorage()
        storage.put(NODE_STATE, content)
        state = NodeState(storage)
        assert state.is_new
        assert state.propose_max_candidate_term_id(1, 0, 0) == 1


@pytest.mark.parity("NF-05")
def test_a_file_of_another_major_version_is_refused() -> None:
    with pytest.raises(DecodeError):
        NodeState(stored(b"\x00\x00\x01\x00" + golden_start()[4:]))


@pytest.mark.parity("NF-07")
def test_a_file_of_an_earlier_release_with_more_records_is_read_and_written() -> None:
    members = bytes.fromhex("10002f0170000a00") + (38).to_bytes(4, "little") + bytes(4)
    members += bytes(16) + (2).to_bytes(4, "little") + b"ab" + bytes(2)
    storage = stored(golden_start()[:8] + members + golden_start()[8:])
    state = NodeState(storage)
    assert (state.is_new, state.candidate_term_id) == (False, 0)
    state.propose_max_candidate_term_id(9, 1, 2)
    content = storage.content(NODE_STATE)
    assert content[8 : 8 + len(members)] == members
    assert NodeState(storage).candidate_term_id == 9


@pytest.mark.parametrize(
    "content",
    [
        golden_start()[:48],
        golden_start()[:8] + golden_start()[48:64],
        golden_start()[:16] + bytes(4) + golden_start()[20:],
        golden_start()[:12] + b"\x00\x00" + golden_start()[14:],
    ],
)
def test_a_damaged_file_is_refused(content: bytes) -> None:
    with pytest.raises(DecodeError):
        NodeState(stored(content))


def test_a_term_that_fits_no_int64_is_a_usage_error() -> None:
    state = NodeState(MemoryStorage())
    with pytest.raises(UsageError):
        state.propose_max_candidate_term_id(1 << 63, 0, 0)
    assert state.candidate_term_id == -1


@pytest.mark.parity("NF-06")
@given(st.lists(st.integers(-5, 1 << 40), max_size=20))
def test_the_stored_term_is_the_highest_ever_proposed(terms: list[int]) -> None:
    storage = MemoryStorage()
    state = NodeState(storage)
    highest = -1
    for term in terms:
        highest = max(highest, term)
        assert state.propose_max_candidate_term_id(term, 0, 0) == highest
    assert NodeState(storage).candidate_term_id == highest
