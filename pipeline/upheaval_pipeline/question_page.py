"""`upheaval ask --out`: the answers to questions as one HTML page that needs nothing else, each with its plot.

Whatever came from the lake is escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from upheaval.cli.report import FILE_NAME
from upheaval.report.document import LIBRARY, document, environment, shipped
from upheaval_pipeline.engine import Answer
from upheaval_pipeline.query import shown
from upheaval_pipeline.questions import UNITS, Bars, Heat, Question, Spans, Stacks

SCRIPTS: Final = (LIBRARY, shipped("drawing.js", "lanes.js"))
"""What runs in the page: uPlot, and our own."""
LANES_MAX: Final = 40
"""So many rows are drawn; the table has all."""
_ROWS_OPEN: Final = 12
"""A longer table is there to be opened."""
_FOLDERS: Final = ("folder", "folders")
"""The columns that name run folders."""
_TIMES: Final = ("ingested",)
"""The columns of times, which labels have without seconds."""
_Row = Mapping[str, Any]


class _Plot(NamedTuple):
    """What the scripts draw in the element of that id, and its caption."""

    id: str
    caption: str
    drawn: Mapping[str, Any]


class _HeatTable(NamedTuple):
    """Numbers by two names; `most` is the largest."""

    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[int]]]
    most: int


def _folders(value: object) -> Sequence[str]:
    return value if isinstance(value, list) else [] if value is None else [str(value)]


def _target(folder: str) -> str:
    """The page of a run where there is one, or its folder; empty for what is not on this machine."""
    path = Path(folder)
    if not path.is_absolute() or not path.is_dir():
        return ""
    report = path / FILE_NAME
    return (report if report.is_file() else path).as_uri()


_TEMPLATES: Final = environment(
    Path(__file__).parent / "templates",
    {"base_name": lambda folder: Path(folder).name, "folders": _folders, "shown": shown, "target": _target},
)


def page(lake: str, summary: Answer, answers: Sequence[tuple[Question, Answer]]) -> str:
    """The whole document; `summary` is the answer to `SUMMARY`."""
    drawn: dict[str, Mapping[str, Any]] = {}
    shown_answers = []
    for question, answer in answers:
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        heat = _heat(question.plot, rows) if isinstance(question.plot, Heat) and rows else None
        plots = list(_plots(question, rows))
        drawn |= {plot.id: plot.drawn for plot in plots}
        shown_answers.append((question, answer, rows, heat, plots))
    return document(
        _TEMPLATES,
        "questions.html",
        drawn,
        SCRIPTS,
        lake=lake,
        about=_about(summary),
        answers=shown_answers,
        folder_columns=_FOLDERS,
        lanes_max=LANES_MAX,
        rows_open=_ROWS_OPEN,
    )


def _about(summary: Answer) -> str:
    ((runs, first, last, versions, campaigns),) = summary.rows
    days = " to ".join(dict.fromkeys(str(day)[:10] for day in (first, last) if day))
    counts = f"{runs} {'run' if runs == 1 else 'runs'}", f"{campaigns} {'campaign' if campaigns == 1 else 'campaigns'}"
    parts = (counts[0], counts[1] if campaigns else "", days, f"upheaval {shown(versions)}" if versions else "")
    return " · ".join(filter(None, parts))


def _plots(question: Question, rows: Sequence[_Row]) -> Iterator[_Plot]:
    """Of the rows of an answer: none of a heat table, and several where they are not to be compared."""
    plot = question.plot
    if isinstance(plot, Heat):
        return
    # No value is not 0: the table alone has such rows.
    rows = [row for row in rows if row[_whole(plot)] is not None]
    if not rows:
        return
    if isinstance(plot, Spans) or not plot.by:
        yield _Plot(question.name, "", _drawn(plot, rows[:LANES_MAX]))
        return
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(str(row[plot.by]), []).append(row)
    for number, (what, some) in enumerate(groups.items(), start=1):
        unit = UNITS[what] if isinstance(plot, Bars) else plot.unit
        drawn = _drawn(replace(plot, unit=unit), some[:LANES_MAX])
        yield _Plot(f"{question.name}-{number}", what.removesuffix(f", {unit}"), drawn)


def _whole(plot: Bars | Spans | Stacks) -> str:
    """The column of the number at the end of what is drawn."""
    match plot:
        case Bars():
            return plot.value
        case Spans():
            return plot.end
        case Stacks():
            return plot.whole


def _drawn(plot: Bars | Spans | Stacks, rows: Sequence[_Row]) -> dict[str, Any]:
    """What the scripts draw of an answer."""
    values: tuple[str, ...]
    match plot:
        case Bars():
            values, low, high = (plot.value,), plot.low, plot.high
        case Spans():
            values, low, high = (plot.begin, plot.end), "", ""
        case Stacks():
            values, low, high = plot.values, "", ""
    labels = _differing(plot.labels, rows)
    lanes = [
        {
            "name": " · ".join(filter(None, (_labelled(name, row[name]) for name in labels))),
            "values": [float(row[name] or 0) for name in values],
            "whole": float(row[_whole(plot)]),
            "low": row.get(low),
            "high": row.get(high),
        }
        for row in rows
    ]
    series = [_title(name) for name in values]
    colours = plot.colours if isinstance(plot, Stacks) else ()
    return {
        "kind": type(plot).__name__.lower(),
        "unit": plot.unit,
        "series": series,
        "colours": colours,
        "lanes": lanes,
    }


def _differing(labels: Sequence[str], rows: Sequence[_Row]) -> list[str]:
    """The first label, and of the others those that are not the same in all rows."""
    return [name for i, name in enumerate(labels) if i == 0 or len({str(row[name]) for row in rows}) > 1]


def _labelled(name: str, value: object) -> str:
    """A number says what it is the number of."""
    if name in _TIMES:
        return shown(value)[:16].replace("T", " ")
    return f"{_title(name)} {value}" if isinstance(value, int) else shown(value)


def _title(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


def _heat(plot: Heat, rows: Sequence[_Row]) -> _HeatTable:
    """Of both names of each row, in the order in which they come."""
    downs, acrosses = (list(dict.fromkeys(str(row[name]) for row in rows)) for name in (plot.down, plot.across))
    values = {(str(row[plot.down]), str(row[plot.across])): int(row[plot.value]) for row in rows}
    return _HeatTable(
        [plot.down, *acrosses],
        [(down, [values.get((down, across), 0) for across in acrosses]) for down in downs],
        max(values.values()),
    )
