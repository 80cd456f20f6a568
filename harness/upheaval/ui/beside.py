"""Two runs beside each other: the same figures of both with their difference, and both on one axis of time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Final

from upheaval.records import FinalPosition, Outcome
from upheaval.report import FaultFigures, Figures, duration

P50, P99, LONGEST = range(3)
_LEFT: Final = 80
_RIGHT: Final = 1000
_LANE: Final = 20
_GAP: Final = 26
_CHART: Final = 70
_OF_FAULTS: Final[Mapping[str, Callable[[FaultFigures], int | None]]] = {
    "put in at": lambda fault: fault.begin,
    "lasted": lambda fault: None if fault.end is None else fault.end - fault.begin,
    "new leader after": lambda fault: fault.new_leader_ns,
    "first answer after": lambda fault: fault.first_answer_ns,
}


@dataclass(frozen=True, slots=True)
class Side:
    """One of two runs."""

    name: str
    verdict: str
    broken: Sequence[str]
    """The sentences of the promises that are not valid."""
    figures: Figures
    finals: Sequence[FinalPosition]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both; the difference is that of the second to the first, empty where there is none."""

    what: str
    a: str
    b: str
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """A rectangle of a state, or with `points` a line, in the units of the drawing."""

    kind: str
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0
    points: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lanes of the members of both runs and their latencies, all on one axis."""

    height: float
    shapes: Sequence[Shape]


def to_fields(a: Side, b: Side) -> Mapping[str, Any]:
    """As the endpoint has it."""
    return {"a": a.name, "b": b.name, "rows": [asdict(row) for row in rows_of(a, b)]}


def rows_of(a: Side, b: Side) -> list[Row]:
    """Verdicts, load, latencies, then each final position and each fault."""
    in_one = [sentence for sentence in (*a.broken, *b.broken) if sentence not in a.broken or sentence not in b.broken]
    return [
        Row("verdict", a.verdict, b.verdict, "" if a.verdict == b.verdict else "differs"),
        Row("not valid", "; ".join(a.broken) or "-", "; ".join(b.broken) or "-", "; ".join(in_one)),
        _times("length", a.figures.length_ns, b.figures.length_ns),
        *_counts(a.figures, b.figures),
        _numbers("operations a second", a.figures.rate, b.figures.rate),
        *(
            _times(f"latency, {name}", _latency(a, place), _latency(b, place))
            for name, place in (("p50", P50), ("p99", P99), ("longest", LONGEST))
        ),
        _times("time without an answer", _gaps(a.figures), _gaps(b.figures)),
        _numbers("terms", len(a.figures.terms), len(b.figures.terms)),
        *_positions(a, b),
        *_faults(a.figures.faults, b.figures.faults),
    ]


def drawing_of(a: Side, b: Side) -> Drawing:
    """Both begin at the left end, whenever they were made; the longer one ends at the right."""
    length = max(a.figures.length_ns, b.figures.length_ns, 1)

    def across(ns: float) -> float:
        return round(_LEFT + ns / length * (_RIGHT - _LEFT), 1)

    shapes: list[Shape] = []
    top = 0.0
    for side in (a, b):
        shapes.append(Shape("title", x=_LEFT, y=top + _GAP - 8, text=side.name))
        top += _GAP
        shapes += _lanes(side.figures, top, across)
        top += _LANE * len(side.figures.members)
    shapes.append(Shape("title", x=_LEFT, y=top + _GAP - 8, text="latency, p99"))
    top += _GAP
    shapes += _latencies(a.figures, b.figures, top, across)
    return Drawing(top + _CHART + 4, shapes)


def _lanes(figures: Figures, top: float, across: Callable[[float], float]) -> Iterator[Shape]:
    for lane, (member, spans) in enumerate(sorted(figures.members.items())):
        y = top + lane * _LANE
        yield Shape("name", x=0, y=y + 13, text=f"member {member}")
        for span in spans:
            x = across(span.begin)
            yield Shape(span.state, x, y, max(across(span.end) - x, 1), _LANE - 4)
    for fault in figures.faults:
        x, end = across(fault.begin), across(figures.length_ns if fault.end is None else fault.end)
        yield Shape("band", x, top, max(end - x, 2), _LANE * len(figures.members), text=f"{fault.what} {fault.where}")


def _latencies(a: Figures, b: Figures, top: float, across: Callable[[float], float]) -> Iterator[Shape]:
    values = [bucket.p99 for figures in (a, b) for bucket in figures.buckets if bucket.p99 is not None]
    most = max(values, default=0) or 1
    yield Shape("name", x=0, y=top + 10, text=duration(max(values, default=0)))
    yield Shape("name", x=0, y=top + _CHART, text="0")
    for kind, figures in (("line a", a), ("line b", b)):
        points = [
            f"{across((bucket.begin + bucket.end) / 2)},{round(top + _CHART * (1 - bucket.p99 / most), 1)}"
            for bucket in figures.buckets
            if bucket.p99 is not None
        ]
        yield Shape(kind, points=" ".join(points))


def _gaps(figures: Figures) -> int:
    return sum(end - begin for begin, end in figures.gaps)


def _counts(a: Figures, b: Figures) -> Iterator[Row]:
    for outcome in Outcome:
        counts = a.counts.get(outcome.value, 0), b.counts.get(outcome.value, 0)
        if any(counts):
            yield _numbers(f"operations, {outcome.value}", *counts)


def _positions(a: Side, b: Side) -> Iterator[Row]:
    finals = [{final.member_id: final.commit_position for final in side.finals} for side in (a, b)]
    for member in sorted({*finals[0], *finals[1]}):
        yield _numbers(f"final position of member {member}", finals[0].get(member), finals[1].get(member))


def _faults(a: Sequence[FaultFigures], b: Sequence[FaultFigures]) -> Iterator[Row]:
    """In the order in which they were put in."""
    for number, (first, second) in enumerate(zip_longest(a, b), start=1):
        names = _name(first), _name(second)
        yield Row(f"fault {number}", *names, "" if names[0] == names[1] else "differs")
        for what, value in _OF_FAULTS.items():
            values = None if first is None else value(first), None if second is None else value(second)
            if values != (None, None):
                yield _times(f"fault {number}, {what}", *values)


def _name(fault: FaultFigures | None) -> str:
    return "-" if fault is None else f"{fault.what} {fault.where}"


def _latency(side: Side, place: int) -> float | None:
    return None if side.figures.latency is None else side.figures.latency[place]


def _times(what: str, a: float | None, b: float | None) -> Row:
    return _row(what, a, b, duration)


def _numbers(what: str, a: float | None, b: float | None) -> Row:
    return _row(what, a, b, _grouped)


def _grouped(value: float) -> str:
    return f"{value:,.4g}" if value % 1 else f"{value:,.0f}"


def _row(what: str, a: float | None, b: float | None, shown: Callable[[float], str]) -> Row:
    first, second = "-" if a is None else shown(a), "-" if b is None else shown(b)
    if a is None or b is None or a == b:
        return Row(what, first, second)
    return Row(what, first, second, f"{'+' if b > a else '-'}{shown(abs(b - a))}")
