"""A tape: the choices that make a plan, by label, in spans that can be removed as a whole.

In JSON a choice is a number or a text by its label, and the spans of one name are a list of objects:

    {"members": 3, "fault": [{"kind": "kill-leader", "start-ns": 2000000000, "duration-ns": 500000000}]}

A plan is read from a tape choice by choice, each with its alternatives, the simplest first. A choice that is missing,
or whose value is no alternative, gets the simplest alternative. Choices that no plan reads are ignored. So every edit
of a tape is a tape, and the result of reading says which choices there were.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from upheaval.records import Json

Value = int | str
Fields = Mapping[str, Json]
"""The JSON fields of one span."""

T = TypeVar("T", int, str)


class Alternatives(Protocol):
    """The alternatives of a choice."""

    def rank(self, value: Value) -> int | None:
        """The distance from the simplest alternative, which has 0; None for a value that is no alternative."""

    def simpler(self, value: Value) -> Iterator[Value]:
        """Some alternatives of a lower rank, the simplest first."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several values, the simplest first."""

    values: Sequence[Value]

    def rank(self, value: Value) -> int | None:
        """Its index among the values."""
        return self.values.index(value) if value in self.values else None

    def simpler(self, value: Value) -> Iterator[Value]:
        """All values of a lower rank."""
        yield from self.values[: self.rank(value)]


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number from `least` to `most`; the closer to `simplest`, the simpler. Steps smaller than `grain` are not
    tried.
    """

    least: int
    most: int
    simplest: int
    grain: int = 1

    def rank(self, value: Value) -> int | None:
        """The distance from `simplest`."""
        if not isinstance(value, int) or not self.least <= value <= self.most:
            return None
        return abs(value - self.simplest)

    def simpler(self, value: Value) -> Iterator[Value]:
        """The simplest number, then half of the way back, a quarter, an eighth; repeated, that is a binary search. All
        distances are multiples of the grain.
        """
        assert isinstance(value, int)
        distance = abs(value - self.simplest)
        sign = 1 if value > self.simplest else -1
        rests = (distance - distance // part for part in (1, 2, 4, 8, self.grain + distance))
        for rest in dict.fromkeys(rest // self.grain * self.grain for rest in rests):
            if rest < distance:
                yield self.simplest + sign * rest


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice that was read."""

    label: str
    value: Value
    alternatives: Alternatives

    @property
    def rank(self) -> int:
        """Its rank, 0 for the simplest."""
        rank = self.alternatives.rank(self.value)
        assert rank is not None
        return rank


@dataclass(slots=True)
class Span:
    """What was read of one span, in order."""

    name: str
    choices: list[Choice] = field(default_factory=list)
    spans: list["Span"] = field(default_factory=list)

    def to_fields(self) -> dict[str, Json]:
        """The JSON fields."""
        fields: dict[str, Json] = {choice.label: choice.value for choice in self.choices}
        for span in self.spans:
            inner = fields.setdefault(span.name, [])
            assert isinstance(inner, list)
            inner.append(span.to_fields())
        return fields

    def walk(self) -> Iterator["Span"]:
        """This span and all spans within it."""
        yield self
        for span in self.spans:
            yield from span.walk()

    @property
    def complexity(self) -> tuple[int, int, int]:
        """The order of tapes by simplicity: fewer spans, then fewer choices that are not the simplest, then lower
        ranks.
        """
        ranks = [choice.rank for span in self.walk() for choice in span.choices]
        return sum(1 for _ in self.walk()), sum(1 for rank in ranks if rank), sum(ranks)


class TapeReader:
    """Reads one span of a tape. `read` has what was read so far."""

    def __init__(self, fields: Fields, name: str = "") -> None:
        self.fields = fields
        self.read = Span(name)

    def one_of(self, label: str, values: Sequence[T]) -> T:
        """The choice with that label, one of these values, the simplest first."""
        return self._choose(label, OneOf(values), values[0])

    def number(self, label: str, least: int, most: int, simplest: int | None = None, grain: int = 1) -> int:
        """The choice with that label: a number from `least`, which is the simplest unless another one is given."""
        usual = least if simplest is None else simplest
        return self._choose(label, Number(least, most, usual, grain), usual)

    def spans(self, name: str) -> Iterator["TapeReader"]:
        """The spans with that name."""
        inner = self.fields.get(name)
        for fields in inner if isinstance(inner, list) else ():
            if isinstance(fields, dict):
                reader = TapeReader(fields, name)
                self.read.spans.append(reader.read)
                yield reader

    def optional(self, name: str) -> "TapeReader | None":
        """The span with that name, if the tape has one."""
        return next(self.spans(name), None)

    def _choose(self, label: str, alternatives: Alternatives, simplest: T) -> T:
        stored = self.fields.get(label)
        is_one = isinstance(stored, type(simplest)) and alternatives.rank(stored) is not None
        value = stored if is_one and isinstance(stored, type(simplest)) else simplest
        self.read.choices.append(Choice(label, value, alternatives))
        return value
