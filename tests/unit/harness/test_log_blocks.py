"""What is read of a log in blocks, or checked by the bytes of another log, is what is read of each message alone."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.built_runs import SEGMENT_LENGTH, good_run
from upheaval.checkers.evidence.events import EntryKind, LogEvents
from upheaval.checkers.evidence.recordings import RecordedLog, Segment
from upheaval.records import RunFolder

OPERATIONS = 1_500
"""More than one segment of them."""
MESSAGES = st.tuples(st.sampled_from([0, 1]), st.integers(1, 3), st.integers(0, 9))
"""Term, session and time."""


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=12), st.integers(1, 5), st.none() | st.integers(0, 9), st.booleans())
def test_messages_in_blocks_are_the_same_as_one_by_one(
    messages: list[tuple[int, int, int]], block: int, begin: int | None, is_suspended: bool
) -> None:
    alone, in_blocks = LogEvents(), LogEvents()
    for events in (alone, in_blocks):
        if begin is not None:
            events.add_term("NewLeadershipTermEvent", 32, 0, begins=True)
            events.add_time(0, 32, begin)
        if is_suspended:
            events.add_action(64, 0, 0)
    rows = [(96 + 32 * place, *message) for place, message in enumerate(messages)]
    for end, term, session, timestamp in rows:
        alone.entries += 1
        alone.requests += 1
        alone.add_time(term, end, timestamp)
        alone.add_term("SessionMessage", end, term)
        alone.session(session).add_message(end, term, timestamp)
        alone.add_active(EntryKind.MESSAGE, end)
    for first in range(0, len(rows), block):
        ends, terms, sessions, timestamps = zip(*rows[first : first + block], strict=True)
        in_blocks.add_requests(ends, terms, sessions, timestamps)
    assert in_blocks == alone
    assert list(in_blocks.sessions) == list(alone.sessions)


def read(log: RecordedLog) -> tuple[list[Segment], int, str | None]:
    segments = list(log.segments())
    return segments, log.end_position, log.fault


def read_beside(run: RunFolder, member_id: int) -> tuple[list[Segment], int, str | None]:
    """As the logs of a run are read: each segment of the first member before the one of the other."""
    first = RecordedLog(run.member(0))
    log = RecordedLog(run.member(member_id), twin=first)
    of_first, of_log, segments = first.segments(), log.segments(), []
    while True:
        next(of_first, None)
        segment = next(of_log, None)
        if segment is None:
            return segments, log.end_position, log.fault
        segments.append(segment)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The logs of its members differ in session ids alone."""
    run = good_run(OPERATIONS).write(tmp_path_factory.mktemp("logs") / "run")
    assert len(list(RecordedLog(run.member(0)).segments())) > 1
    return run


def segment_file(run: RunFolder, member_id: int, base: int) -> Path:
    (path,) = run.member(member_id).archive.glob(f"*-{base}.rec")
    return path


def test_a_log_that_agrees_has_the_frames_of_its_twin(good: RunFolder) -> None:
    """And they are not read again."""
    first = RecordedLog(good.member(0))
    twin = RecordedLog(good.member(1), twin=first)
    assert all(one is other for one, other in zip(first.segments(), twin.segments(), strict=True))
    assert read_beside(good, 1) == read(RecordedLog(good.member(1))) == read(RecordedLog(good.member(0)))


@pytest.mark.parametrize("base", [0, SEGMENT_LENGTH])
def test_whatever_differs_in_a_log_is_seen_beside_its_twin(good: RunFolder, base: int) -> None:
    """A byte anywhere: in headers, messages, padding, session ids, and past the end."""
    path, random = segment_file(good, 1, base), Random(base)
    whole = path.read_bytes()
    end = list(RecordedLog(good.member(1)).segments())[base // SEGMENT_LENGTH].end
    frame = list(RecordedLog(good.member(1)).segments())[base // SEGMENT_LENGTH].offsets[5]
    places = [0, 1, 4, 5, 6, 7, *range(frame, frame + 33), *(random.randrange(len(whole)) for _ in range(40))]
    if end < len(whole):
        places += [end, end + 3, len(whole) - 1]
    try:
        for place in places:
            changed = bytearray(whole)
            changed[place] ^= 1 << random.randrange(8)
            path.write_bytes(changed)
            assert read_beside(good, 1) == read(RecordedLog(good.member(1))), place
        for length in (len(whole) - 32, frame + 16, frame, 16, 0):
            path.write_bytes(whole[:length])
            assert read_beside(good, 1) == read(RecordedLog(good.member(1))), length
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("longer", [0, 1])
def test_logs_of_different_lengths_are_read_to_their_ends(tmp_path: Path, longer: int) -> None:
    built = good_run(OPERATIONS)
    del built.payloads[1 - longer][-400:]
    run = built.write(tmp_path / "run")
    assert read_beside(run, 1) == read(RecordedLog(run.member(1)))
