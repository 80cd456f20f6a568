"""A lake as tables and views that queries see. Nothing is written, and nothing is judged here."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.errors import UsageError
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.engine import Answer, Engine
from upheaval_pipeline.known_bug_rows import KNOWN_BUGS_COLUMNS, known_bug_rows
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.sql_dialects import names_in
from upheaval_pipeline.tables import LAKE_SCHEMAS, REJECT, REJECTS, ROWS, SEEDS, VERDICTS
from upheaval_pipeline.views import VIEWS

ALL: Final = "with_rejects"
"""What the name of a table ends in, with the rows that say why something could not be read."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What questions are asked with: the share of the time that is to have answers, and two values of labels each,
    `(label, base, value)`, that are to be compared.
    """

    objective: float = 0.999
    compared: tuple[tuple[str, str, str], ...] = ()


_DEFAULT: Final = Asked()


def ask(engine: Engine, lake: Lake, sql: str, limit: int) -> Answer:
    """The first rows of a query. Raises `UsageError` for what is no query, and for a run with a damaged file."""
    open_views(engine, lake)
    return engine.answer(sql, limit)


def ask_all(engine: Engine, lake: Lake, queries: Sequence[str], limit: int, asked: Asked = _DEFAULT) -> list[Answer]:
    """The first rows of each query; views that several of them read are computed once. Raises as `ask` does."""
    open_views(engine, lake, asked)
    with engine.sharing(shared_views(queries)):
        return [engine.answer(sql, limit) for sql in queries]


def shared_views(queries: Iterable[str]) -> list[str]:
    """The views that are read more than once, by queries or by views that these read, in the order of `VIEWS`.

    Raises `UsageError` for what is no query.
    """
    read_by = Counter(name for sql in queries for name in names_in(sql))
    for view in reversed(VIEWS):
        if view.name in read_by:
            read_by.update(names_in(view.sql))
    return [view.name for view in VIEWS if read_by[view.name] > 1]


def shown(value: object) -> str:
    """A value of a row for people."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def shown_tables(engine: Engine, lake: Lake) -> list[tuple[str, str, str]]:
    """Each table and view: its name, what a row of it is, and its columns with their types."""
    open_views(engine, lake)
    rows = {**ROWS, **{view.name: view.row for view in VIEWS}}
    return [
        (name, row, ", ".join(f"{column} {kind}" for column, kind in engine.columns(name)))
        for name, row in rows.items()
    ]


def open_views(engine: Engine, lake: Lake, asked: Asked = _DEFAULT) -> None:
    """Let queries see the tables of a lake and its views. Raises `UsageError` for a run with a damaged file."""
    schemas = {**LAKE_SCHEMAS, "seeds": SEEDS}
    known = {name: lake.runs(name) for name in ("runs", "seeds")}
    if damage := lake.first_damage():
        raise UsageError(damage)
    reasons = {run: entry.unreadable for run in known["runs"] if (entry := lake.entry("runs", run)) is not None}
    readable = [run for run, reason in reasons.items() if not reason]
    rejects = ["SELECT * FROM unreadable_runs"]
    for name, schema in schemas.items():
        has_rejects = REJECT in arrow_schema(schema).names
        shown_runs = readable if name == "runs" else known["seeds" if name == "seeds" else "runs"]
        engine.add_table(f"{name}_{ALL}" if has_rejects else name, lake, name, schema, shown_runs)
        if has_rejects:
            engine.add_view(name, _readable(name, schema))
            rejects.append(_rejects(name, schema))
    unreadable = [(run, "manifest", None, None, reason) for run, reason in reasons.items() if reason]
    engine.add_rows("unreadable_runs", REJECTS, unreadable)
    engine.add_view("rejects", " UNION ALL ".join(rejects))
    engine.add_table("verdicts", lake, "verdicts", VERDICTS, known["runs"])
    add_views(engine, asked)


def add_views(engine: Engine, asked: Asked = _DEFAULT) -> None:
    """The views, over tables that the engine has."""
    engine.add_rows("slo", "objective double", [(asked.objective,)])
    engine.add_rows("compared", "label string, base_value string, value string", asked.compared)
    engine.add_rows("known_bugs", KNOWN_BUGS_COLUMNS, known_bug_rows())
    for view in VIEWS:
        engine.add_view(view.name, view.sql)


def _readable(name: str, schema: str) -> str:
    """What could be read. How far frames reach is known also where they end in something that is none."""
    if name == "recording":
        return f"SELECT * FROM {name}_{ALL} WHERE kind IS NOT NULL"
    columns = ", ".join(f"`{column}`" for column in arrow_schema(schema).names if column != REJECT)
    return f"SELECT {columns} FROM {name}_{ALL} WHERE {REJECT} IS NULL"


def _rejects(name: str, schema: str) -> str:
    """The rows of a table that say why something could not be read."""
    columns = arrow_schema(schema).names
    member, line = (
        column if column in columns else f"cast(NULL AS {kind}) AS {column}"
        for column, kind in (("member", "int"), ("line", "bigint"))
    )
    what = f"run, '{name}' AS source, {member}, {line}, {REJECT} AS reason"
    return f"SELECT {what} FROM {name}_{ALL} WHERE {REJECT} IS NOT NULL"
