"""Up to where the log was committed, by what traces and recordings say; the manifest's final positions are held to it.

What a leader told the others to be committed stays committed, so the furthest CommitPosition of any trace bounds the
log that is judged, whatever the manifest says. This module knows traces and where recordings end; it reads no log.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.losses import losses_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.protocol_events import quorum_of
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval.records import OWN_SYSTEM, FinalPosition, Manifest, Operation, Outcome, RunFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind

_COMMITTED: Final = {"CommitPosition": "log_position", "NewLeadershipTerm": "commit_position"}
_APPENDED: Final = "AppendPosition"


@dataclass(frozen=True, slots=True)
class Told:
    """A position of the log that a line of a member's trace tells, for the first time at `ns`."""

    member_id: int
    line: int
    ns: int
    position: int

    def __str__(self) -> str:
        return f"member-{self.member_id}/trace.jsonl:{self.line}"


@dataclass(frozen=True, slots=True)
class TracedPositions:
    """What the traces tell of positions, and whose files are not those that told it."""

    is_whole: bool = False
    """Every member has a trace."""
    committed: Told | None = None
    """The furthest position that a leader told to be committed."""
    committed_in_run: Told | None = None
    """The same of what was told before the last look of the converge phase at the members."""
    appended: tuple[Told, ...] = ()
    """How far the members said that they had recorded the last term's log, replaced ones apart."""
    replaced: tuple[int, ...] = ()
    """Members with another host than at first: what the old one had recorded is not there."""
    is_lossy: bool = False
    """A power cut at sync level 0: what was committed may be gone, and positions may have been given again."""


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Between what a log is proof: positions past `commit_position` prove nothing. None: nobody knows.

    `recorded` is the furthest position that the recordings of a quorum reach.
    """

    commit_position: int | None = None
    recorded: int | None = None


UNBOUNDED: Final = LogBounds()


def traced_positions(run: RunFolder, manifest: Manifest) -> TracedPositions:
    """From all traces. Raises `UsageError` for a malformed line."""
    members = range(manifest.members)
    folders = [run.member(member_id) for member_id in members]
    end_ns = completed_ns(manifest)
    committed: Told | None = None
    in_run: Told | None = None
    appended: dict[int, tuple[int, Told]] = {}
    last_term = -1
    for told in _applied(run, manifest):
        committed = _further(told, committed)
        if told.ns < end_ns:
            in_run = _further(told, in_run)
    for member_id, event in _messages(run, members):
        position, term = _position_of(event), event.fields.get("leadership_term_id")
        if position is None or type(term) is not int:
            continue
        last_term = max(last_term, term)
        told = Told(member_id, event.line, event.ns, position)
        if event.fields["message"] == _APPENDED:
            before = appended.get(member_id)
            if event.event == TraceKind.SEND and (before is None or (term, position) > (before[0], before[1].position)):
                appended[member_id] = term, told
            continue
        committed = _further(told, committed)
        if event.ns < end_ns:
            in_run = _further(told, in_run)
    losses = losses_of(run, manifest)
    replaced = tuple(sorted(losses.replaced))
    # Of an earlier term a member may have had to take back what it had recorded.
    said = (told for term, told in appended.values() if term == last_term)
    lasting = tuple(told for told in said if told.member_id not in replaced)
    return TracedPositions(
        is_whole=all(folder.trace.exists() for folder in folders),
        committed=committed,
        committed_in_run=in_run,
        appended=lasting,
        replaced=replaced,
        is_lossy=bool(losses.powerless),
    )


def _further(told: Told, known: Told | None) -> Told:
    return told if known is None or told.position > known.position else known


def _applied(run: RunFolder, manifest: Manifest) -> Iterator[Told]:
    """What services had applied when they ended was committed: that is all that traces without messages tell."""
    if manifest.system == OWN_SYSTEM:
        return
    for member_id in range(manifest.members):
        folder = run.member(member_id)
        for event in folder.read_trace() if folder.trace.exists() else ():
            position = event.fields.get("log_position")
            if event.event == TraceKind.SERVICE_TERMINATE and type(position) is int:
                yield Told(member_id, event.line, event.ns, position)


def _messages(run: RunFolder, members: Sequence[int]) -> Iterator[tuple[int, TraceEvent]]:
    for member_id in members:
        folder = run.member(member_id)
        for event in folder.read_trace() if folder.trace.exists() else ():
            if event.event in (TraceKind.SEND, TraceKind.RECEIVE):
                yield member_id, event


def _position_of(event: TraceEvent) -> int | None:
    message = event.fields.get("message")
    name = "log_position" if message == _APPENDED else _COMMITTED.get(str(message))
    position = None if name is None else event.fields.get(name)
    return position if type(position) is int else None


def bounds_of(
    finals: Sequence[FinalPosition], traced: TracedPositions | None, ends: Mapping[int, int], members: int
) -> LogBounds:
    """From the final positions, the traces (None: nobody asks), and where the recordings of the members end.

    Without final positions, and of a single member, what a quorum has recorded may be committed, too.
    """
    if traced is None or traced.is_lossy:
        return UNBOUNDED
    recorded = _quorum_end(ends, members, traced.replaced)
    told = -1 if traced.committed is None else traced.committed.position
    limit = max([told, *(final.commit_position for final in finals)])
    if finals and members > 1:
        return LogBounds(limit, recorded)
    return LogBounds(None if recorded is None else max(recorded, limit), recorded)


def _quorum_end(ends: Mapping[int, int], members: int, replaced: Collection[int]) -> int | None:
    """Whoever's recording is not there, or not the one that it had at first, may have had it all."""
    known = sorted((end for member_id, end in ends.items() if member_id not in replaced), reverse=True)
    needed = quorum_of(members) - (members - len(known))
    return known[needed - 1] if needed > 0 else None


