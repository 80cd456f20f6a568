"""The severe errors of a broken promise's members, which may explain it. Nothing here judges.

A member of Aeron reports an error with its category. FATAL and ERROR are severe, WARN is not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import RunFolder, TraceEvent
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S

_SEVERE: Final = ("FATAL ", "ERROR ")
"""The prefixes of their kinds."""


@dataclass(frozen=True, slots=True)
class SevereError:
    """The first error of a kind that a process of a member reported."""

    member_id: int
    ns: int
    """When, on the run's clock."""
    text: str
    """The component, and the first line of the error."""
    place: str
    """Its line in the run folder."""
    traceback: str
    """Empty for an error that is not FATAL."""

    def sentence(self, start_ns: int | None) -> str:
        """The error in a line, with the seconds since `start_ns`, the start of the run, where that is known."""
        when = "" if start_ns is None else f" at {(self.ns - start_ns) / S:.3f} s"
        return f"member {self.member_id} reported{when}: {self.text} ({self.place})"


def severe_errors(run: RunFolder, finding: Finding) -> list[SevereError]:
    """Those of the members that the finding names, by time; none unless it is about a broken promise.

    Raises `UsageError` for a malformed trace.
    """
    if finding.verdict is not Verdict.INVALID:
        return []
    return sorted((error for member in finding.members for error in _of_member(run, member)), key=lambda one: one.ns)


def _of_member(run: RunFolder, member_id: int) -> Iterator[SevereError]:
    member = run.member(member_id)
    if member.trace.exists():
        for event in member.read_trace():
            if event.event == TraceKind.ERROR and str(event.fields.get("kind", "")).startswith(_SEVERE):
                yield _severe_error(event, member_id, f"{member.path.name}/{member.trace.name}:{event.line}")


def _severe_error(event: TraceEvent, member_id: int, place: str) -> SevereError:
    text, traceback = (str(event.fields.get(name) or "") for name in ("text", "traceback"))
    return SevereError(member_id, event.ns, text, place, traceback)
