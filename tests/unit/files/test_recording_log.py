"""The recording log: what is appended is found again, in Aeron's bytes and order, and misuse is refused."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.memory_storage import MemoryStorage
from support.wire_data import golden
from upheaval_node.errors import StorageError, UsageError
from upheaval_node.files.layout import RECORDING_LOG
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import Entry, EntryType, RecordingLog
from upheaval_node.types import NULL_POSITION, NULL_VALUE


def new_log(sync_level: int = 0) -> tuple[MemoryStorage, RecordingLog]:
    storage = MemoryStorage()
    return storage, RecordingLog(storage, sync_level=sync_level)


def reloaded(storage: MemoryStorage) -> RecordingLog:
    return RecordingLog(storage, create=False)


def append_set(log: RecordingLog, recording_id: int, term: int, position: int, services: int = 1) -> None:
    """A complete snapshot: services from the last to the first, then the module."""
    for service_id in range(services - 1, -2, -1):
        log.append_snapshot(recording_id, term, 0, position, 99, service_id)


def append_standby_set(log: RecordingLog, position: int, endpoint: str, services: int = 1, term: int = 0) -> None:
    for service_id in range(services - 1, -2, -1):
        log.append_standby_snapshot(7, term, 0, position, 99, service_id, endpoint)


def terms(log: RecordingLog) -> list[tuple[int, int, int]]:
    return [
        (entry.leadership_term_id, entry.term_base_log_position, entry.log_position)
        for entry in log.entries
        if entry.type is EntryType.TERM
    ]


def snapshots(log: RecordingLog) -> list[tuple[int, int, bool]]:
    return [(entry.log_position, entry.service_id, entry.is_valid) for entry in log.entries if entry.is_snapshot]


def test_file_of_a_real_cluster_is_read() -> None:
    storage = MemoryStorage()
    storage.put(RECORDING_LOG, bytes.fromhex(golden()["recordingLogHex"]))
    log = RecordingLog(storage)
    timestamp = 1795175424049
    assert list(log.entries) == [
        Entry(0, 0, 0, -1, 1795175423916, -1, EntryType.TERM, entry_index=0, offset=0),
        Entry(1, 0, 0, 3776, timestamp, 0, EntryType.SNAPSHOT, entry_index=1, offset=64),
        Entry(2, 0, 0, 3776, timestamp, -1, EntryType.SNAPSHOT, entry_index=2, offset=128),
    ]


@pytest.mark.parametrize("changed", [None, 16, 48, 56, 60])
def test_the_length_of_a_snapshots_recording_counts_while_nobody_has_changed_the_entry(changed: int | None) -> None:
    storage, log = new_log()
    log.append_snapshot(5, 1, 0, 3776, 99, 0, recorded_length=1984)
    if changed is not None:
        content = bytearray(storage.content(RECORDING_LOG))
        content[changed] ^= 1
        storage.put(RECORDING_LOG, bytes(content))
    (entry,) = reloaded(storage).entries
    assert entry.recorded_length == (1984 if changed is None else NULL_VALUE)


def test_file_of_a_real_cluster_is_written() -> None:
    storage, log = new_log()
    log.append_term(0, 0, 0, 1795175423916)
    log.append_snapshot(1, 0, 0, 3776, 1795175424049, 0)
    log.append_snapshot(2, 0, 0, 3776, 1795175424049, -1)
    assert storage.content(RECORDING_LOG).hex() == golden()["recordingLogHex"]


@pytest.mark.parity("RL-01")
def test_a_new_log_is_empty() -> None:
    storage, log = new_log()
    assert list(log.entries) == []
    assert log.find_last_term() is None
    assert log.find_last_term_recording_id() == NULL_VALUE
    assert log.is_unknown(0)
    assert log.get_latest_snapshot() is None
    assert storage.content(RECORDING_LOG) == b""


def test_a_missing_file_without_create_is_an_error() -> None:
    with pytest.raises(StorageError):
        RecordingLog(MemoryStorage(), create=False)


@pytest.mark.parity("RL-02")
def test_an_appended_snapshot_is_found_after_reload() -> None:
    storage, log = new_log()
    log.append_term(0, 3, 100, 5)
    written = log.append_snapshot(1, 3, 100, 777, 9, -1)
    assert reloaded(storage).get_latest_snapshot() == written == log.get_latest_snapshot()


@pytest.mark.parity("RL-06")
def test_a_term_end_is_committed_and_persisted() -> None:
    storage, log = new_log()
    log.append_term(0, 3, 100, 5)
    log.commit_log_position(3, 400)
    assert terms(log) == terms(reloaded(storage)) == [(3, 100, 400)]
    writes = storage.count_writes
    log.commit_log_position(3, 400)
    assert storage.count_writes == writes


def test_committing_an_unknown_term_is_an_error() -> None:
    _, log = new_log()
    with pytest.raises(UsageError):
        log.commit_log_position(3, 400)
    with pytest.raises(UsageError):
        log.get_term_entry(3)


@pytest.mark.parity("RL-05")
def test_an_invalidated_term_is_unknown_and_cannot_be_committed() -> None:
    storage, log = new_log()
    log.append_term(4, 0, 0, 1)
    second = log.append_term(4, 1, 100, 2)
    log.invalidate_entry(second.entry_index)
    for view in (log, reloaded(storage)):
        assert view.is_unknown(1)
        assert view.find_term_entry(1) is None
        last = view.find_last_term()
        assert last is not None
        assert last.leadership_term_id == 0
        with pytest.raises(UsageError):
            view.commit_log_position(1, 5)
    assert log.get_term_entry(0).timestamp == 1


@pytest.mark.parity("RL-07")
def test_a_removed_entry_disappears_and_its_record_keeps_its_place() -> None:
    storage, log = new_log()
    log.append_term(0, 0, 0, 1)
    middle = log.append_term(0, 1, 100, 2)
    log.append_term(0, 2, 200, 3)
    log.remove_entry(1, middle.entry_index)
    assert [entry[0] for entry in terms(log)] == [0, 2]
    assert [entry.entry_index for entry in log.entries] == [0, 2]
    assert len(storage.content(RECORDING_LOG)) == 192
    assert log.append_term(0, 1, 100, 9).entry_index == 3
    with pytest.raises(UsageError):
        log.remove_entry(7, 0)
    with pytest.raises(UsageError):
        log.remove_entry(0, 17)


def test_removing_a_long_standby_record_leaves_nothing_to_misread() -> None:
    storage, log = new_log()
    long = log.append_standby_snapshot(1, 0, 0, 10, 1, -1, "h" * 300)
    log.append_term(5, 0, 0, 1)
    log.remove_entry(0, long.entry_index)
    assert [entry.type for entry in reloaded(storage).entries] == [EntryType.TERM]


@pytest.mark.parametrize("level", [0, 1, 2])
def test_what_is_written_survives_a_power_cut_at_sync_level_1_and_2(level: int) -> None:
    storage, log = new_log(level)
    log.append_term(0, 0, 0, 1)
    log.append_snapshot(1, 0, 0, 64, 1, -1)
    log.commit_log_position(0, 640)
    log.invalidate_entry(1)
    before = list(log.entries)
    storage.power_cut()
    after = RecordingLog(storage)
    assert list(after.entries) == (before if level > 0 else [])


def test_a_failing_disk_is_reported() -> None:
    storage, log = new_log(1)
    storage.error = "no space left"
    with pytest.raises(StorageError):
        log.append_term(0, 0, 0, 1)


# --- terms


@pytest.mark.parity("RL-15")
def test_terms_appended_out_of_order_are_sorted_and_their_ends_linked() -> None:
    storage, log = new_log()
    log.append_term(0, 0, 0, 1)
    log.append_term(0, 3, 300, 4)
    log.append_term(0, 2, 200, 3)
    log.append_term(0, 1, 100, 2)
    expected = [(0, 0, 100), (1, 100, 200), (2, 200, 300), (3, 300, NULL_POSITION)]
    assert terms(log) == terms(reloaded(storage)) == expected


@pytest.mark.parity("RL-17", "RL-19")
def test_a_term_needs_a_recording_and_all_terms_share_it() -> None:
    _, log = new_log()
    with pytest.raises(UsageError):
        log.append_term(NULL_VALUE, 0, 0, 1)
    log.append_term(5, 0, 0, 1)
    with pytest.raises(UsageError):
        log.append_term(6, 1, 0, 1)
    assert terms(log) == [(0, 0, NULL_POSITION)]


@pytest.mark.parity("RL-20")
def test_a_term_is_known_once_but_again_after_it_was_invalidated() -> None:
    storage, log = new_log()
    first = log.append_term(5, 0, 0, 1)
    with pytest.raises(UsageError):
        log.append_term(5, 0, 10, 1)
    log.invalidate_entry(first.entry_index)
    log.append_term(5, 0, 20, 1)
    assert reloaded(storage).get_term_entry(0).term_base_log_position == 20


@pytest.mark.parity("RL-16", "RL-21")
def test_all_kinds_sort_by_term_base_kind_and_position_with_services_last_to_first() -> None:
    storage, log = new_log()
    log.append_snapshot(8, 1, 50, 90, 1, -1)
    log.append_standby_snapshot(9, 1, 50, 95, 1, -1, "h:1")
    log.append_snapshot(7, 1, 50, 90, 1, 1)
    log.append_term(1, 1, 50, 1)
    log.append_snapshot(6, 1, 50, 70, 1, -1)
    log.append_snapshot(5, 0, 0, 40, 1, -1)
    log.append_snapshot(4, 1, 50, 90, 1, 0)
    log.append_term(1, 0, 0, 1)
    order = [(entry.recording_id, int(entry.type)) for entry in log.entries]
    assert order == [(1, 0), (5, 1), (1, 0), (9, 2), (6, 1), (7, 1), (4, 1), (8, 1)]
    assert list(reloaded(storage).entries) == list(log.entries)


# --- snapshots


@pytest.mark.parity("RL-18")
def test_a_snapshot_needs_a_recording() -> None:
    _, log = new_log()
    with pytest.raises(UsageError):
        log.append_snapshot(NULL_VALUE, 0, 0, 0, 1, -1)


def test_latest_snapshot_of_a_service_skips_invalid_ones_and_takes_an_older_set() -> None:
    _, log = new_log()
    log.append_term(0, 0, 0, 1)
    append_set(log, 1, 0, 100, services=2)
    append_set(log, 2, 0, 200, services=2)
    newest = log.get_latest_snapshot(1)
    assert newest is not None
    assert newest.log_position == 200
    log.invalidate_entry(newest.entry_index)
    older, module = log.get_latest_snapshot(1), log.get_latest_snapshot()
    assert older is not None
    assert module is not None
    assert (older.log_position, module.log_position) == (100, 200)
    assert log.get_latest_snapshot(2) is None


@pytest.mark.parity("RL-10", "RL-11")
@pytest.mark.parametrize("later", [0, 1])
def test_appending_an_invalidated_snapshot_again_revives_its_record(later: int) -> None:
    storage, log = new_log()
    log.append_term(0, 0, 0, 1)
    log.append_snapshot(1, 0, 0, 100, 5, -1)
    for _ in range(later):
        log.append_snapshot(2, 0, 0, 200, 5, -1)
    size = len(storage.content(RECORDING_LOG))
    log.invalidate_entry(1)
    assert [entry.is_invalid_snapshot for entry in log.entries][1]
    revived = log.append_snapshot(9, 0, 0, 100, 77, -1)
    assert (revived.entry_index, revived.recording_id, revived.timestamp, revived.is_valid) == (1, 9, 77, True)
    assert len(storage.content(RECORDING_LOG)) == size
    assert list(reloaded(storage).entries) == list(log.entries)


@pytest.mark.parity("RL-13")
@pytest.mark.parametrize("change", [{"term": 1}, {"base": 1}, {"position": 101}, {"service_id": 0}])
def test_a_snapshot_that_differs_from_the_invalidated_one_is_appended(change: dict[str, int]) -> None:
    storage, log = new_log()
    log.append_snapshot(1, 0, 0, 100, 5, -1)
    log.invalidate_entry(0)
    values = {"term": 0, "base": 0, "position": 100, "service_id": -1} | change
    log.append_snapshot(2, values["term"], values["base"], values["position"], 5, values["service_id"])
    assert len(storage.content(RECORDING_LOG)) == 128
    assert sorted(entry.is_valid for entry in log.entries) == [False, True]


@pytest.mark.parity("RL-09")
def test_invalidating_the_latest_snapshot_goes_set_by_set_and_leaves_terms() -> None:
    storage, log = new_log()
    log.append_term(0, 0, 0, 1)
    append_set(log, 1, 0, 100, services=2)
    append_set(log, 2, 0, 200, services=2)
    assert log.invalidate_latest_snapshot()
    assert [valid for position, _, valid in snapshots(log) if position == 200] == [False] * 3
    assert [valid for position, _, valid in snapshots(log) if position == 100] == [True] * 3
    assert log.invalidate_latest_snapshot()
    assert not log.invalidate_latest_snapshot()
    assert not any(valid for *_, valid in snapshots(reloaded(storage)))
    assert not log.is_unknown(0)


@pytest.mark.parity("RL-32")
def test_invalidating_takes_local_and_standby_sets_of_the_highest_position() -> None:
    _, log = new_log()
    log.append_term(0, 0, 0, 1)
    append_set(log, 1, 0, 100)
    append_standby_set(log, 100, "h:1")
    append_standby_set(log, 50, "h:1")
    assert log.invalidate_latest_snapshot()
    assert sorted(snapshots(log)) == [(50, -1, True), (50, 0, True)] + [
        (100, service, False) for service in (-1, -1, 0, 0)
    ]


@pytest.mark.parity("RL-35")
def test_an_older_standby_set_is_untouched_when_a_newer_local_one_is_invalidated() -> None:
    _, log = new_log()
    log.append_term(0, 0, 0, 1)
    append_standby_set(log, 50, "h:1")
    append_set(log, 1, 0, 100)
    assert log.invalidate_latest_snapshot()
    assert [entry.is_valid for entry in log.entries if entry.type is EntryType.STANDBY_SNAPSHOT] == [True, True]
    assert not any(entry.is_valid_snapshot for entry in log.entries)


@pytest.mark.parity("RL-12")
def test_invalidating_without_the_term_of_the_snapshot_is_an_error() -> None:
    _, log = new_log()
    append_set(log, 1, 0, 100)
    with pytest.raises(UsageError):
        log.invalidate_latest_snapshot()


def test_invalidating_an_incomplete_set_stops_at_the_gap() -> None:
    _, log = new_log()
    log.append_term(0, 0, 0, 1)
    log.append_snapshot(1, 0, 0, 90, 1, 0)
    log.append_snapshot(1, 0, 0, 100, 1, -1)
    log.invalidate_latest_snapshot()
    assert snapshots(log) == [(90, 0, True), (100, -1, False)]


@pytest.mark.parity("RL-14")
def test_snapshot_at_or_before_a_position() -> None:
    _, log = new_log()
    log.append_term(0, 0, 0, 1)
    for position in (100, 200, 300):
        append_set(log, position, 0, position, services=2)
    log.append_snapshot(9, 0, 0, 400, 1, -1)
    append_standby_set(log, 250, "h:1", services=2)
    found = {p: log.find_snapshot_at_or_before_or_lowest(p, 2) for p in (50, 100, 150, 300, 10_000)}
    assert {p: {e.log_position for e in entries} for p, entries in found.items()} == {
        50: {100},
        100: {100},
        150: {100},
        300: {300},
        10_000: {300},
    }
    assert [entry.service_id for entry in found[300]] == [1, 0, -1]
    assert log.find_snapshot_at_or_before_or_lowest(1000, 5) == []
    assert new_log()[1].find_snapshot_at_or_before_or_lowest(1000, 1) == []


@pytest.mark.parity("RL-31")
def test_standby_snapshots_keep_their_endpoint_after_reload() -> None:
    storage, log = new_log()
    for endpoint in ("h:1", "x" * 12, "x" * 13, "y" * 4044):
        log.append_standby_snapshot(1, 0, 0, len(endpoint), 1, -1, endpoint)
    log.append_term(2, 0, 0, 1)
    assert list(reloaded(storage).entries) == list(log.entries)
    assert [entry.offset for entry in sorted(log.entries, key=lambda e: e.entry_index)] == [0, 64, 128, 256, 4352]


@pytest.mark.parity("RL-37")
@pytest.mark.parametrize("endpoint", ["", "x" * 4045])
def test_an_endpoint_that_is_missing_or_too_long_is_refused(endpoint: str) -> None:
    storage, log = new_log()
    with pytest.raises(UsageError):
        log.append_standby_snapshot(1, 0, 0, 1, 1, -1, endpoint)
    assert list(log.entries) == []
    assert storage.content(RECORDING_LOG) == b""


def test_an_invalidated_standby_snapshot_can_be_appended_again() -> None:
    storage, log = new_log()
    log.append_standby_snapshot(1, 0, 0, 100, 5, -1, "h:1")
    log.invalidate_entry(0)
    log.append_standby_snapshot(2, 0, 0, 100, 6, -1, "h:1")
    log.append_standby_snapshot(3, 0, 0, 100, 6, -1, "other:1")
    assert [(e.recording_id, e.archive_endpoint) for e in reloaded(storage).entries] == [(2, "h:1"), (3, "other:1")]


@pytest.mark.parity("RL-34")
def test_latest_complete_standby_set_of_each_endpoint() -> None:
    _, log = new_log()
    append_standby_set(log, 100, "a:1")
    append_standby_set(log, 200, "a:1")
    append_standby_set(log, 150, "b:1")
    log.append_standby_snapshot(1, 0, 0, 900, 1, -1, "b:1")
    found = log.latest_standby_snapshots(1)
    assert {endpoint: entries[0].log_position for endpoint, entries in found.items()} == {"a:1": 200, "b:1": 150}
    assert [entry.service_id for entry in found["a:1"]] == [0, -1]


# --- coherence


@pytest.mark.parity("RL-22", "RL-23")
@pytest.mark.parametrize(
    ("initial_term", "initial_base", "term", "base", "end", "expected"),
    [
        (0, 0, 0, 0, NULL_POSITION, [(0, 0, -1)]),
        (0, 0, 2, 500, NULL_POSITION, [(0, 0, 0), (1, 0, 500), (2, 500, -1)]),
        (3, 90, 4, 100, 200, [(3, 90, 100), (4, 100, 200)]),
        (-1, 0, 1, 10, NULL_POSITION, [(0, 0, 10), (1, 10, -1)]),
        (2, 70, 2, NULL_POSITION, NULL_POSITION, [(2, 70, -1)]),
    ],
)
def test_missing_terms_of_an_empty_log_are_made(
    initial_term: int, initial_base: int, term: int, base: int, end: int, expected: list[tuple[int, int, int]]
) -> None:
    storage, log = new_log()
    log.ensure_coherent(1, initial_term, initial_base, term, base, end, 7)
    assert terms(log) == terms(reloaded(storage)) == expected


@pytest.mark.parity("RL-24", "RL-26")
@pytest.mark.parametrize(
    ("term", "base", "end", "expected"),
    [
        (1, 100, NULL_POSITION, [(0, 0, 100), (1, 100, -1)]),
        (3, 100, NULL_POSITION, [(0, 0, 100), (1, 100, 100), (2, 100, 100), (3, 100, -1)]),
        (2, 100, 300, [(0, 0, 100), (1, 100, 100), (2, 100, 300)]),
    ],
)
def test_terms_missing_after_a_known_one_have_no_length(
    term: int, base: int, end: int, expected: list[tuple[int, int, int]]
) -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    log.ensure_coherent(1, 0, 0, term, base, end, 7)
    assert terms(log) == expected


def test_many_missing_terms_are_those_of_one_after_the_other_and_take_few_writes() -> None:
    count = 1_000
    storage, log = new_log(sync_level=1)
    other, one_by_one = new_log(sync_level=1)
    for each in (log, one_by_one):
        each.append_term(1, 0, 0, 7)
    before = storage.count_syncs
    log.ensure_coherent(1, 0, 0, count, 64, NULL_POSITION, 7)
    # 64 bytes a term, in pages of 4 KiB, and the end of the term that was open.
    assert storage.count_syncs - before <= 64 * count // 4096 + 3
    for term in range(1, count + 1):
        one_by_one.append_term(1, term, 64, 7)
    assert storage.content(RECORDING_LOG) == other.content(RECORDING_LOG)
    assert terms(log) == terms(reloaded(storage)) == terms(one_by_one)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_among_many_missing_terms_leaves_no_hole(seed: int) -> None:
    storage, log = new_log(sync_level=1)
    log.append_term(1, 0, 0, 7)
    left = 2 + seed % 5

    def cut() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            # The write is done, its sync is not.
            storage.error = "cut"

    storage.before_change = cut
    with pytest.raises(StorageError):
        log.ensure_coherent(1, 0, 0, 1_000, 64, NULL_POSITION, 7)
    storage.before_change = storage.error = None
    storage.power_cut(Random(seed))
    known = terms(RecordingLog(storage, sync_level=1, create=False))
    assert known == [(0, 0, 64), *((term, 64, 64) for term in range(1, len(known)))]


def test_a_closed_term_keeps_its_end_when_the_next_begins() -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    log.commit_log_position(0, 80)
    log.ensure_coherent(1, 0, 0, 2, 999, NULL_POSITION, 7)
    assert terms(log) == [(0, 0, 80), (1, 80, 80), (2, 80, -1)]


@pytest.mark.parity("RL-25")
@pytest.mark.parametrize(("end", "expected"), [(NULL_POSITION, 50), (50, 50), (70, 70)])
def test_a_known_term_just_gets_its_end(end: int, expected: int) -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    log.commit_log_position(0, 50)
    log.ensure_coherent(1, 0, 0, 0, 5, end, 7)
    assert terms(log) == [(0, 0, expected)]


@pytest.mark.parity("RL-27")
def test_an_open_term_cannot_end_at_an_unknown_base() -> None:
    _, log = new_log()
    log.append_term(1, 0, 0, 1)
    with pytest.raises(UsageError):
        log.ensure_coherent(1, 0, 0, 1, NULL_POSITION, NULL_POSITION, 7)


def test_without_a_recording_nothing_is_made_coherent() -> None:
    _, log = new_log()
    log.ensure_coherent(NULL_VALUE, 0, 0, 3, 0, 0, 7)
    assert list(log.entries) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 10).map(lambda n: n * 32), st.booleans()), max_size=8))
def test_terms_are_without_gap_and_each_ends_where_the_next_begins(steps: list[tuple[int, int, bool]]) -> None:
    storage, log = new_log()
    term, position = -1, 0
    for jump, length, is_closed in steps:
        term += jump
        log.ensure_coherent(1, 0, 0, term, position, position + length if is_closed else NULL_POSITION, 7)
        position += length
    found = terms(log)
    assert [entry[0] for entry in found] == list(range(term + 1))
    assert all(before[2] == after[1] for before, after in pairwise(found))
    assert terms(reloaded(storage)) == found


@pytest.mark.parity("RL-28")
def test_types_of_entries_have_the_peers_names_and_numbers() -> None:
    assert {each.name: each.value for each in EntryType} == {"TERM": 0, "SNAPSHOT": 1, "STANDBY_SNAPSHOT": 2}


@pytest.mark.parity("RL-30")
def test_only_a_snapshot_that_was_made_invalid_is_an_invalid_one() -> None:
    _, log = new_log()
    log.append_term(0, 0, 0, 1)
    append_set(log, 1, 0, 100)
    log.invalidate_latest_snapshot()
    log.append_snapshot(3, 0, 0, 200, 1, -1)
    log.invalidate_entry(0)
    assert [entry.is_invalid_snapshot for entry in log.entries] == [False, True, True, False]


@pytest.mark.parity("RL-36")
def test_more_records_than_one_page_holds_are_read_back() -> None:
    storage, log = new_log()
    for number in range(200):
        log.append_standby_snapshot(number, 0, 0, number, 1, -1, "host:" + "9" * (number % 60 + 1))
    assert len(storage.content(RECORDING_LOG)) > 4 * 4096
    assert list(reloaded(storage).entries) == list(log.entries)


@pytest.mark.parametrize("is_valid", [True, False])
def test_missing_terms_are_of_the_recording_of_the_others(is_valid: bool) -> None:
    storage, log = new_log()
    log.append_term(1, 0, 0, 7)
    if not is_valid:
        log.invalidate_entry(0)
    before = storage.content(RECORDING_LOG)
    with pytest.raises(UsageError, match="terms are in recording 1, not 2"):
        log.ensure_coherent(2, 0, 0, 3, 64, NULL_POSITION, 7)
    assert storage.content(RECORDING_LOG) == before


def test_a_folder_that_the_first_process_did_not_sync_is_synced_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    with monkeypatch.context() as killed:
        killed.setattr(storage, "sync_directory", lambda _: None)
        RecordingLog(storage, sync_level=1)
        NodeState(storage, sync_level=1)
    RecordingLog(storage, sync_level=1).append_term(1, 0, 0, 7)
    NodeState(storage, sync_level=1).propose_max_candidate_term_id(5, 0, 0)
    storage.power_cut()
    assert terms(RecordingLog(storage, create=False)) == [(0, 0, NULL_POSITION)]
    assert NodeState(storage, create=False).candidate_term_id == 5