def acknowledged_past_the_end(operations: Iterable[Operation], manifest: Manifest) -> Operation | None:
    """The first operation that was acknowledged before the run converged, at a position that is past that."""
    limit, end_ns = lowest_commit(manifest), completed_ns(manifest)
    if limit is None:
        return None
    for operation in operations:
        if operation.outcome is Outcome.OK and operation.position is not None and operation.position > limit:
            assert operation.complete_ns is not None
            if operation.complete_ns < end_ns:
                return operation
    return None


def lowest_commit(manifest: Manifest) -> int | None:
    """The lowest commit position in the manifest; None when the run did not converge."""
    return min((final.commit_position for final in finals_of(manifest)), default=None)


def final_positions(
    manifest: Manifest,
    traced: TracedPositions,
    ends: Mapping[int, int],
    bounds: LogBounds,
    acknowledged: Operation | None,
    past_commit: int | None,
) -> Finding:
    """Whether manifest, traces, recordings and history agree on where the log ends; `ends` are of the recordings.

    `acknowledged` is what `acknowledged_past_the_end` found, `past_commit` where the longest log has the first message
    of a client past the commit position.
    """
    finals = finals_of(manifest)
    try:
        for final in finals:
            _require_possible(final)
        if traced.is_lossy:
            return _found(finals, "power was cut at sync level 0: traces and recordings may be ahead of each other")
        _require_recorded(traced, ends, bounds)
        for final in finals:
            _require_nothing_later(final, traced, completed_ns(manifest), acknowledged)
        if finals:
            _require_told(finals, traced, manifest.members)
            _require_no_more_traffic(bounds, past_commit)
    except Broken as broken:
        return broken.finding(Promise.FINAL_POSITIONS)
    committed = traced.committed
    told = "none was told in the traces" if committed is None else f"{committed.position} was told last ({committed})"
    return _found(
        finals, f"commit position of {len(finals)} members in the manifest: {lowest_commit(manifest)}; {told}"
    )


def _found(finals: Sequence[FinalPosition], detail: str) -> Finding:
    if not finals:
        detail = "the manifest has no final positions: no converge phase"
        return Finding(Promise.FINAL_POSITIONS, Verdict.UNKNOWN, detail)
    return Finding(Promise.FINAL_POSITIONS, Verdict.VALID, detail)


def finals_of(manifest: Manifest) -> Sequence[FinalPosition]:
    """The members' final positions; none when the run did not converge."""
    return manifest.converge.members if manifest.converge is not None and manifest.converge.reached else ()


