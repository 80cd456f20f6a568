"""The severe errors of a broken promise's members, which may explain it. Nothing here judges.

A member of Aeron reports an error with its category. FATAL and ERROR are severe, WARN is not.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from upheaval.checkers.severe_error import SevereError
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import RunFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind

_SEVERE: Final = ("FATAL ", "ERROR ")
"""The prefixes of their kinds."""


def with_severe_errors(run: RunFolder, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings; those on broken promises have the errors of the members that they name, by time.

    Raises `UsageError` for a malformed trace.
    """
    return tuple(
        finding if finding.verdict is not Verdict.INVALID else _explained(run, finding) for finding in findings
    )


def _explained(run: RunFolder, finding: Finding) -> Finding:
    errors = sorted((error for member in finding.members for error in _of_member(run, member)), key=lambda one: one.ns)
    return replace(finding, errors=tuple(errors))


def _of_member(run: RunFolder, member_id: int) -> Iterator[SevereError]:
    member = run.member(member_id)
    if member.trace.exists():
        for event in member.read_trace():
            if event.event == TraceKind.ERROR and str(event.fields.get("kind", "")).startswith(_SEVERE):
                yield _severe_error(event, member_id, f"{member.path.name}/{member.trace.name}:{event.line}")


def _severe_error(event: TraceEvent, member_id: int, place: str) -> SevereError:
    text, traceback = (str(event.fields.get(name) or "") for name in ("text", "traceback"))
    return SevereError(member_id, event.ns, text, place, traceback)
