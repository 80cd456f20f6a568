"""Edits of a tape, the boldest first: which part of a plan to leave out or to simplify next.

Each pass yields tapes that need not make the plan simpler: the caller tries each and checks what was read of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from upheaval.campaign.tape import Fields, Span, Value
from upheaval.records import Json

T = TypeVar("T")
Place = tuple[int, str]
"""The position of a span in order, and the label of a choice in it."""
Pass = Callable[[Span], Iterator[Fields]]


def edited(root: Span, removed: frozenset[int] = frozenset(), values: Mapping[Place, Value] | None = None) -> Fields:
    """The tape without some spans, by position, and with other values for some choices."""
    numbers = {id(span): number for number, span in enumerate(root.walk())}

    def fields_of(span: Span) -> dict[str, Json]:
        number = numbers[id(span)]
        fields: dict[str, Json] = {
            choice.label: (values or {}).get((number, choice.label), choice.value) for choice in span.choices
        }
        for inner in span.spans:
            if numbers[id(inner)] not in removed:
                entries = fields.setdefault(inner.name, [])
                assert isinstance(entries, list)
                entries.append(fields_of(inner))
        return fields

    return fields_of(root)


def without_spans(root: Span) -> Iterator[Fields]:
    """Leave out all spans at once, then halves of them, down to single spans."""
    for chunk in _chunks(range(1, sum(1 for _ in root.walk()))):
        yield edited(root, removed=frozenset(chunk))


def simplest_choices(root: Span) -> Iterator[Fields]:
    """Make all choices the simplest at once, then the choices of one span, then halves, down to single choices."""
    by_span: dict[int, list[tuple[Place, Value]]] = {}
    for number, span in enumerate(root.walk()):
        for choice in span.choices:
            simplest = next(choice.alternatives.simpler(choice.value), None)
            if simplest is not None:
                by_span.setdefault(number, []).append(((number, choice.label), simplest))
    for places in by_span.values():
        yield edited(root, values=dict(places))
    for chunk in _chunks([place for places in by_span.values() for place in places]):
        yield edited(root, values=dict(chunk))


def simpler_choices(root: Span) -> Iterator[Fields]:
    """Make one choice a step simpler: a number by half the distance, a kind by a simpler kind."""
    for number, span in enumerate(root.walk()):
        for choice in span.choices:
            for value in choice.alternatives.simpler(choice.value):
                yield edited(root, values={(number, choice.label): value})


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    size = len(items)
    while size:
        for begin in range(0, len(items), size):
            yield items[begin : begin + size]
        size //= 2


PASSES: Final[tuple[Pass, ...]] = (without_spans, simplest_choices, simpler_choices)
