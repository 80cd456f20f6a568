"""The members' logs while they grow: each is compared, frame by frame, with those that were read further.

This module knows nothing of histories.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from upheaval.checkers.evidence.logs import (
    Difference,
    Shown,
    WitnessLog,
    differing_frames,
    frame_at,
    frame_facts,
    read_entries,
)
from upheaval.checkers.evidence.recordings import Segment, frame_end
from upheaval.checkers.history.columns import LogEntry
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol.leaders import LeaderClaim
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import RunFolder
from upheaval.watch.tails import LogTail


@dataclass
class LogNews:
    """What one more piece of a member's log says."""

    finding: Finding | None = None
    """Where it differs from another log."""
    claims: list[LeaderClaim] = field(default_factory=list)
    entries: Sequence[LogEntry] = ()
    """Of operations that no log had before."""


class LiveLogs:
    """The logs of all members."""

    def __init__(self, run: RunFolder, members: int) -> None:
        self._run = run
        self.tails = [LogTail(run.member(member_id)) for member_id in range(members)]
        self.damaged: Set[int] = frozenset()
        """The members whose logs are left out."""
        self._differing: set[int] = set()
        self.position: int | None = None
        """Up to where operations were read, whichever log had them first; None before the first one."""
        self.start_position = 0
        """Where the first log that was read begins."""

    def read_anew(self, member_id: int) -> None:
        """Read and compare the log of a member again from its beginning."""
        self.tails[member_id] = LogTail(self._run.member(member_id))
        self._differing.discard(member_id)

    def more(self, member_id: int, committed: int) -> LogNews | None:
        """The next piece of a member's log; None when there is nothing more of it at committed positions."""
        segment = None if member_id in self.damaged else self.tails[member_id].more(committed)
        if segment is None:
            return None
        news = LogNews()
        if member_id not in self._differing:
            news.finding = self._compared(member_id, segment)
        if self.position is None:
            self.position = self.start_position = segment.base
        end = segment.base + segment.end
        is_first = segment.base <= self.position < end and member_id not in self._differing
        if is_first or news.finding is not None:
            log = WitnessLog()
            entries = list(read_entries(segment, log))
            source = f"log of member {member_id} at position"
            news.claims = [
                LeaderClaim(term.leadership_term_id, term.leader_member_id, f"{source} {term.position}")
                for term in log.terms
            ]
            if is_first:
                position = self.position
                news.entries = [entry for entry in entries if entry.position > position]
                self.position = end
        return news

    def _compared(self, member_id: int, segment: Segment) -> Finding | None:
        for difference in self._differences(member_id, segment):
            self._differing.add(member_id)
            about = difference.members, difference.position, difference.operation
            return Finding(Promise.LOGS_EQUAL, Verdict.INVALID, str(difference), *about)
        return None

    def _differences(self, member_id: int, segment: Segment) -> Iterator[Difference]:
        """The first one, against the log that was read furthest."""
        position, end = segment.base, segment.base + segment.end
        left_out = {member_id, *self._differing, *self.damaged}
        others = [other for other in range(len(self.tails)) if other not in left_out]
        furthest = max(others, key=lambda other: (self.tails[other].position, -other), default=None)
        while furthest is not None and position < min(end, self.tails[furthest].position):
            theirs = self.tails[furthest].again(position, min(end, self.tails[furthest].position))
            if theirs is None:
                return
            begin = position - segment.base
            if segment.data[begin : begin + theirs.end] != theirs.data:
                yield _first_difference((furthest, member_id), theirs, segment)
                return
            position += theirs.end


def _first_difference(members: tuple[int, int], one: Segment, other: Segment) -> Difference:
    """The first frame of `one` that differs; all its frames are within `other`."""
    shift = one.base - other.base
    for offset in one.offsets:
        frame = slice(offset, frame_end(one, offset))
        if one.data[frame] != other.data[frame.start + shift : frame.stop + shift]:
            break
    shown = (Shown(frame_at(log, at), frame_facts(log, at)) for log, at in ((one, offset), (other, offset + shift)))
    return differing_frames(members, one.base + offset, *shown)
