"""What checkers return: one of four verdicts for each promise; the worst of them is the verdict on the run.

This module knows nothing of how promises are checked.
"""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NoReturn

from upheaval.checkers.own.causes import Explanation
from upheaval.checkers.promises import AnyPromise, Promise
from upheaval.checkers.severe_error import SevereError
from upheaval.checkers.signature import Signature
from upheaval_chaos.exit_status import CommandStatus


class Verdict(IntEnum):
    """Ordered from best to worst. UNKNOWN: not enough evidence; TIMEOUT: the run did not end in time."""

    VALID = 0
    TIMEOUT = 1
    UNKNOWN = 2
    INVALID = 3

    @classmethod
    def named(cls, text: str) -> "Verdict":
        """The verdict with that `text`."""
        return cls[text.upper()]

    @property
    def text(self) -> str:
        """The verdict in lower case, as reports and JSON show it."""
        return self.name.lower()

    @property
    def exit_status(self) -> CommandStatus:
        """The exit status of a command that ends with this verdict."""
        return _EXIT_STATUS[self]


COUNTED: Final = {Verdict.INVALID: "broken", Verdict.UNKNOWN: "unknown", Verdict.TIMEOUT: "timed out"}
"""What results other than valid ones are called when they are counted."""
_EXIT_STATUS: Final = {
    Verdict.VALID: CommandStatus.VALID,
    Verdict.TIMEOUT: CommandStatus.UNKNOWN,
    Verdict.UNKNOWN: CommandStatus.UNKNOWN,
    Verdict.INVALID: CommandStatus.BROKEN,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one promise, with a line for readers that says what it rests on or what broke it.

    `members`, `position` and `operation` name the subject of the finding, where it has one, and `when_ns` is its begin
    and end on the run's clock, where a record dates it. Nothing parses the line.
    """

    promise: AnyPromise
    verdict: Verdict
    detail: str
    members: tuple[int, ...] = ()
    position: int | None = None
    operation: int | None = None
    late_ms: int = 0
    """Milliseconds by which a time bound was missed; 0 if the promise is not about time."""
    explanation: Explanation | None = None
    """Why states of a user's service differ, if replays showed it."""
    signature: Signature | None = None
    """The values shared with findings of the same cause, if the checker gives them."""
    known_issue: int | None = None
    """The Aeron issue that matches this finding."""
    known_cause: str = ""
    """A known defect without an issue that matches this finding, in words."""
    besides: tuple["Finding", ...] = field(default=(), compare=False)
    """Further violations of the promise, each of which may have another cause."""
    since: int | None = field(default=None, compare=False)
    """The log position from which on the violation may have had consequences; None if it is not known."""
    when_ns: tuple[int, int] | None = field(default=None, compare=False)
    """Nanoseconds; both are the same for an event. Readers of tables, which have no such records, find the same."""
    errors: tuple[SevereError, ...] = field(default=(), compare=False)
    """The severe errors of the members of a broken promise, by time."""
    is_own_code_at_fault: bool = field(default=False, compare=False)
    """Whether the user's model or promise raised, or returned what is no verdict: it judged nothing."""

    @property
    def fails_test(self) -> bool:
        """Whether a test fails by it although all its assertions hold."""
        return self.verdict is Verdict.INVALID or self.is_own_code_at_fault

    @property
    def known(self) -> str:
        """The known issue or cause in words; empty if there is none."""
        cause = self.known_cause if self.known_issue is None else f"Aeron issue {self.known_issue}"
        return cause and f"as {cause} does"

    @property
    def evidence(self) -> str:
        """The line of the finding and its explanation."""
        return "; ".join([self.detail, *self.explained])

    @property
    def explained(self) -> tuple[str, ...]:
        """The explanation that replays gave, the known bug, and further violations, in sentences."""
        sentences = () if self.explanation is None else self.explanation.sentences
        shown = [f"besides: {one.evidence}" for one in self.besides[:_BESIDES_SHOWN]]
        rest = len(self.besides) - len(shown)
        return (*sentences, *filter(None, [self.known]), *shown, *([f"and {rest} more"] if rest else []))

    @property
    def about(self) -> list[str]:
        """The subject of the finding in words: members, position, operation."""
        noun = "member" if len(self.members) == 1 else "members"
        named = [(noun, ", ".join(map(str, self.members))), ("position", self.position), ("operation", self.operation)]
        return [f"{name} {value}" for name, value in named if value not in (None, "")]

    def to_lines(self) -> list[str]:
        """Lines for a terminal: the finding, cut if it is too long, and one line for each sentence of the
        explanation.
        """
        detail = self.detail if len(self.detail) <= _DETAIL_MAX else self.detail[:_DETAIL_MAX] + " .."
        return [f"{self.verdict.text}: {self.promise.sentence}: {detail}", *(f"  {text}" for text in self.explained)]

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON: the promise by its id and its sentence, the verdict in words."""
        return {
            "promise": self.promise,
            "sentence": self.promise.sentence,
            "verdict": self.verdict.text,
            "detail": self.detail,
            "members": list(self.members),
            "position": self.position,
            "operation": self.operation,
            **({} if self.explanation is None else {"explanation": self.explanation.to_fields()}),
            **({} if self.signature is None else {"signature": self.signature.to_fields()}),
            **({} if self.known_issue is None else {"known_issue": self.known_issue}),
            **({"errors": [error.to_fields() for error in self.errors]} if self.errors else {}),
            **({"known_cause": self.known_cause} if self.known_cause else {}),
            **({"besides": [one.to_fields() for one in self.besides]} if self.besides else {}),
        }


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A promise that the run gives no occasion to judge, and the checker's reason.

    `is_gap`: the run does give occasion, but something needed to judge it is missing, such as the code of a service.
    """

    promise: Promise
    why: str
    is_gap: bool = False

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {"promise": self.promise, "sentence": self.promise.sentence, "why": self.why}


Result = Finding | NotApplicable
"""A checker's answer about a promise."""


def trace_missing(promise: Promise, member_id: int) -> Finding:
    """An unknown verdict for a promise that needs the missing trace of that member."""
    return Finding(promise, Verdict.UNKNOWN, f"the trace of member {member_id} is missing", members=(member_id,))


class Broken(Exception):
    """Raised at the first fact that decides about a promise. The fields are those of a finding."""

    def __init__(
        self,
        verdict: Verdict,
        detail: str,
        *,
        members: tuple[int, ...] = (),
        position: int | None = None,
        operation: int | None = None,
        late_ms: int = 0,
        signature: Signature | None = None,
        since: int | None = None,
        when_ns: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(detail)
        self.late_ms = late_ms
        self.since = since
        self.signature = signature
        self.when_ns = when_ns
        self._fields = (verdict, detail, members, position, operation, late_ms)

    def finding(self, promise: Promise) -> Finding:
        """The finding on that promise."""
        return Finding(promise, *self._fields, signature=self.signature, since=self.since, when_ns=self.when_ns)


def raise_latest(missed: Sequence[Broken]) -> None:
    """Raise the time bound that was missed by most: what explains the longest delay explains all of them."""
    if missed:
        raise max(missed, key=lambda broken: broken.late_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The findings on one run, and the promises that were not checked. The latter do not make the verdict worse."""

    run: str
    findings: tuple[Finding, ...]
    unchecked: tuple[NotApplicable, ...] = ()

    def __bool__(self) -> NoReturn:
        """Raises `TypeError`: any report, an invalid one too, would count as true."""
        raise TypeError("a report has no truth value: use .verdict or assert_valid()")

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all findings; UNKNOWN without findings."""
        return worst([finding.verdict for finding in self.findings])

    def to_fields(self) -> dict[str, Any]:
        """The JSON that every judging command prints."""
        promises = [finding.to_fields() for finding in self.findings]
        not_checked = [result.to_fields() for result in self.unchecked]
        return {"run": self.run, "verdict": self.verdict.text, "promises": promises, "not_checked": not_checked}

    @property
    def worst_first(self) -> list[Finding]:
        """The findings, worst first: broken, then unknown, then the rest."""
        return sorted(self.findings, key=lambda finding: -finding.verdict)

    @property
    def gaps(self) -> list[str]:
        """A line for each promise that the run gave occasion to judge but that could not be judged."""
        return [f"not checked: {result.promise.sentence}: {result.why}" for result in self.unchecked if result.is_gap]

    def __str__(self) -> str:
        """The verdict, the findings that are not valid (worst first), and counts of the rest: fits on one screen."""
        bad = [finding for finding in self.worst_first if finding.verdict is not Verdict.VALID]
        lines = [f"verdict: {self.verdict.text}"]
        for finding in bad[:_SHOWN]:
            lines += finding.to_lines()
        more = f"{len(bad) - _SHOWN} more are not valid, " if len(bad) > _SHOWN else ""
        lines += self.gaps
        valid = len(self.findings) - len(bad)
        lines.append(f"{more}{valid} kept, {len(self.unchecked)} not checked")
        return "\n".join([*lines, f"all of it: upheaval verify {shlex.quote(self.run)}"])

    def __repr__(self) -> str:
        """The verdict and the worst finding. Short, because pytest cuts long ones."""
        first = next(iter(self.worst_first), None)
        if first is None or first.verdict is Verdict.VALID:
            return f"Report({self.verdict.text}, {len(self.findings)} promises kept)"
        return f"Report({first.verdict.text}: {first.promise.sentence}: {first.detail}"[:_REPR_MAX] + ")"

    def finding(self, promise: AnyPromise) -> Finding:
        """The finding on a promise. Raises `KeyError` if it was not checked."""
        for finding in self.findings:
            if finding.promise == promise:
                return finding
        raise KeyError(promise)


_SHOWN: Final = 12
_BESIDES_SHOWN: Final = 3
_DETAIL_MAX: Final = 600
_REPR_MAX: Final = 230


def with_all(violations: Iterable[Finding]) -> Finding:
    """The first of the worst violations of a promise, with the others of its verdict; at least one is given."""
    every = list(violations)
    verdict = worst([one.verdict for one in every])
    first, *others = [one for one in every if one.verdict is verdict]
    return replace(first, besides=tuple(others))


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of the verdicts; UNKNOWN if there is none."""
    return max(verdicts, default=Verdict.UNKNOWN)
