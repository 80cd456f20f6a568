"""The common properties of two failures with the same cause: a smaller run has to show them, too."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from upheaval.checkers.promises import AnyPromise
from upheaval.checkers.signature import Signature
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Json


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The verdict and the promise's id, and from its signature the rule, the role and election state of the member that
    broke it, and the kind of entry. Fields that the checker does not report are empty.
    """

    verdict: str
    promise: str
    rule: str = ""
    role: str = ""
    state: str = ""
    entry: str = ""

    @classmethod
    def of(cls, verdict: Verdict, promise: AnyPromise, signature: Signature | None) -> Self:
        """The fingerprint of a finding with that verdict, promise and signature."""
        if signature is None:
            return cls(verdict.text, str(promise))
        return cls(verdict.text, str(promise), signature.rule, signature.role, signature.state, signature.entry)

    @classmethod
    def of_finding(cls, finding: Finding) -> Self:
        """The fingerprint of a finding."""
        return cls.of(finding.verdict, finding.promise, finding.signature)

    @property
    def is_broken(self) -> bool:
        """Whether the promise is broken, and not just unknown."""
        return self.verdict == Verdict.INVALID.text

    def to_fields(self) -> dict[str, Json]:
        """The JSON fields, without empty ones."""
        fields: Mapping[str, Json] = asdict(self)
        return {name: value for name, value in fields.items() if value}

    def __str__(self) -> str:
        return " ".join(str(value) for value in self.to_fields().values())
