"""Write the table of the zoo into docs/planted.md.

python tools/zoo_table.py [ZOO.json] takes what `upheaval zoo --json` printed, and keeps it in docs/zoo.json; without a
file it makes the table of what is there.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import AREAS

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "planted.md"
RESULTS: Final = DOCS / "zoo.json"
BEGIN: Final = "<!-- written by tools/zoo_table.py -->"
END: Final = "<!-- end of the table -->"


def read_rows() -> list[dict[str, Any]]:
    """What the last zoo found, a row for each bug."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each bug, in the order of the areas; without figures where no zoo had it."""
    by_name = {row["bug"]: row for row in rows}
    lines = [_line(bug, by_name.get(bug.name)) for area in AREAS for bug in area.bugs]
    return "\n".join(
        ["| area | bug | what is wrong | caught by | seeds | processor s |", "|---|---|---|---|---|---|", *lines]
    )


def _line(bug: PlantedBug, row: dict[str, Any] | None) -> str:
    cells = [bug.area, f"`{bug.name}`", bug.breaks.rstrip(".")]
    if row is None:
        cells += [_named(bug.caught_by), "not measured", ""]
    elif row["seeds"] is None:
        cells += ["**escaped**", "", ""]
    else:
        cells += [_named(row["promises"]), str(row["seeds"]), str(row["processor_seconds"])]
    return f"| {' | '.join(cells)} |"


def _named(promises: Sequence[str]) -> str:
    return ", ".join(f"`{promise}`" for promise in promises)


def page_with_table(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """The page with the table of these rows."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no marks for the table")
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}"


if __name__ == "__main__":
    results = Path(sys.argv[1] if len(sys.argv) > 1 else RESULTS).read_text(encoding="utf-8")
    page = page_with_table(PAGE.read_text(encoding="utf-8"), json.loads(results))
    RESULTS.write_text(results, encoding="utf-8")
    PAGE.write_text(page, encoding="utf-8")
