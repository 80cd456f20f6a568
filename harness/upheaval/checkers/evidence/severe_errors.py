"""The severe errors of a broken promise's members, which may explain it. Nothing here judges.

A member of Aeron reports an error with its category. FATAL and ERROR are severe, WARN is not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from upheaval.checkers.severe_error import SevereError
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import MemberFolder, RunFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind

_SEVERE: Final = ("FATAL ", "ERROR ")
"""The prefixes of their kinds."""


def with_severe_errors(run: RunFolder, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings; those on broken promises have the errors of the members of all their violations, by time.

    Each trace is read once. Raises `UsageError` for a malformed one.
    """

    @cache
    def of_member(member_id: int) -> Sequence[SevereError]:
        return list(_of_member(run.member(member_id), member_id))

    def explained(finding: Finding) -> Finding:
        named = dict.fromkeys(member_id for one in (finding, *finding.besides) for member_id in one.members)
        errors = [error for member_id in named for error in of_member(member_id)]
        return replace(finding, errors=tuple(sorted(errors, key=lambda error: error.ns)))

    return tuple(finding if finding.verdict is not Verdict.INVALID else explained(finding) for finding in findings)


def _of_member(member: MemberFolder, member_id: int) -> Iterator[SevereError]:
    for event in member.traced():
        if event.event == TraceKind.ERROR and str(event.fields.get("kind", "")).startswith(_SEVERE):
            yield _severe_error(event, member_id, f"{member.path.name}/{member.trace.name}:{event.line}")


def _severe_error(event: TraceEvent, member_id: int, place: str) -> SevereError:
    text, traceback = (str(event.fields.get(name) or "") for name in ("text", "traceback"))
    return SevereError(member_id, event.ns, text, place, traceback)
