"""The simulated disk: what a power cut leaves."""

import pytest
from hypothesis import given, settings, strategies as st

from simulation.parties import Direct
from upheaval.runtimes.simulated.disk import PAGE, SECTOR, Disk
from upheaval.runtimes.simulated.errors import ProcessDied
from upheaval.runtimes.simulated.world import World
from upheaval_node.errors import StorageError

writes = st.lists(st.tuples(st.integers(0, 3 * PAGE), st.integers(1, 2 * PAGE), st.integers(1, 255)), max_size=8)


def disk(seed: int = 1) -> tuple[World, Disk, Direct]:
    world = World(seed)
    return world, Disk(world, "a"), Direct("a")


@given(writes, writes, st.integers(0, 1000))
@settings(max_examples=60)
def test_a_power_cut_keeps_what_was_synced_and_nothing_that_was_never_there(
    synced: list[tuple[int, int, int]], unsynced: list[tuple[int, int, int]], seed: int
) -> None:
    _, media, owner = disk(seed)
    file = media.storage(owner).open("f", create=True)
    for offset, length, byte in synced:
        file.write(offset, [bytes([byte]) * length])
    file.sync(1)
    before = file.read(0, 10 * PAGE)
    for offset, length, byte in unsynced:
        file.write(offset, [bytes([byte]) * length])
    touched = {page for o, n, _ in unsynced for page in range(o // PAGE, (o + n - 1) // PAGE + 1)}
    possible = {byte for _, _, byte in [*synced, *unsynced]} | {0}
    media.power_cut()
    after = media.storage(owner).open("f").read(0, 10 * PAGE)
    assert len(after) >= len(before)
    for page in range(len(before) // PAGE + 1):
        if page not in touched:
            span = slice(page * PAGE, min((page + 1) * PAGE, len(before)))
            assert after[span] == before[span]
    assert set(after) <= possible


def test_unsynced_bytes_survive_the_process_but_not_every_power_cut() -> None:
    kept = 0
    for seed in range(40):
        _, media, owner = disk(seed)
        file = media.storage(owner).open("f", create=True)
        file.sync(1)
        file.write(0, [b"x" * 8])
        assert media.storage(Direct("a")).open("f").read(0, 8) == b"x" * 8
        media.power_cut()
        kept += media.storage(owner).open("f").read(0, 8) == b"x" * 8
    assert 0 < kept < 40


def test_a_torn_write_mixes_sectors_of_old_and_new() -> None:
    torn = 0
    for seed in range(60):
        _, media, owner = disk(seed)
        file = media.storage(owner).open("f", create=True)
        file.write(0, [b"a" * PAGE])
        file.sync(2)
        file.write(0, [b"b" * PAGE])
        media.power_cut()
        content = media.storage(owner).open("f").read(0, PAGE)
        sectors = {content[start : start + SECTOR] for start in range(0, PAGE, SECTOR)}
        assert sectors <= {b"a" * SECTOR, b"b" * SECTOR}
        torn += len(sectors) == 2
    assert torn > 0


def test_a_later_sync_covers_only_what_was_written_before_it() -> None:
    lost = 0
    for seed in range(40):
        world, media, owner = disk(seed)
        file = media.storage(owner).open("f", create=True)
        file.write(0, [b"1" * 8])
        done: list[Exception | None] = []
        file.sync_later(1, done.append)
        file.write(PAGE, [b"2" * 8])
        assert done == []
        assert world.run_until(lambda done=done: bool(done), 10**9)  # type: ignore[misc]
        media.power_cut()
        file = media.storage(owner).open("f")
        assert file.read(0, 8) == b"1" * 8
        lost += file.read(PAGE, 8) != b"2" * 8
    assert lost > 0


def test_a_sync_that_has_not_completed_promises_nothing() -> None:
    lost = 0
    for seed in range(40):
        world, media, owner = disk(seed)
        file = media.storage(owner).open("f", create=True)
        file.sync(1)
        file.write(0, [b"1" * 8])
        file.sync_later(1, lambda _error: None)
        media.power_cut()
        lost += media.storage(owner).open("f").read(0, 8) != b"1" * 8
        world.run_for(10**9)
    assert lost > 0


def test_a_power_cut_ends_the_syncs_in_flight() -> None:
    left = set()
    for seed in range(30):
        world, media, owner = disk(seed)
        file = media.storage(owner).open("f", create=True)
        file.sync(1)
        file.sync_later(1, lambda _error: None)
        media.power_cut()
        media.storage(owner).rename("f", "g")
        world.run_for(10**8)
        assert list(media.syncs) == []
        media.power_cut()
        left.add(tuple(media.paths))
    assert ("f",) in left


def test_the_kernel_writes_back_after_some_seconds() -> None:
    world, media, owner = disk()
    file = media.storage(owner).open("f", create=True)
    file.write(0, [b"old news"])
    world.run_for(6 * 10**9)
    media.power_cut()
    assert media.storage(owner).open("f").read(0, 8) == b"old news"


def test_a_name_becomes_durable_with_the_files_sync_and_a_rename_with_the_folders() -> None:
    outcomes = set()
    for seed in range(30):
        _, media, owner = disk(seed)
        storage = media.storage(owner)
        storage.open("d/f", create=True).sync(1)
        storage.open("d/other", create=True)
        storage.rename("d/f", "d/g")
        media.power_cut()
        names = storage.names("d")
        assert "f" in names or "g" in names
        outcomes.add(tuple(names))
        storage.open("d/h", create=True)
        storage.sync_directory("d")
        media.power_cut()
        assert "h" in storage.names("d")
    assert len(outcomes) > 1


def test_a_file_that_was_cut_reads_as_zeros_where_it_grows_again() -> None:
    _, media, owner = disk()
    file = media.storage(owner).open("f", create=True)
    file.write(0, [b"x" * 100, b"y" * 100])
    file.truncate(50)
    file.truncate(200)
    assert file.read(0, 300) == b"x" * 50 + bytes(150)
    assert file.size() == 200


def test_a_cut_of_a_file_happened_or_did_not() -> None:
    lengths = set()
    for seed in range(40):
        _, media, owner = disk(seed)
        file = media.storage(owner).open("f", create=True)
        file.write(0, [b"x" * 4 * PAGE])
        file.sync(1)
        file.truncate(PAGE)
        media.power_cut()
        file = media.storage(owner).open("f")
        lengths.add(file.size())
        assert file.read(0, 4 * PAGE) == b"x" * file.size()
    assert lengths == {PAGE, 4 * PAGE}


def test_a_removal_before_a_synced_file_of_the_same_name_never_takes_that_file() -> None:
    """Found by seed 14700 of the campaign: the folder's sync made the older removal durable after the newer file."""
    _, media, owner = disk()
    storage = media.storage(owner)
    storage.open("d/f", create=True).sync(1)
    storage.sync_directory("d")
    storage.remove("d/f")
    file = storage.open("d/f", create=True)
    file.write(0, [b"new"])
    file.sync(1)
    storage.sync_directory("d")
    media.power_cut()
    assert storage.open("d/f").read(0, 3) == b"new"


def test_names_exist_and_failures_are_storage_errors() -> None:
    _, media, owner = disk()
    storage = media.storage(owner)
    storage.open("archive/0-0.rec", create=True)
    storage.open("archive/sub/x", create=True)
    assert storage.names("archive") == ["0-0.rec", "sub"]
    assert storage.exists("archive")
    assert storage.exists("archive/sub/x")
    assert not storage.exists("arch")
    storage.remove("archive/0-0.rec")
    assert storage.names("archive") == ["sub"]
    with pytest.raises(StorageError):
        storage.open("archive/0-0.rec")


def test_a_full_disk_refuses_what_needs_room_and_nothing_else() -> None:
    _, media, owner = disk()
    storage = media.storage(owner)
    file = storage.open("f", create=True)
    file.write(0, [b"a" * 100])
    media.is_full = True
    file.write(0, [b"b" * 100])
    with pytest.raises(StorageError, match="no space left"):
        file.write(50, [b"c" * 100])
    with pytest.raises(StorageError, match="no space left"):
        storage.open("g", create=True)
    assert file.read(0, 200) == b"b" * 100
    assert media.refused == 2
    media.is_full = False
    file.write(50, [b"c" * 100])
    assert file.size() == 150


@pytest.mark.parametrize(("parts", "is_torn"), [((b"b" * 4, b"c" * 4), False), ((b"b" * 4, b"c" * 5), True)])
def test_a_process_that_dies_in_a_write_leaves_a_beginning_of_it_and_does_nothing_more(
    parts: tuple[bytes, bytes], is_torn: bool
) -> None:
    """Nothing or all of it, where it is no longer than a word."""
    lengths = set()
    for seed in range(30):
        _, media, owner = disk(seed)
        file = media.storage(owner).open("f", create=True)
        media.end_process_at(1, lambda owner=owner: setattr(owner, "alive", False))  # type: ignore[misc]
        file.write(0, [b"a" * 8])
        with pytest.raises(ProcessDied):
            file.write(8, parts)
        with pytest.raises(ProcessDied):
            file.truncate(0)
        assert b"".join((b"a" * 8, *parts)).startswith(file.read(0, 100))
        assert not media.disarm()
        lengths.add(file.size())
    assert len(lengths) > 4 if is_torn else lengths == {8, 16}


def test_a_slow_disk_takes_longer_to_sync() -> None:
    world, media, owner = disk()
    file = media.storage(owner).open("f", create=True)
    media.extra_latency_ns = 50_000_000
    done: list[int] = []
    file.sync_later(1, lambda _error: done.append(world.now_ns))
    begin_ns = world.now_ns
    world.run_for(100_000_000)
    assert done[0] - begin_ns >= 50_000_000
    assert [took_ns for _, took_ns in media.syncs] == [done[0] - begin_ns]
