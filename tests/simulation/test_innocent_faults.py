"""Faults whose traces look wrong at first sight, and are as they should be."""

import itertools
from pathlib import Path

import pytest

from support.fault_cases import WORKLOAD, fault_of
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.execution.simulated import SimulatedStage
from upheaval.runtimes.simulated.cluster import SimulatedMember
from upheaval.runtimes.simulated.disk import Disk
from upheaval.scenario import parse_scenario
from upheaval.system import log_recording_id
from upheaval_chaos import host_faults
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.record import FaultRecord
from upheaval_node.archive.block_journal import LENGTH as JOURNAL_LENGTH, BlockRecord, durable_sequence, read_records
from upheaval_node.archive.catalog import FILE_NAME as CATALOG, decode_catalog
from upheaval_node.archive.segments import parse_segment_file_name, segment_file_name
from upheaval_node.files import layout
from upheaval_node.types import FRAME_HEADER_LENGTH, NULL_POSITION

LOADED = parse_scenario(f"title x\n{WORKLOAD}wait operations 1\n", name="x", where="x")


def opened(folder: Path) -> SimulatedStage:
    """Under load for a while."""
    stage = SimulatedStage(LOADED, 1, folder)
    stage.open(print)
    stage.let_pass(2)
    return stage


@pytest.mark.pure
def test_a_member_that_needs_no_room_after_its_disk_was_full_is_not_accused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are as long as they will be, so only the disk itself shows that it takes bytes again."""
    monkeypatch.setattr(host_faults, "COMES_BACK_S", 1.0)
    monkeypatch.setattr(Disk, "grown", property(lambda _: 0, lambda *_: None), raising=False)
    stage, records = opened(tmp_path), list[FaultRecord]()
    driver = FaultDriver(stage, records.append)
    driver.begin("full", fault_of("disk-full leader"))
    stage.let_pass(2)
    driver.heal_all()
    (record,) = records
    assert record.is_proved, record


def test_a_process_that_another_fault_starts_does_not_contradict_a_pause(tmp_path: Path) -> None:
    """The paused process ends where its disk changes, and the next one writes while the pause is on record."""
    stage = opened(tmp_path)
    driver = FaultDriver(stage, stage.record_fault)
    for name, statement in (("pause", "pause member-1"), ("bytes", "wrong-bytes member-1 at-percent=50")):
        driver.begin(name, fault_of(statement))
        stage.let_pass(2)
    driver.end("pause")
    driver.end("bytes")
    driver.heal_all()
    stage.close()
    finding = verify_run(tmp_path).finding(Promise.FAULTS_IN_TIME)
    assert finding.verdict is Verdict.VALID, finding


def stored_blocks(member: SimulatedMember) -> tuple[str, int, list[BlockRecord]]:
    """The segment of the log that was written last, its base, and its blocks that are durable."""
    recording_id = log_recording_id(member.recording_log())
    keys = map(parse_segment_file_name, member.disk.names(layout.ARCHIVE_DIRECTORY))
    base = max(key[1] for key in keys if key is not None and key[0] == recording_id)
    path = f"{layout.ARCHIVE_DIRECTORY}/{segment_file_name(recording_id or 0, base)}"
    records = read_records(member.disk.read(path)[-JOURNAL_LENGTH:])
    return path, base, [block for block in records if block.length and block.sequence < durable_sequence(records)]


def test_no_bytes_are_changed_of_a_log_whose_end_is_known(tmp_path: Path) -> None:
    """An archive that ended after it had written down where its log ends trusts that: its next start reads no block."""
    stage = opened(tmp_path)
    member = stage.cluster.members[1]
    for other in stage.cluster.members:
        other.kill()

    def is_ended() -> bool:
        catalog = member.disk.read(f"{layout.ARCHIVE_DIRECTORY}/{CATALOG}")
        entries = {entry.recording_id: entry for entry in decode_catalog(catalog).entries}
        return entries[log_recording_id(member.recording_log()) or 0].stop_position != NULL_POSITION

    changes = itertools.count()
    while not is_ended():
        change = next(changes)
        assert change < 400, "the archive never wrote down where its log ends"
        assert stage.hosts("").has_durable_log(1)
        member.disk.end_process_at(change, member.kill)
        member.start()
        stage.let_pass(0.1)
    assert stored_blocks(member)[2]
    assert not stage.hosts("").has_durable_log(1)


def test_no_bytes_are_changed_of_padding_at_the_end_of_a_term(tmp_path: Path) -> None:
    """Of padding the header alone is stored."""
    stage = opened(tmp_path)
    member = stage.cluster.members[1]

    def aimed() -> tuple[int, BlockRecord] | None:
        """A percentage of all blocks that falls on padding, and that."""
        blocks = stored_blocks(member)[2]
        hit = ((percent, blocks[(len(blocks) - 1) * percent // 100]) for percent in range(101))
        return next(((percent, block) for percent, block in hit if block.length == FRAME_HEADER_LENGTH), None)

    looks = itertools.count()
    while (aim := aimed()) is None:
        assert next(looks) < 400, "no term has ended"
        stage.let_pass(0.1)
    percent, padding = aim
    path, base, _ = stored_blocks(member)
    member.kill()
    before = member.disk.read(path)
    stage.hosts("").change_bytes(1, percent)
    after = member.disk.read(path)
    changed = {at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other}
    begin = padding.start - base
    assert changed
    assert changed.isdisjoint(range(begin, begin + 2 * FRAME_HEADER_LENGTH))


def test_a_clock_that_jumped_is_not_told_wrong_by_a_power_cut(tmp_path: Path) -> None:
    for delay_ms in range(0, 2000, 250):
        stage = SimulatedStage(LOADED, 1, tmp_path / str(delay_ms))
        stage.open(print)
        stage.let_pass(2)
        records: list[FaultRecord] = []
        driver = FaultDriver(stage, records.append)
        driver.begin("clock", fault_of("clock-jump member-1 jump-ms=5000"))
        stage.let_pass(delay_ms / 1000)
        driver.begin("power", fault_of("power-cut member-1"))
        driver.end("clock")
        stage.let_pass(1)
        driver.end("power")
        driver.heal_all()
        assert all(record.is_proved or record.was_unseen for record in records), records


@pytest.mark.parametrize("order", [("bytes", "death"), ("death", "bytes")])
@pytest.mark.parametrize("kind", ["power-lost-in-change", "die-in-change"])
def test_a_member_that_dies_before_it_reads_its_log_does_not_contradict_wrong_bytes(
    kind: str, order: tuple[str, str], tmp_path: Path
) -> None:
    for changes in (1, 5, 20):
        stage = opened(tmp_path / str(changes))
        records: list[FaultRecord] = []
        driver = FaultDriver(stage, records.append)
        driver.begin("death", fault_of(f"{kind} member-1 changes={changes}"))
        driver.begin("bytes", fault_of("wrong-bytes member-1 at-percent=50"))
        stage.let_pass(1)
        for name in order:
            driver.end(name)
        driver.heal_all()
        (of_bytes,) = (record for record in records if record.name == "bytes")
        assert of_bytes.was_unseen or of_bytes.is_proved, of_bytes
