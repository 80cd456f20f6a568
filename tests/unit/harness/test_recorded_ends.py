"""Where frames of a recording end, as the judge of recordings asks for it."""

from pathlib import Path

from support.built_runs import good_run
from upheaval.checkers.evidence.recordings import BYTES_AT_ONCE, RecordedLog
from upheaval.records import RunFolder


def test_frames_end_where_the_next_ones_begin_however_long_the_term_is(tmp_path: Path) -> None:
    good_run(2000).write(tmp_path)
    log = RecordedLog(RunFolder(tmp_path).member(0))
    begins = {segment.base + offset for segment in log.segments() for offset in segment.offsets}
    assert log.end_position > log.term_length > 2 * BYTES_AT_ONCE
    ends = begins - {log.start_position} | {log.end_position}
    asked = range(log.start_position + 32, log.end_position + 64, 32)
    assert {position for position in asked if log.has_end_at(position)} == ends
