"""How far the files of a run can be read while it goes on: what an offset of a stream means, and the next one.

Of a file of lines that is whole lines; of a log it is what its member knows to be committed, because an election can
overwrite what lies past that. What cannot be read for now, or is not there, leaves the offset where it is. No Spark.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from upheaval.checkers.evidence.positions import finals_of
from upheaval.checkers.evidence.recordings import LogMissing, RecordedLog
from upheaval.records import MemberFolder, RunFolder
from upheaval.system import last_commit_position
from upheaval_pipeline.frames import Terms, whole_frames
from upheaval_pipeline.pieces import Piece

STEP: Final = 1 << 22
"""Bytes of a file that one batch reads at most; a single line or message may be longer."""
_BLOCK: Final = 1 << 20


def more_lines(path: Path, offset: int, limit: int | None) -> tuple[int, int, int]:
    """Where reading begins, where it ends after whole lines, and how many lines that are.

    It begins at the offset; in a file that is another one, because a member has a new host, at its beginning.
    """
    try:
        with path.open("rb") as stream:
            if offset:
                stream.seek(offset - 1)
                if stream.read(1) != b"\n":
                    offset = 0
                    stream.seek(0)
            end, lines, position = offset, 0, offset
            while (limit is None or end == offset or position - offset < limit) and (block := stream.read(_BLOCK)):
                last = block.rfind(b"\n")
                if last >= 0:
                    lines += block.count(b"\n")
                    end = position + last + 1
                position += len(block)
    except OSError:
        return offset, offset, 0
    return offset, end, lines


def committed_positions(run: RunFolder) -> dict[int, int]:
    """Up to where the log of each member is committed, as its counters say, which outlive it, and at the end of a run
    the manifest. -1 of a member of whom neither is there.
    """
    manifest = run.read_manifest()
    found = {member_id: last_commit_position(run.member(member_id).path) for member_id in range(manifest.members)}
    for final in finals_of(manifest):
        found[final.member_id] = max(found.get(final.member_id, -1), final.commit_position)
    return found


def more_frames(member: MemberFolder, position: int, committed: int, limit: int | None) -> int:
    """The end of the last whole message, from a position on at which one begins, that is committed."""
    try:
        log = RecordedLog(member)
    except LogMissing:
        return position
    terms = Terms(log.initial_term_id, log.term_length, log.start_position)
    position = begin = max(position, log.start_position)
    while position < committed and (limit is None or position - begin < limit):
        base = _base(log.start_position, log.term_length, log.segment_length, position)
        path = member.archive / f"{log.recording_id}-{base}.rec"
        left = min(committed, base + log.segment_length) - position
        end = _whole_messages(path, base, position, min(left, _BLOCK), terms)
        if end == position and left > _BLOCK:
            end = _whole_messages(path, base, position, left, terms)
        if end == position:
            return position
        position = end
    return position


def _whole_messages(path: Path, base: int, position: int, length: int, terms: Terms) -> int:
    """The end of the last message that lies as a whole in so many bytes from a position on."""
    try:
        with path.open("rb") as stream:
            stream.seek(position - base)
            data = stream.read(length)
    except OSError:
        return position
    frames, _ = whole_frames(data, position, terms)
    last = np.flatnonzero(frames.ends_message)
    return position + int((frames.offsets + frames.aligned)[last[-1]]) if len(last) else position


def _base(start_position: int, term_length: int, segment_length: int, position: int) -> int:
    first = start_position - start_position % term_length
    return position - (position - first) % segment_length


def whole_pieces(folder: Path, run: str, member_id: int, begin: int, end: int) -> Iterator[Piece]:
    """The range of a log between two offsets, by segment files. None of a log that is gone since."""
    try:
        log = RecordedLog(RunFolder(folder).member(member_id))
    except LogMissing:
        return
    terms = Terms(log.initial_term_id, log.term_length, log.start_position)
    head = (str(folder), run, member_id, log.recording_id, log.start_position, terms, log.segment_length)
    position = max(begin, log.start_position)
    while position < end:
        base = _base(log.start_position, log.term_length, log.segment_length, position)
        to = min(end, base + log.segment_length)
        yield Piece(*head, base, position, to, is_whole=True)
        position = to
