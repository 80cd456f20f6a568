"""The promises that a run converged, and that there was enough traffic to judge.

The manifest has the members' final positions and the time of the last look at them. Both are compared with the traces,
the history, the lives of the processes, and the faults.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from upheaval.checkers.checker import OF_LOG, Checker, Source
from upheaval.checkers.evidence.positions import completed_ns
from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.trace_facts import TraceFacts
from upheaval.checkers.history.columns import ABSENT, IS_CALL, IS_OK, KINDS, History
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, Verdict
from upheaval.records import OWN_SYSTEM, Converge, Function, Manifest, Operation, Outcome
from upheaval_chaos.record import FaultRecord
from upheaval_node.types import MS

# Fewer acknowledged operations prove nothing: a run that did almost nothing must not pass.
ACKNOWLEDGED_MIN = 100


def converged(manifest: Manifest) -> Finding:
    """Whether the manifest has one final position for all members."""
    converge = manifest.converge
    if converge is None:
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, "the manifest has no converge phase")
    if not converge.reached:
        seen = converge.why or ", ".join(f"{final.member_id}: {final.commit_position}" for final in converge.members)
        detail = f"the members did not reach one position in time: {seen}"
        return Finding(Promise.RUN_CONVERGED, Verdict.TIMEOUT, detail)
    ids = [final.member_id for final in converge.members]
    missing = set(range(manifest.members)) - set(ids)
    if missing:
        detail = f"no final position of member {min(missing)}"
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, detail, members=tuple(sorted(missing)))
    if len(ids) > manifest.members:
        detail = f"expected one final position of each of {manifest.members} members, got those of members {ids}"
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, detail)
    positions = {final.commit_position for final in converge.members}
    if len(positions) > 1:
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, f"the final positions differ: {sorted(positions)}")
    terms = {final.leadership_term_id for final in converge.members}
    if len(terms) > 1:
        return Finding(Promise.RUN_CONVERGED, Verdict.UNKNOWN, f"the final leadership terms differ: {sorted(terms)}")
    return Finding(Promise.RUN_CONVERGED, Verdict.VALID, f"{manifest.members} members at position {min(positions)}")


@dataclass(frozen=True, slots=True)
class Shown:
    """Evidence about the time of the last look at the members.

    `committed_then`: the furthest position that a trace calls committed before it; None if no trace shows one.
    """

    operations: Iterable[Operation] = ()
    faults: Sequence[FaultRecord] = ()
    traces: Sequence[TraceFacts] = ()
    committed_then: int | None = None


def converged_then(manifest: Manifest, shown: Shown) -> Finding:
    """Check convergence, and the time of the last look at the members against the evidence."""
    finding = converged(manifest)
    converge = manifest.converge
    if converge is None or finding.verdict is not Verdict.VALID:
        return finding
    try:
        _require_after(converge, shown)
        _require_alive(converge, shown.traces)
        _require_healed(converge, shown.faults)
    except Broken as broken:
        return broken.finding(Promise.RUN_CONVERGED)
    return finding


def _require_after(converge: Converge, shown: Shown) -> None:
    """The last look came after the final position was committed, and after its operations were invoked."""
    position, at_ns = converge.members[0].commit_position, converge.completed_ns
    when = f"the members were last seen at {at_ns // MS} ms, at position {position}"
    if shown.committed_then is not None and shown.committed_then < position:
        detail = f"{when}: no trace shows more than {shown.committed_then} committed by then"
        raise Broken(Verdict.UNKNOWN, detail, position=position)
    for operation in shown.operations:
        at = operation.position
        if operation.outcome is not Outcome.OK or at is None or at > position or operation.invoke_ns < at_ns:
            continue
        asked = f"operation id={operation.id}, at position {at}, was asked for at {operation.invoke_ns // MS} ms"
        raise Broken(Verdict.UNKNOWN, f"{when}: {asked}", position=at, operation=operation.id)


def _require_alive(converge: Converge, traces: Iterable[TraceFacts]) -> None:
    at_ns = converge.completed_ns
    for facts in traces:
        lives = [life for life in facts.lives if life.component in OF_MODULE]
        if any(
            life.begin_ns <= at_ns
            and (life.status is None or life.last_ns >= at_ns)
            and (life.next_ns is None or life.next_ns > at_ns)
            for life in lives
        ):
            continue
        shown = ", ".join(f"from {life.begin_ns // MS} to {life.last_ns // MS} ms" for life in lives) or "never"
        detail = (
            f"the members were last seen at {at_ns // MS} ms, when member {facts.member_id} did not run: it ran {shown}"
        )
        position = converge.members[0].commit_position
        raise Broken(Verdict.UNKNOWN, detail, members=(facts.member_id,), position=position)


def _require_healed(converge: Converge, faults: Iterable[FaultRecord]) -> None:
    at_ns = converge.completed_ns
    for fault in faults:
        if fault.heal_begin_ns is not None and fault.inject_end_ns < at_ns < fault.heal_begin_ns:
            detail = (
                f"the members were last seen at {at_ns // MS} ms, while {fault.what} of {fault.where} went on: it was "
                f"healed from {fault.heal_begin_ns // MS} ms on"
            )
            raise Broken(Verdict.UNKNOWN, detail, members=tuple(sorted(fault.members)))


def enough_traffic(history: History, *, refusals: Sequence[str] = (), is_script: bool = False) -> Finding:
    """Whether enough operations were acknowledged.

    An exact script decides how many there are, so all of its operations, and at least one, must be acknowledged.
    `refusals`: why a shipped service refused requests of a test, which do not count as operations.
    """
    unknown = 0
    counts = dict.fromkeys(Function, 0)
    for kind, count in Counter(history.kinds).items():
        function, outcome = KINDS[kind]
        unknown += count if outcome is Outcome.UNKNOWN else 0
        counts[function] += count if outcome is Outcome.OK else 0
    acknowledged = sum(counts.values())
    shown = ", ".join(f"{count} {function}" for function, count in counts.items() if count)
    detail = f"{acknowledged} acknowledged operations ({shown or 'none'}), {unknown} unknown"
    if is_script and acknowledged and not unknown:
        return Finding(Promise.ENOUGH_TRAFFIC, Verdict.VALID, f"{detail}: all that the script asks for")
    if acknowledged < ACKNOWLEDGED_MIN:
        if refusals:
            detail = f"{detail}, {len(refusals)} requests that the service refused, the first because: {refusals[0]}"
        return Finding(Promise.ENOUGH_TRAFFIC, Verdict.UNKNOWN, f"{detail}: at least {ACKNOWLEDGED_MIN} are needed")
    return Finding(Promise.ENOUGH_TRAFFIC, Verdict.VALID, detail)


def _shown(evidence: Evidence) -> Shown:
    manifest, positions = evidence.manifest, evidence.positions
    # A member that loses its files keeps its trace.
    traces = [facts for facts in evidence.traces if facts.is_there]
    # A lone member sends its positions to no one, and a member of Aeron traces none.
    has_positions = manifest.members > 1 and manifest.system == OWN_SYSTEM and positions.is_whole
    then = None
    if has_positions and not positions.is_lossy:
        then = -1 if positions.committed_in_run is None else positions.committed_in_run.position
    return Shown(_placed_from(evidence, completed_ns(manifest)), evidence.faults, traces, then)


def _placed_from(evidence: Evidence, begin_ns: int) -> Iterator[Operation]:
    """The answered operations that were invoked from a time on, with positions. A call has the position of its
    entry.
    """
    history = evidence.operations
    rows = [row for row, invoke_ns in enumerate(history.invoked) if invoke_ns >= begin_ns and IS_OK[history.kinds[row]]]
    calls = evidence.call_times if any(IS_CALL[history.kinds[row]] for row in rows) else None
    for row in rows:
        taken = None if calls is None else calls.taken.get(history.ids[row])
        if taken is not None:
            yield replace(taken.call, position=taken.position)
        elif history.positions[row] != ABSENT:
            yield history.at(row)


CONVERGENCE: Final = Checker(
    "convergence",
    (Promise.RUN_CONVERGED,),
    OF_LOG | {Source.HISTORY},
    lambda evidence: [converged_then(evidence.manifest, _shown(evidence))],
)
TRAFFIC: Final = Checker(
    "traffic",
    (Promise.ENOUGH_TRAFFIC,),
    frozenset({Source.HISTORY, Source.STRAYS}),
    lambda evidence: [
        enough_traffic(
            evidence.operations,
            refusals=[stray.refusal for stray in evidence.strays if stray.refusal is not None],
            is_script=evidence.manifest.is_script,
        )
    ],
)
