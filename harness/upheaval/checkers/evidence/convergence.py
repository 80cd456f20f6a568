"""The promises that a run converged, and that it had enough traffic to judge by."""

from collections.abc import Iterable
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Function, Manifest, Operation, Outcome

# Fewer acknowledged operations than this show nothing: a run that did almost nothing must not look good.
ACKNOWLEDGED_MIN = 100


def converged(manifest: Manifest) -> Finding:
    """Whether the manifest says that the run ended at one position."""
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


def enough_traffic(operations: Iterable[Operation], *, is_script: bool = False) -> Finding:
    """Whether there were enough acknowledged operations to judge by.

    An exact script decides how many there are: all of them were acknowledged, and there is one.
    """
    unknown = 0
    counts = dict.fromkeys(Function, 0)
    for operation in operations:
        unknown += operation.outcome is Outcome.UNKNOWN
        counts[operation.f] += operation.outcome is Outcome.OK
    acknowledged = sum(counts.values())
    shown = ", ".join(f"{count} {function}" for function, count in counts.items() if count)
    detail = f"{acknowledged} acknowledged operations ({shown or 'none'}), {unknown} unknown"
    if is_script and acknowledged and not unknown:
        return Finding(Promise.ENOUGH_TRAFFIC, Verdict.VALID, f"{detail}: all that the script asks for")
    if acknowledged < ACKNOWLEDGED_MIN:
        return Finding(Promise.ENOUGH_TRAFFIC, Verdict.UNKNOWN, f"{detail}: at least {ACKNOWLEDGED_MIN} are needed")
    return Finding(Promise.ENOUGH_TRAFFIC, Verdict.VALID, detail)


CONVERGENCE: Final = Checker(
    "convergence", (Promise.RUN_CONVERGED,), frozenset(), lambda evidence: [converged(evidence.manifest)]
)
TRAFFIC: Final = Checker(
    "traffic",
    (Promise.ENOUGH_TRAFFIC,),
    frozenset((Source.HISTORY,)),
    lambda evidence: [enough_traffic(evidence.operations, is_script=bool(evidence.manifest.expected))],
)
