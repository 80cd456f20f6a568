"""What a recording that was never stopped has lost: by a power cut what was not durable, by damage what was."""

from collections.abc import Callable
from random import Random

import pytest

from support.memory_storage import MemoryStorage
from unit.archive.test_segments import TERM, frame, recording
from upheaval_node.archive.block_journal import CAPACITY, RECORD_LENGTH
from upheaval_node.archive.catalog import RecordingEntry
from upheaval_node.archive.recovery import Recovery, recover
from upheaval_node.archive.segments import SegmentWriter
from upheaval_node.errors import DamageError

BLOCK = 128
SEGMENT = 4 * TERM
PAGE = 4096
ENTRY = recording(segment_length=SEGMENT)

Damage = Callable[[MemoryStorage], None]


def append(writer: SegmentWriter, count: int) -> None:
    for _ in range(count):
        writer.write(frame(writer.position, bytes([writer.position // BLOCK % 255 + 1]) * 96), writer.position + BLOCK)


def sync(storage: MemoryStorage, writer: SegmentWriter) -> None:
    writer.sync_later(lambda error: None)
    while storage.run_syncs():
        pass


def recorded(count: int, level: int, entry: RecordingEntry = ENTRY) -> MemoryStorage:
    """So many blocks, each durable before the next one; then the process was killed."""
    storage = MemoryStorage()
    writer = SegmentWriter(storage, "archive", entry, 0, level)
    for _ in range(count):
        append(writer, 1)
        sync(storage, writer)
    return storage


def zeros(base: int, offset: int) -> Damage:
    return lambda storage: storage.open(f"archive/3-{base}.rec").write(offset, (bytes(PAGE),))


def removed(base: int) -> Damage:
    return lambda storage: storage.remove(f"archive/3-{base}.rec")


def flipped(offset: int) -> Damage:
    def flip(storage: MemoryStorage) -> None:
        file = storage.open("archive/3-0.rec")
        file.write(offset, (bytes([file.read(offset, 1)[0] ^ 1]),))

    return flip


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("count", "damage", "end"),
    [
        (1500, zeros(0, 2 * PAGE), 2 * PAGE),
        (3000, zeros(0, 2 * PAGE), 2 * PAGE),
        (5000, removed(SEGMENT), SEGMENT),
        (5000, removed(0), 0),
    ],
    ids=["before the journal", "full segment", "missing segment", "first segment"],
)
def test_durable_bytes_that_are_gone_are_refused_and_nothing_is_cut(
    count: int, damage: Damage, end: int, level: int
) -> None:
    storage = recorded(count, level)
    damage(storage)
    if level == 0:
        assert recover(storage, "archive", ENTRY, level).stop_position == end
        return
    with pytest.raises(DamageError, match=f"what was made durable from {end} "):
        recover(storage, "archive", ENTRY, level)


@pytest.mark.parametrize(
    ("count", "damage"),
    [
        (800, flipped(SEGMENT + 400 * RECORD_LENGTH)),
        (1200, flipped(SEGMENT + 400 * RECORD_LENGTH)),
        (800, zeros(0, SEGMENT + 2 * PAGE)),
        (1200, zeros(0, SEGMENT + 9 * PAGE)),
        (1200, zeros(0, SEGMENT + 2 * PAGE)),
    ],
    ids=["a byte", "a byte a lap later", "a page", "the oldest page", "a page a lap later"],
)
def test_a_damaged_journal_takes_no_durable_block_with_it(count: int, damage: Damage) -> None:
    storage = recorded(count, 1)
    damage(storage)
    assert recover(storage, "archive", ENTRY, 1) == Recovery(count * BLOCK, None)


@pytest.mark.parametrize("segment_length", [TERM, SEGMENT])
@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_is_no_damage_however_much_was_not_durable(seed: int, segment_length: int) -> None:
    """The journal's ring goes round, so a record that is torn may take the place of a durable one."""
    random = Random(seed)
    storage, entry = MemoryStorage(), recording(segment_length=segment_length)
    writer = SegmentWriter(storage, "archive", entry, 0, 1)
    for _ in range(random.randrange(3, 6)):
        append(writer, random.choice((1, 30, CAPACITY // 2, CAPACITY - 2)))
        sync(storage, writer)
    durable = writer.position
    append(writer, random.choice((0, 1, 30, CAPACITY - 2)))
    storage.power_cut(random)
    assert durable <= recover(storage, "archive", entry, 1).stop_position <= writer.position


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_after_a_sync_that_failed_is_no_damage(seed: int) -> None:
    """The failed sync was the last one of a full segment, whose successor has records already."""
    storage, entry = MemoryStorage(), recording(segment_length=TERM)
    writer = SegmentWriter(storage, "archive", entry, 0, 1)
    append(writer, 100)
    sync(storage, writer)
    durable = writer.position
    append(writer, TERM // BLOCK - 80)
    errors: list[Exception | None] = []
    storage.sync_error = "input/output error"
    writer.sync_later(errors.append)
    storage.run_syncs()
    writer.close(is_whole=False)
    assert [str(error) for error in errors] == ["input/output error"]
    storage.power_cut(Random(seed))
    assert durable <= recover(storage, "archive", entry, 1).stop_position <= writer.position
