"""The promise that services raised no errors, from the traces of members and companions.

No fault makes the code of a service raise: it is deterministic, and its only input is the log.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.trace_facts import RaisedException, TraceFacts, facts_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict, trace_missing
from upheaval.records import MemberFolder, RunFolder, companion_folders

SERVICE_ERROR: Final = re.compile(r"service-\d+-service")
"""The kind of the error that a member reports for the first exception of a service."""


@dataclass(frozen=True, slots=True)
class RaisedBy:
    """An exception, and the trace facts that hold it."""

    facts: TraceFacts
    raised: RaisedException


def raised_in(run: RunFolder, traces: Sequence[TraceFacts]) -> list[RaisedBy]:
    """The exceptions of these members and of all companions, lowest log position first."""
    beside = [facts_of(MemberFolder(path, -1, path.name)) for path in companion_folders(run.path)]
    exceptions = [RaisedBy(facts, raised) for facts in (*traces, *beside) for raised in facts.raised]
    return sorted(exceptions, key=lambda exception: exception.raised.position)


def check_raised(run: RunFolder, traces: Sequence[TraceFacts]) -> Finding:
    """Invalid if a service raised: the detail has the first exception, who raised it, and the number of other code
    places.
    """
    promise = Promise.SERVICES_RAISED_NOTHING
    exceptions = raised_in(run, traces)
    if exceptions:
        first = exceptions[0].raised
        same = [exception for exception in exceptions if _place(exception.raised) == _place(first)]
        owners = sorted({exception.facts.folder for exception in same})
        times = max(exception.raised.count for exception in same)
        often = f", at least {times} times" if times > 1 else ""
        others = len({_place(exception.raised) for exception in exceptions}) - 1
        more = f"; and at {others} other place{'s' * (others > 1)}" if others else ""
        detail = (
            f"service {first.service_id} raised {first.error}, at {first.where}, in {first.callback or 'a callback'} "
            f"at position {first.position}{often}, on {', '.join(owners)}"
            f" ({exceptions[0].facts.name}:{first.line} has the traceback){more}"
        )
        members = tuple(sorted({exception.facts.member_id for exception in same if exception.facts.member_id >= 0}))
        return Finding(promise, Verdict.INVALID, " ".join(detail.split()), members=members, position=first.position)
    for facts in traces:
        error = next((error for error in facts.errors if SERVICE_ERROR.fullmatch(error.kind)), None)
        if error is not None:
            detail = f"{facts.name}:{error.line}: a service of member {facts.member_id} raised, without a traceback"
            return Finding(promise, Verdict.INVALID, detail, members=(facts.member_id,))
    for facts in traces:
        if not facts.is_there:
            return trace_missing(promise, facts.member_id)
    return Finding(promise, Verdict.VALID, f"{len(traces)} members report no exception")


def _place(raised: RaisedException) -> tuple[int, str, str]:
    return raised.service_id, raised.callback, raised.where


RAISED: Final = Checker(
    "raised",
    (Promise.SERVICES_RAISED_NOTHING,),
    frozenset({Source.TRACES, Source.COMPANIONS}),
    lambda evidence: [check_raised(evidence.run, evidence.traces)],
)
