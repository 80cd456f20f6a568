"""The pictures of the report as inline SVG: members over time, and charts on the same time axis below them.

Colours are CSS classes, so that light and dark are the page's business. Everything that came from a run is escaped.
"""

from collections.abc import Callable, Sequence
from html import escape

from upheaval.report.figures import LEADER, Bucket, Figures, Span
from upheaval_node.types import MS, US, S

WIDTH, LEFT, RIGHT = 1080, 84, 16
LANE, LANE_GAP, CHART = 30, 10, 150
TOP, AXIS, NAME = 26, 24, 16
_STEPS = (1, 2, 5)
_LABEL_MIN = 46


class Canvas:
    """Collects shapes; `x` maps a time of the run to the page."""

    def __init__(self, figures: Figures, height: int, label: str) -> None:
        self.figures = figures
        self.height = height
        self._label = label
        self._shapes: list[str] = []

    def x(self, ns: float) -> float:
        """Where a time of the run (ns since its begin) lies on the page, in units of the picture."""
        return LEFT + (WIDTH - LEFT - RIGHT) * ns / self.figures.length_ns

    def add(self, shape: str) -> None:
        """Add a shape that is SVG already."""
        self._shapes.append(shape)

    def text(self, x: float, y: float, text: str, style: str, anchor: str = "start") -> None:
        """Add a text, escaped; `style` is its CSS class."""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, style: str, title: str, radius: int = 0) -> None:
        """Add a rectangle, at least visibly wide, with a hint that shows when it is pointed at."""
        hint = f"<title>{escape(title)}</title>" if title else ""
        self.add(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.6):.1f}" height="{height:.1f}" rx="{radius}" '
            f'class="{style}">{hint}</rect>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """Add a straight line."""
        self.add(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>')

    def svg(self) -> str:
        """The picture, with its label for those who do not see it."""
        head = f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{escape(self._label)}">'
        return "\n".join([head, *self._shapes, "</svg>"])


def timeline(figures: Figures) -> str:
    """One lane a member: what it was when. Faults lie under the lanes, terms begin at their lines."""
    names = _fault_names(figures)
    top = TOP + NAME * max((row for *_, row in names), default=0)
    height = top + len(figures.members) * (LANE + LANE_GAP) + AXIS
    canvas = Canvas(figures, height, "members, their roles and terms, and faults over time")
    _faults(canvas, top, height - AXIS)
    for x, begin, name, row in names:
        y = top - 9 - NAME * row
        canvas.line(x, y - 10, x, top, "faultedge")
        canvas.text(begin, y, name, "faultname")
    for index, (member, spans) in enumerate(figures.members.items()):
        y = top + index * (LANE + LANE_GAP)
        canvas.text(LEFT - 10, y + LANE / 2 + 4, f"member {member}", "name", "end")
        for span in spans:
            _span(canvas, span, member, y)
    for moment, term, leader in figures.terms:
        x = canvas.x(moment)
        canvas.line(x, top - 4, x, height - AXIS, "term")
        hint = f"<title>term {term}, leader {leader}</title>"
        canvas.add(f'<circle cx="{x:.1f}" cy="{top - 4}" r="3" class="termdot">{hint}</circle>')
    _time_axis(canvas, height - AXIS)
    return canvas.svg()


def throughput(figures: Figures) -> str:
    """Answers a second, interval by interval."""
    canvas, y, bottom = _chart(figures, max((b.rate for b in figures.buckets), default=0), _count, "answers a second")
    points = [(bucket, bucket.rate) for bucket in figures.buckets]
    path = " ".join(
        f"L{canvas.x(b.begin):.1f},{y(rate):.1f} L{canvas.x(b.end):.1f},{y(rate):.1f}" for b, rate in points
    )
    canvas.add(f'<path d="M{LEFT},{bottom} {path} L{canvas.x(figures.length_ns):.1f},{bottom} Z" class="area"/>')
    _hover(canvas, bottom, lambda b: f"{b.rate:,.0f} answers a second")
    return canvas.svg()


def latency(figures: Figures) -> str:
    """The median and the 99th percentile of what was answered in each interval; a break where nothing was."""
    top = max((b.p99 for b in figures.buckets if b.p99 is not None), default=0)
    canvas, y, bottom = _chart(figures, top, duration, "latency")
    curves: tuple[tuple[str, Callable[[Bucket], float | None]], ...] = (
        ("p99", lambda b: b.p99),
        ("p50", lambda b: b.p50),
    )
    for style, value in curves:
        pieces: list[str] = []
        before = False
        for bucket in figures.buckets:
            height = value(bucket)
            if height is not None:
                middle = canvas.x((bucket.begin + bucket.end) / 2)
                pieces.append(f"{'L' if before else 'M'}{middle:.1f},{y(height):.1f}")
            before = height is not None
        if pieces:
            canvas.add(f'<path d="{" ".join(pieces)}" class="line {style}"/>')
    _hover(canvas, bottom, _latency_hint)
    return canvas.svg()


def duration(ns: float) -> str:
    """A time for people, with the unit that suits it."""
    for unit, length in (("s", S), ("ms", MS), ("µs", US)):
        if ns >= length:
            return f"{ns / length:.3g} {unit}"
    return "0" if ns == 0 else f"{ns:.0f} ns"


def _latency_hint(bucket: Bucket) -> str:
    if bucket.p50 is None or bucket.p99 is None:
        return "no answer"
    return f"p50 {duration(bucket.p50)}, p99 {duration(bucket.p99)}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _span(canvas: Canvas, span: Span, member: int, y: float) -> None:
    x, width = canvas.x(span.begin), canvas.x(span.end) - canvas.x(span.begin)
    label = f"leader of term {span.term}" if span.state == LEADER and span.term is not None else span.state
    title = f"member {member}: {label}, {duration(span.end - span.begin)}"
    canvas.box(x, y, width, LANE, f"state {span.state}", title, 4)
    short = f"term {span.term}" if span.state == LEADER and span.term is not None else span.state
    for text in (label, short):
        if width > max(len(text) * 6.6 + 12, _LABEL_MIN):
            canvas.text(x + 8, y + LANE / 2 + 4, text, f"on {span.state}")
            return


def _fault_names(figures: Figures) -> list[tuple[float, float, str, int]]:
    """Where each fault begins, where its name does, and in which row above the lanes, the lowest that has room."""
    canvas = Canvas(figures, 0, "")
    found: list[tuple[float, float, str, int]] = []
    free_until: list[float] = []
    for fault in sorted(figures.faults, key=lambda fault: -fault.begin):
        x, name = canvas.x(fault.begin), f"{fault.what} {fault.where}"
        width = len(name) * 7
        begin = max(min(x + 6, WIDTH - width), 0)
        row = next((row for row, free in enumerate(free_until) if begin + width + 6 <= free), len(free_until))
        free_until[row : row + 1] = [min(x, begin)]
        found.append((x, begin, name, row))
    return found


def _faults(canvas: Canvas, top: float, bottom: float) -> None:
    for fault in canvas.figures.faults:
        begin = canvas.x(fault.begin)
        end = canvas.x(canvas.figures.length_ns if fault.end is None else fault.end)
        label = f"{fault.what} {fault.where}"
        canvas.box(begin, top, end - begin, bottom - top, "fault", label)
        canvas.line(begin, top, begin, bottom, "faultedge")


def _chart(
    figures: Figures, largest: float, show: Callable[[float], str], label: str
) -> tuple[Canvas, Callable[[float], float], float]:
    bottom = 10 + CHART
    canvas = Canvas(figures, bottom + AXIS, f"{label} over time")
    step = _step(largest, 4)
    highest = max(step, -(-largest // step) * step)

    def y(value: float) -> float:
        return bottom - CHART * value / highest

    _faults(canvas, 10, bottom)
    level = 0.0
    while level <= highest:
        canvas.line(LEFT, y(level), WIDTH - RIGHT, y(level), "grid")
        canvas.text(LEFT - 10, y(level) + 4, show(level), "tick", "end")
        level += step
    _time_axis(canvas, bottom)
    return canvas, y, bottom


def _hover(canvas: Canvas, bottom: float, hint: Callable[[Bucket], str]) -> None:
    for bucket in canvas.figures.buckets:
        x = canvas.x(bucket.begin)
        title = f"at {duration(bucket.begin)}: {hint(bucket)}"
        canvas.box(x, 10, canvas.x(bucket.end) - x, bottom - 10, "hover", title)


def _time_axis(canvas: Canvas, y: float) -> None:
    length = canvas.figures.length_ns
    step = _step(length, 8)
    canvas.line(LEFT, y, WIDTH - RIGHT, y, "axis")
    for index in range(int(length // step) + 1):
        x = canvas.x(index * step)
        canvas.line(x, y, x, y + 4, "axis")
        canvas.text(x, y + 17, duration(index * step), "tick", "middle")


def _step(largest: float, wanted: int) -> float:
    """A round distance between ticks, so that there are about as many as wanted."""
    size = 1.0
    while size * 10 * wanted <= largest:
        size *= 10
    steps: Sequence[float] = [size * factor for factor in (*_STEPS, 10)]
    return next((step for step in steps if step * wanted >= largest), steps[-1])
