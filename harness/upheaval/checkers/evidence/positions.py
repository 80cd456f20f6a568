"""How far the log was committed, by traces and recordings; the manifest's final positions are compared with it.

A position that a leader announced as committed stays committed. So the furthest CommitPosition of any trace bounds the
log that is judged, whatever the manifest says. This module knows traces and the ends of recordings; it reads no log.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.evidence.losses import losses_of
from upheaval.checkers.evidence.protocol_events import quorum_of
from upheaval.records import OWN_SYSTEM, FinalPosition, Manifest, RunFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind

_COMMITTED: Final = {"CommitPosition": "log_position", "NewLeadershipTerm": "commit_position"}
_APPENDED: Final = "AppendPosition"


@dataclass(frozen=True, slots=True)
class TracedPosition:
    """A log position in a member's trace, with the time of the first line that has it."""

    member_id: int
    line: int
    ns: int
    position: int

    def __str__(self) -> str:
        return f"member-{self.member_id}/trace.jsonl:{self.line}"


@dataclass(frozen=True, slots=True)
class TracedPositions:
    """The positions in the traces, and the members that lost the files to which they refer."""

    is_whole: bool = False
    """Every member has a trace."""
    committed: TracedPosition | None = None
    """The furthest position that a leader announced as committed."""
    committed_in_run: TracedPosition | None = None
    """The furthest one announced before the last look at the members in the converge phase."""
    appended: tuple[TracedPosition, ...] = ()
    """The append position that each member reported in the last term, without replaced members."""
    replaced: tuple[int, ...] = ()
    """Members that moved to another host, without the recordings of the old one."""
    is_lossy: bool = False
    """After a power cut at sync level 0, committed entries may be lost, and their positions used again."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """How far a log is proof; positions past `commit_position` prove nothing. None: not known.

    `recorded` is the furthest position that the recordings of a quorum reach.
    """

    commit_position: int | None = None
    recorded: int | None = None


UNBOUNDED: Final = LogBounds()


def traced_positions(run: RunFolder, manifest: Manifest) -> TracedPositions:
    """Read all traces. Raises `UsageError` for a malformed line."""
    members = range(manifest.members)
    folders = [run.member(member_id) for member_id in members]
    end_ns = completed_ns(manifest)
    committed: TracedPosition | None = None
    in_run: TracedPosition | None = None
    appended: dict[int, tuple[int, TracedPosition]] = {}
    last_term = -1
    for reported in _applied(run, manifest):
        committed = _further(reported, committed)
        if reported.ns < end_ns:
            in_run = _further(reported, in_run)
    for member_id, event in _messages(run, members):
        position, term = _position_of(event), event.fields.get("leadership_term_id")
        if position is None or type(term) is not int:
            continue
        last_term = max(last_term, term)
        reported = TracedPosition(member_id, event.line, event.ns, position)
        if event.fields["message"] == _APPENDED:
            before = appended.get(member_id)
            if event.event == TraceKind.SEND and (before is None or (term, position) > (before[0], before[1].position)):
                appended[member_id] = term, reported
            continue
        committed = _further(reported, committed)
        if event.ns < end_ns:
            in_run = _further(reported, in_run)
    losses = losses_of(run, manifest)
    replaced = tuple(sorted(losses.replaced))
    # A member may have had to truncate what it recorded in an earlier term.
    of_last_term = (reported for term, reported in appended.values() if term == last_term)
    lasting = tuple(reported for reported in of_last_term if reported.member_id not in replaced)
    return TracedPositions(
        is_whole=all(folder.trace.exists() for folder in folders),
        committed=committed,
        committed_in_run=in_run,
        appended=lasting,
        replaced=replaced,
        is_lossy=bool(losses.powerless),
    )


def _further(reported: TracedPosition, known: TracedPosition | None) -> TracedPosition:
    return reported if known is None or reported.position > known.position else known


def _applied(run: RunFolder, manifest: Manifest) -> Iterator[TracedPosition]:
    """Yield what services had applied when they ended: that was committed. For traces without messages."""
    if manifest.system == OWN_SYSTEM:
        return
    for member_id in range(manifest.members):
        folder = run.member(member_id)
        for event in folder.traced():
            position = event.fields.get("log_position")
            if event.event == TraceKind.SERVICE_TERMINATE and type(position) is int:
                yield TracedPosition(member_id, event.line, event.ns, position)


def _messages(run: RunFolder, members: Sequence[int]) -> Iterator[tuple[int, TraceEvent]]:
    for member_id in members:
        folder = run.member(member_id)
        for event in folder.traced():
            if event.event in (TraceKind.SEND, TraceKind.RECEIVE):
                yield member_id, event


class CommittedOverTime:
    """The commit position over time, by the first trace line that shows each step."""

    def __init__(self, steps: Iterable[tuple[int, int]]) -> None:
        """`steps` are times and positions in any order."""
        self._times: list[int] = []
        self._positions: list[int] = []
        for ns, position in sorted(steps):
            if not self._positions or position > self._positions[-1]:
                self._times.append(ns)
                self._positions.append(position)

    def by(self, ns: int) -> int:
        """The furthest commit position at that time; -1 for none."""
        place = bisect_right(self._times, ns)
        return self._positions[place - 1] if place else -1


def committed_over_time(run: RunFolder, manifest: Manifest) -> CommittedOverTime:
    """Read all traces. Raises `UsageError` for a malformed line."""
    return CommittedOverTime(
        (event.ns, position)
        for _, event in _messages(run, range(manifest.members))
        if event.fields["message"] in _COMMITTED and (position := _position_of(event)) is not None
    )


def _position_of(event: TraceEvent) -> int | None:
    message = event.fields.get("message")
    name = "log_position" if message == _APPENDED else _COMMITTED.get(str(message))
    position = None if name is None else event.fields.get(name)
    return position if type(position) is int else None


def bounds_of(
    finals: Sequence[FinalPosition], traced: TracedPositions | None, ends: Mapping[int, int], members: int
) -> LogBounds:
    """The bounds by final positions, traces (None: do not bound the log) and ends of recordings.

    Without final positions, and in a cluster of one member, whatever a quorum has recorded may be committed, too.
    """
    if traced is None or traced.is_lossy:
        return UNBOUNDED
    recorded = _quorum_end(ends, members, traced.replaced)
    committed = -1 if traced.committed is None else traced.committed.position
    limit = max([committed, *(final.commit_position for final in finals)])
    if finals and members > 1:
        return LogBounds(limit, recorded)
    return LogBounds(None if recorded is None else max(recorded, limit), recorded)


def _quorum_end(ends: Mapping[int, int], members: int, replaced: Collection[int]) -> int | None:
    """Where the recordings of a quorum end. A member whose first recording is missing may have recorded everything."""
    known = sorted((end for member_id, end in ends.items() if member_id not in replaced), reverse=True)
    needed = quorum_of(members) - (members - len(known))
    return known[needed - 1] if needed > 0 else None


def lowest_commit(manifest: Manifest) -> int | None:
    """The lowest commit position in the manifest; None if the run did not converge."""
    return min((final.commit_position for final in finals_of(manifest)), default=None)


def finals_of(manifest: Manifest) -> Sequence[FinalPosition]:
    """The members' final positions; empty if the run did not converge."""
    return manifest.converge.members if manifest.converge is not None and manifest.converge.reached else ()


def completed_ns(manifest: Manifest) -> int:
    """When the final positions were read; 0 if the run did not converge."""
    return manifest.converge.completed_ns if manifest.converge is not None and manifest.converge.reached else 0