def completed_ns(manifest: Manifest) -> int:
    """When the final positions were read; 0 when the run did not converge."""
    return manifest.converge.completed_ns if manifest.converge is not None and manifest.converge.reached else 0


def _require_possible(final: FinalPosition) -> None:
    if final.append_position < final.commit_position:
        detail = f"{_commit_of(final)} and append position {final.append_position}, which cannot be lower"
        raise Broken(Verdict.INVALID, detail, members=(final.member_id,), position=final.append_position)


def _require_nothing_later(
    final: FinalPosition, traced: TracedPositions, end_ns: int, acknowledged: Operation | None
) -> None:
    """Nothing was committed, acknowledged or recorded past a final position before that was read."""
    who = (final.member_id,)
    told = traced.committed_in_run
    if told is not None and told.position > final.commit_position:
        detail = f"{_commit_of(final)}, but position {told.position} was committed by then ({told})"
        raise Broken(Verdict.UNKNOWN, detail, members=who, position=told.position)
    place = -1 if acknowledged is None or acknowledged.position is None else acknowledged.position
    if acknowledged is not None and place > final.commit_position:
        detail = f"{_commit_of(final)}, but {acknowledged} was acknowledged at position {place}"
        raise Broken(Verdict.UNKNOWN, detail, members=who, position=place, operation=acknowledged.id)
    for told in traced.appended:
        if told.member_id == final.member_id and told.ns < end_ns and told.position > final.append_position:
            detail = (
                f"the manifest has append position {final.append_position} of member {final.member_id}, which had "
                f"recorded up to position {told.position} by then ({told})"
            )
            raise Broken(Verdict.UNKNOWN, detail, members=who, position=told.position)


def _require_recorded(traced: TracedPositions, ends: Mapping[int, int], bounds: LogBounds) -> None:
    """What a member said that it had recorded is there, and what was committed is on a quorum."""
    for told in traced.appended:
        end = ends.get(told.member_id, told.position)
        if end < told.position:
            detail = (
                f"the recording of member {told.member_id} ends at position {end}, it had recorded up to position "
                f"{told.position} ({told})"
            )
            raise Broken(Verdict.INVALID, detail, members=(told.member_id,), position=end)
    committed, recorded = traced.committed, bounds.recorded
    if committed is not None and recorded is not None and recorded < committed.position:
        short = tuple(sorted(member_id for member_id, end in ends.items() if end < committed.position))
        detail = (
            f"position {committed.position} was committed ({committed}), a quorum of recordings reaches position "
            f"{recorded} only: {_listed(ends)}"
        )
        raise Broken(Verdict.INVALID, detail, members=short, position=recorded)


def _require_told(finals: Sequence[FinalPosition], traced: TracedPositions, members: int) -> None:
    """That something is committed has not the manifest's word alone."""
    if members > 1 and traced.is_whole:
        furthest = -1 if traced.committed is None else traced.committed.position
        for final in finals:
            if final.commit_position > furthest:
                where = (
                    f"no trace tells of more than {furthest} ({traced.committed})"
                    if traced.committed
                    else "no trace tells of any"
                )
                detail = f"{_commit_of(final)}, {where}"
                raise Broken(Verdict.UNKNOWN, detail, members=(final.member_id,), position=final.commit_position)


def _require_no_more_traffic(bounds: LogBounds, past_commit: int | None) -> None:
    """What a quorum has recorded past the commit position may be committed; the load had ended before."""
    if past_commit is not None and bounds.recorded is not None and past_commit <= bounds.recorded:
        detail = (
            f"a quorum of recordings has the message of a client at position {past_commit}, past position "
            f"{bounds.commit_position}, the last one known to be committed"
        )
        raise Broken(Verdict.UNKNOWN, detail, position=past_commit)


def _commit_of(final: FinalPosition) -> str:
    return f"the manifest has commit position {final.commit_position} of member {final.member_id}"


def _listed(ends: Mapping[int, int]) -> str:
    return ", ".join(f"member {member_id} ends at {end}" for member_id, end in sorted(ends.items()))
