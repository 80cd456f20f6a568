"""The promise that every fault of a run took effect and was healed, by the proofs in `faults.jsonl`.

This module knows no fault; it reads proofs.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Manifest
from upheaval_chaos.record import FaultRecord


def faults_proved(faults: Iterable[FaultRecord], manifest: Manifest) -> Finding:
    """Unknown when a fault has no proof, was planned and not injected, or was not healed although nothing shows
    recovery.

    Convergence shows recovery: every member lived and was at the same position at the end. A drawn fault without effect
    does not count.
    """
    shown = []
    undone = Counter(manifest.planned_faults)
    has_converged = manifest.converge is not None and manifest.converge.reached
    for fault in faults:
        undone.subtract((fault.name,))
        text = f"{fault.what} of {fault.where}: {fault.evidence}"
        if fault.was_unseen:
            shown.append(text)
            continue
        if not fault.is_proved:
            return Finding(Promise.FAULTS_PROVED, Verdict.UNKNOWN, text, members=fault.members)
        if fault.heal_end_ns is None and not has_converged:
            text = f"{fault.what} of {fault.where} was not healed"
            return Finding(Promise.FAULTS_PROVED, Verdict.UNKNOWN, text, members=fault.members)
        shown.append(text)
    if missing := +undone:
        names = ", ".join(map(repr, sorted(missing)))
        return Finding(Promise.FAULTS_PROVED, Verdict.UNKNOWN, f"planned and not done: fault {names}")
    return Finding(Promise.FAULTS_PROVED, Verdict.VALID, "; ".join(shown) or "there were none")


FAULTS: Final = Checker(
    "faults",
    (Promise.FAULTS_PROVED,),
    frozenset({Source.FAULTS}),
    lambda evidence: [faults_proved(evidence.faults, evidence.manifest)],
)
