"""What a run that goes on says, as facts: one is a frame, an extent of a log, an answer or a claim, and who judges it.

What is judged together is a group: a range of positions of the log, a key of the service, a leadership term. Groups are
judged apart from each other, in a state that is kept between batches as JSON. Plain Python without Spark.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from upheaval.checkers.verdict import Finding
from upheaval.records import Function, Json, Operation, Outcome

RANGE: Final = "range"
RESULT: Final = "result"
TERM: Final = "term"
BAD: Final = "bad"
FRAME, EXTENT, ANSWER, CLAIM = "frame", "extent", "answer", "claim"

LATE_MS: Final = 300_000
"""By how much of the history's time something may come later than what it belongs to."""

State = dict[str, Json]


class Fact(NamedTuple):
    """A row of what a group is judged by. Numbers that say nothing are -1, texts None."""

    what: str
    member: int
    begin: int
    """Of a frame or an extent its position. Of a claim the line or position where it stands."""
    end: int
    """Of an answer the position that it named."""
    digest: int
    id: int
    """Of a claim who is said to lead."""
    f: str | None
    key: str | None
    value: str | None
    """JSON. Of a claim where it stands, in words."""
    result: str | None
    ns: int
    """When an answer came."""


FACT: Final = (
    "what string, member long, begin long, end long, digest long, id long, f string, key string, value string, "
    "result string, ns long"
)
"""As Spark's columns."""


@dataclass
class Told:
    """What judging a batch of facts of one group came to."""

    findings: list[Finding] = field(default_factory=list)
    answered: int = 0
    """Answers that were seen for the first time."""
    judged: int = 0
    """Answers of which it is known whether the log has them."""
    given_up: int = 0
    """Answers that waited too long for their place in the log."""
    last_ns: int = -1
    """When the last answer came."""
    unreadable: list[str] = field(default_factory=list)
    """Lines of files that make no sense, and why."""

    def to_json(self) -> str | None:
        """As Spark hands it over; None when it says nothing."""
        if self == Told():
            return None
        return json.dumps({**vars(self), "findings": [finding.to_fields() for finding in self.findings]})


@dataclass(frozen=True)
class Moment:
    """The history's time, less what may come late (`watermark_ms`): what is older is not waited for any more."""

    watermark_ms: int
    newest_ms: int

    @property
    def patience_ms(self) -> int:
        """Until when something that was seen now is kept."""
        return max(self.watermark_ms + LATE_MS, self.newest_ms) + LATE_MS


def answer_of(fact: Fact) -> list[Json]:
    """An answer as it stands in a state: id, function, key, value, result, position."""
    value, result = (json.loads(text or "null") for text in (fact.value, fact.result))
    return [fact.id, fact.f, fact.key, value, result, fact.end]


def operation_of(answer: Sequence[Json]) -> Operation:
    """The operation that was answered so."""
    number, f, key, value, result, position = answer
    assert isinstance(number, int)
    assert isinstance(position, int)
    return Operation(number, 0, Function(str(f)), str(key), value, 0, 0, Outcome.OK, result, position)
