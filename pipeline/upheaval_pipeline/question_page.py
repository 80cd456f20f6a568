"""`upheaval ask --output`: the answers to questions as one HTML page that needs nothing else, each with its plot.

Whatever came from the lake is escaped.
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from upheaval.cli.report import FILE_NAME
from upheaval.report.document import LIBRARY, document, section, shipped, table
from upheaval_pipeline.engine import Answer
from upheaval_pipeline.query import shown
from upheaval_pipeline.questions import Bars, Heat, Question, Spans, Stacks

SCRIPTS: Final = (LIBRARY, shipped("drawing.js", "lanes.js"))
"""What runs in the page: uPlot, and our own."""
LANES_MAX: Final = 40
"""So many rows are drawn; the table has all."""
_ROWS_OPEN: Final = 12
"""A longer table is there to be opened."""
_FOLDERS: Final = ("folder", "folders")
"""The columns that name run folders."""
_Row = Mapping[str, Any]


def page(lake: str, summary: Answer, answers: Sequence[tuple[Question, Answer]]) -> str:
    """The whole document; `summary` is the answer to `SUMMARY`."""
    where = f"lake {lake} · {_about(summary)}"
    parts = [f'<header>\n<h1>Upheaval</h1>\n<span class="where">{escape(where)}</span>\n</header>']
    plots = {}
    for question, answer in answers:
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        if not isinstance(question.plot, Heat) and rows:
            plots[question.name] = _drawn(question.plot, rows[:LANES_MAX])
        parts.append(section(question.sentence, _answered(question, answer, rows)))
    return document("Upheaval: questions", "\n".join(parts), plots, SCRIPTS)


def _about(summary: Answer) -> str:
    ((runs, first, last, versions),) = summary.rows
    days = " to ".join(dict.fromkeys(str(day)[:10] for day in (first, last) if day))
    parts = (f"{runs} {'run' if runs == 1 else 'runs'}", days, f"upheaval {shown(versions)}" if versions else "")
    return " · ".join(filter(None, parts))


def _answered(question: Question, answer: Answer, rows: Sequence[_Row]) -> str:
    if not rows:
        return f'<p class="note">nothing: {escape(question.without)}</p>'
    if isinstance(question.plot, Heat):
        return _heat(question.plot, rows) + _rows(answer, rows)
    left_out = f'<p class="note">Drawn are the first {LANES_MAX} rows.</p>' if len(rows) > LANES_MAX else ""
    plot = f'<div id="plot-{question.name}" class="chart" role="img" aria-label="{escape(question.sentence)}"></div>'
    return plot + left_out + _rows(answer, rows)


def _rows(answer: Answer, rows: Sequence[_Row]) -> str:
    """All of them as a table that can be opened."""
    shown_rows = ["<tr>" + "".join(_cell(name, row[name]) for name in answer.columns) + "</tr>" for row in rows]
    more = ", of more" if answer.is_cut else ""
    is_open = " open" if len(rows) <= _ROWS_OPEN else ""
    heads = [name.replace("_", " ") for name in answer.columns]
    summary = f"{len(rows):,} {'row' if len(rows) == 1 else 'rows'}{more}"
    return f"<details{is_open}><summary>{summary}</summary>{table(heads, shown_rows, 'answers')}</details>"


def _cell(column: str, value: object) -> str:
    if column in _FOLDERS:
        folders = value if isinstance(value, list) else [] if value is None else [str(value)]
        return f"<td>{'<br>'.join(map(_link, folders))}</td>"
    style = ' class="n"' if isinstance(value, int | float) else ""
    return f"<td{style}>{escape(shown(value))}</td>"


def _link(folder: str) -> str:
    """To the page of a run where there is one, or to its folder; no link to what is not on this machine."""
    path = Path(folder)
    if not path.is_absolute() or not path.is_dir():
        return escape(folder)
    report = path / FILE_NAME
    target = report if report.is_file() else path
    return f'<a href="{escape(target.as_uri())}">{escape(path.name)}</a>'


def _drawn(plot: Bars | Spans | Stacks, rows: Sequence[_Row]) -> dict[str, Any]:
    """What the scripts draw of an answer."""
    values: tuple[str, ...]
    match plot:
        case Bars():
            values, whole, low, high = (plot.value,), plot.value, plot.low, plot.high
        case Spans():
            values, whole, low, high = (plot.begin, plot.end), plot.end, "", ""
        case Stacks():
            values, whole, low, high = plot.values, plot.whole, "", ""
    labels = _telling(plot.labels, rows)
    lanes = [
        {
            "name": " · ".join(filter(None, (_labelled(name, row[name]) for name in labels))),
            "values": [float(row[name] or 0) for name in values],
            "whole": float(row[whole] or 0),
            "low": row.get(low),
            "high": row.get(high),
        }
        for row in rows
    ]
    series = [_title(name) for name in values]
    return {"kind": type(plot).__name__.lower(), "unit": plot.unit, "series": series, "lanes": lanes}


def _telling(labels: Sequence[str], rows: Sequence[_Row]) -> list[str]:
    """The first label, and of the others those that are not the same in all rows."""
    return [name for i, name in enumerate(labels) if i == 0 or len({str(row[name]) for row in rows}) > 1]


def _labelled(name: str, value: object) -> str:
    """A number says what it is the number of."""
    return f"{_title(name)} {value}" if isinstance(value, int) else shown(value)


def _title(name: str) -> str:
    return name.removesuffix("_ms").replace("_", " ")


def _heat(plot: Heat, rows: Sequence[_Row]) -> str:
    """A table of both, with a colour for each value."""
    downs, acrosses = (list(dict.fromkeys(str(row[name]) for row in rows)) for name in (plot.down, plot.across))
    values = {(str(row[plot.down]), str(row[plot.across])): int(row[plot.value]) for row in rows}
    most = max(values.values())
    shown_rows = [
        f"<tr><td>{escape(down)}</td>"
        + "".join(_heat_cell(values.get((down, across), 0), most) for across in acrosses)
        + "</tr>"
        for down in downs
    ]
    return table([plot.down, *acrosses], shown_rows, "heat")


def _heat_cell(value: int, most: int) -> str:
    """The colour grows with the root, so that few look different from none."""
    depth = round(75 * (value / most) ** 0.5) if most else 0
    colour = f"background:color-mix(in srgb,var(--leader) {depth}%,transparent)"
    return f'<td class="n" style="{colour}">{value or ""}</td>'
