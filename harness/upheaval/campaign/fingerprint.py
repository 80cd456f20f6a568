"""What two failures of the same cause have in common: what a smaller run has to show, too."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from upheaval.checkers.promises import AnyPromise
from upheaval.checkers.signature import Signature
from upheaval.checkers.verdict import Verdict
from upheaval.records import Json


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The verdict and the id of a promise, and of its signature the rule, the role and the election state of the
    member that broke it, and the kind of entry; empty where the checker says nothing of it.
    """

    verdict: str
    promise: str
    rule: str = ""
    role: str = ""
    state: str = ""
    entry: str = ""

    @classmethod
    def of(cls, verdict: Verdict, promise: AnyPromise, signature: Signature | None) -> Self:
        """Of a finding."""
        if signature is None:
            return cls(verdict.text, str(promise))
        return cls(verdict.text, str(promise), signature.rule, signature.role, signature.state, signature.entry)

    @property
    def is_broken(self) -> bool:
        """Whether the promise is broken, and not merely unknown."""
        return self.verdict == Verdict.INVALID.text

    def to_fields(self) -> dict[str, Json]:
        """As JSON has it, without what is empty."""
        fields: Mapping[str, Json] = asdict(self)
        return {name: value for name, value in fields.items() if value}

    def __str__(self) -> str:
        return " ".join(str(value) for value in self.to_fields().values())
