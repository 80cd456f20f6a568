"""What a checker says: one of four verdicts for each promise, and the worst of them for the run.

This module knows nothing of how a promise is checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from upheaval.checkers.own.causes import Explanation
from upheaval.checkers.promises import AnyPromise, Promise
from upheaval.checkers.signature import Signature
from upheaval_chaos.exit_status import CommandStatus


class Verdict(IntEnum):
    """Ordered by how bad it is. UNKNOWN: too little to judge by; TIMEOUT: the run did not end in time."""

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
        """As reports and JSON have it."""
        return self.name.lower()

    @property
    def exit_status(self) -> CommandStatus:
        """What a command that ends with this verdict returns to the shell."""
        return _EXIT_STATUS[self]


_EXIT_STATUS: Final = {
    Verdict.VALID: CommandStatus.VALID,
    Verdict.TIMEOUT: CommandStatus.UNKNOWN,
    Verdict.UNKNOWN: CommandStatus.UNKNOWN,
    Verdict.INVALID: CommandStatus.BROKEN,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one promise, and for a reader in one line what it rests on or what broke it.

    Fields have what it is about, where there is such a thing: the members, a position of the log, the id of an
    operation. Nothing reads them out of the line.
    """

    promise: AnyPromise
    verdict: Verdict
    detail: str
    members: tuple[int, ...] = ()
    position: int | None = None
    operation: int | None = None
    late_ms: int = 0
    """By how many milliseconds a bound on time was missed; 0 for what no time is promised for."""
    explanation: Explanation | None = None
    """Why states of a user's service differ, where replays showed it."""
    signature: Signature | None = None
    """What it has in common with others of the same cause, where its checker says so."""
    known_issue: int | None = None
    """The issue of Aeron's that shows so."""

    @property
    def known(self) -> str:
        """That issue, for people; empty where there is none."""
        return "" if self.known_issue is None else f"as Aeron issue {self.known_issue} does"

    @property
    def evidence(self) -> str:
        """The line, and what explains it."""
        return "; ".join([self.detail, *self.explained])

    @property
    def explained(self) -> tuple[str, ...]:
        """Why, in sentences, where replays showed it, and which known bug shows so."""
        sentences = () if self.explanation is None else self.explanation.sentences
        return (*sentences, self.known) if self.known else sentences

    @property
    def about(self) -> list[str]:
        """What its fields name, in words: members, position, operation."""
        noun = "member" if len(self.members) == 1 else "members"
        named = [(noun, ", ".join(map(str, self.members))), ("position", self.position), ("operation", self.operation)]
        return [f"{name} {value}" for name, value in named if value not in (None, "")]

    def to_lines(self) -> list[str]:
        """For a terminal: one, cut where it is too long, and one for each sentence that explains it."""
        detail = self.detail if len(self.detail) <= _DETAIL_MAX else self.detail[:_DETAIL_MAX] + " .."
        return [f"{self.verdict.text}: {self.promise.sentence}: {detail}", *(f"  {each}" for each in self.explained)]

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it: the promise by its id, and everything in words, too."""
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
        }


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A promise that the run gives no occasion to judge, and why, as the checker of it found out.

    `is_gap`: the run gives occasion, and what it is judged by is not there, such as the code of a service.
    """

    promise: Promise
    why: str
    is_gap: bool = False

    def to_fields(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {"promise": self.promise, "sentence": self.promise.sentence, "why": self.why}


Result = Finding | NotApplicable
"""What a checker answers about a promise."""


def trace_missing(promise: Promise, member_id: int) -> Finding:
    """The finding on what only the trace of that member could show."""
    return Finding(promise, Verdict.UNKNOWN, f"the trace of member {member_id} is missing", members=(member_id,))


class Broken(Exception):
    """The first thing that decides about a promise, raised where it is found; the fields are those of a finding."""

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
    ) -> None:
        super().__init__(detail)
        self.late_ms = late_ms
        self.signature = signature
        self._fields = (verdict, detail, members, position, operation, late_ms)

    def finding(self, promise: Promise) -> Finding:
        """As the finding on a promise."""
        return Finding(promise, *self._fields, signature=self.signature)


def raise_latest(missed: Sequence[Broken]) -> None:
    """Of bounds on time that were missed, the one that was missed by most: what explains it explains all of them."""
    if missed:
        raise max(missed, key=lambda broken: broken.late_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The findings on one run, and the promises that were not checked, which make it no worse by themselves."""

    run: str
    findings: tuple[Finding, ...]
    unchecked: tuple[NotApplicable, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst finding; a run about which nothing was found out is unknown."""
        return worst([finding.verdict for finding in self.findings])

    def to_fields(self) -> dict[str, Any]:
        """What every command that judges prints as JSON."""
        promises = [finding.to_fields() for finding in self.findings]
        not_checked = [each.to_fields() for each in self.unchecked]
        return {"run": self.run, "verdict": self.verdict.text, "promises": promises, "not_checked": not_checked}

    @property
    def worst_first(self) -> list[Finding]:
        """The findings as people read them: what is broken, then what is unknown, then the rest."""
        return sorted(self.findings, key=lambda finding: -finding.verdict)

    @property
    def gaps(self) -> list[str]:
        """A line for each promise that could not be judged though the run gives occasion."""
        return [f"not checked: {each.promise.sentence}: {each.why}" for each in self.unchecked if each.is_gap]

    def __str__(self) -> str:
        """The verdict, what is not valid, the worst first, and what is left: it fits on a screen."""
        bad = [finding for finding in self.worst_first if finding.verdict is not Verdict.VALID]
        lines = [f"verdict: {self.verdict.text}"]
        for finding in bad[:_SHOWN]:
            lines += finding.to_lines()
        more = f"{len(bad) - _SHOWN} more are not valid, " if len(bad) > _SHOWN else ""
        lines += self.gaps
        kept = len(self.findings) - len(bad)
        lines.append(f"{more}{kept} kept, {len(self.unchecked)} not checked")
        return "\n".join([*lines, f"all of it: upheaval verify {self.run}"])

    def __repr__(self) -> str:
        """Short, because pytest cuts what is not: the verdict and the worst finding."""
        first = next(iter(self.worst_first), None)
        if first is None or first.verdict is Verdict.VALID:
            return f"Report({self.verdict.text}, {len(self.findings)} promises kept)"
        return f"Report({first.verdict.text}: {first.promise.sentence}: {first.detail}"[:_REPR_MAX] + ")"

    def finding(self, promise: AnyPromise) -> Finding:
        """The finding on a promise. Raises `KeyError` when it was not checked."""
        for finding in self.findings:
            if finding.promise == promise:
                return finding
        raise KeyError(promise)


_SHOWN: Final = 12
_DETAIL_MAX: Final = 600
_REPR_MAX: Final = 230


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Composition of verdicts: the worst wins, and none at all is unknown."""
    return max(verdicts, default=Verdict.UNKNOWN)
