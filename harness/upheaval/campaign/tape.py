"""A tape: the choices that make a plan, by their labels, in spans that can be taken out as a whole.

In JSON a choice is a number or a text by its label, and the spans of one name are a list of objects:

    {"members": 3, "fault": [{"kind": "kill-leader", "start-ns": 2000000000, "duration-ns": 500000000}]}

A plan is read from a tape choice by choice, each with its alternatives, the simplest one first. A choice that the tape
does not hold, or with a value that is no alternative, is the simplest one; what nothing asks for is passed over. So
every edit of a tape is a tape, and what was read says which choices there were.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from upheaval.records import Json

Value = int | str
Fields = Mapping[str, Json]
"""Of one span, as JSON has it."""

T = TypeVar("T", int, str)


class Alternatives(Protocol):
    """What a choice may be."""

    def rank(self, value: Value) -> int | None:
        """How far it is from the simplest alternative, which has 0; None for what is no alternative."""

    def simpler(self, value: Value) -> Iterator[Value]:
        """Some alternatives of a lower rank, the simplest first."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these, simplest first."""

    values: Sequence[Value]

    def rank(self, value: Value) -> int | None:
        """Its place among them."""
        return self.values.index(value) if value in self.values else None

    def simpler(self, value: Value) -> Iterator[Value]:
        """All of a lower rank."""
        yield from self.values[: self.rank(value)]


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number from `least` to `most`; the closer to `simplest`, the simpler. Smaller steps than `grain` are not
    tried.
    """

    least: int
    most: int
    simplest: int
    grain: int = 1

    def rank(self, value: Value) -> int | None:
        """Its distance."""
        if not isinstance(value, int) or not self.least <= value <= self.most:
            return None
        return abs(value - self.simplest)

    def simpler(self, value: Value) -> Iterator[Value]:
        """The simplest one, then half of the way back, a quarter, an eighth: repeated, that is a search by halves. The
        distance is a multiple of the grain.
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
    """One that was read."""

    label: str
    value: Value
    alternatives: Alternatives

    @property
    def rank(self) -> int:
        """0 for the simplest."""
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
        """As JSON has it."""
        fields: dict[str, Json] = {choice.label: choice.value for choice in self.choices}
        for span in self.spans:
            inner = fields.setdefault(span.name, [])
            assert isinstance(inner, list)
            inner.append(span.to_fields())
        return fields

    def walk(self) -> Iterator["Span"]:
        """This one and all within it."""
        yield self
        for span in self.spans:
            yield from span.walk()

    @property
    def complexity(self) -> tuple[int, int, int]:
        """What makes one tape simpler than another: fewer spans, then fewer choices that are not the simplest, then
        lower ranks.
        """
        ranks = [choice.rank for span in self.walk() for choice in span.choices]
        return sum(1 for _ in self.walk()), sum(1 for rank in ranks if rank), sum(ranks)


class TapeReader:
    """Reads one span of a tape. What was read is in `read`."""

    def __init__(self, fields: Fields, name: str = "") -> None:
        self.fields = fields
        self.read = Span(name)

    def one_of(self, label: str, values: Sequence[T]) -> T:
        """The choice of that label, one of these, simplest first."""
        return self._choose(label, OneOf(values), values[0])

    def number(self, label: str, least: int, most: int, simplest: int | None = None, grain: int = 1) -> int:
        """The choice of that label: a number from `least`, which is the simplest unless another one is named."""
        usual = least if simplest is None else simplest
        return self._choose(label, Number(least, most, usual, grain), usual)

    def spans(self, name: str) -> Iterator["TapeReader"]:
        """The spans of that name."""
        inner = self.fields.get(name)
        for fields in inner if isinstance(inner, list) else ():
            if isinstance(fields, dict):
                reader = TapeReader(fields, name)
                self.read.spans.append(reader.read)
                yield reader

    def optional(self, name: str) -> "TapeReader | None":
        """The span of that name, if there is one."""
        return next(self.spans(name), None)

    def _choose(self, label: str, alternatives: Alternatives, simplest: T) -> T:
        stored = self.fields.get(label)
        is_one = isinstance(stored, type(simplest)) and alternatives.rank(stored) is not None
        value = stored if is_one and isinstance(stored, type(simplest)) else simplest
        self.read.choices.append(Choice(label, value, alternatives))
        return value


EMPTY: Final[Fields] = {}
"""The simplest plan."""
