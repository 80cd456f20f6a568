"""Write the tables and views of a lake into docs/pipeline.md, with what a row is and the columns.

`python tools/lake_tables.py` needs DuckDB. `tests/pipeline/test_lake_tables.py` fails when the page is not current.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.duck import duck_engine
from upheaval_pipeline.query import add_views
from upheaval_pipeline.tables import LAKE_SCHEMAS, REJECT, REJECTS, ROWS, SEEDS, VERDICTS
from upheaval_pipeline.views import VIEWS

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "pipeline.md"
BEGIN: Final = "<!-- tables: written by tools/lake_tables.py -->"
END: Final = "<!-- end of the tables -->"
SCHEMAS: Final = {**LAKE_SCHEMAS, "rejects": REJECTS, "verdicts": VERDICTS, "seeds": SEEDS}


def lines() -> Iterator[str]:
    """The table of the page."""
    yield "| table or view | a row is | columns |"
    yield "|---|---|---|"
    for name, columns in SCHEMAS.items():
        typed = (f"`{field.name}` {field.type}" for field in arrow_schema(columns) if field.name != REJECT)
        yield _line(name, ROWS[name], typed)
    with duck_engine() as engine:
        for name, columns in SCHEMAS.items():
            engine.add_rows(name, columns, [])
        add_views(engine)
        for view in VIEWS:
            yield _line(view.name, view.row, (f"`{column}`" for column, _ in engine.columns(view.name)))


def _line(name: str, row: str, columns: Iterator[str]) -> str:
    return f"| `{name}` | {row} | {', '.join(columns)} |"


def current(text: str) -> str:
    """The page with the table as it is now. Raises `ValueError` for a page without its place."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no lines {BEGIN} and {END}")
    return "\n".join([f"{before}{BEGIN}", "", *lines(), "", f"{END}{after}"])


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
