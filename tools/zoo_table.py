"""Write the table of the zoo into docs/planted.md.

python tools/zoo_table.py [ZOO.json ...] takes what `upheaval zoo --json` printed, and keeps it in docs/zoo.json, in
place of earlier rows of the same bugs; without a file it makes the table of what is there.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from upheaval.campaign.searches import UNIFORM
from upheaval.campaign.zoo import BUDGET_S
from upheaval.errors import HarnessError, UsageError
from upheaval.records import jsonfields
from upheaval_chaos.planted.bug import PlantedBug
from upheaval_chaos.planted.catalogue import AREAS

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "planted.md"
RESULTS: Final = DOCS / "zoo.json"
BEGIN: Final = "<!-- written by tools/zoo_table.py -->"
END: Final = "<!-- end of the table -->"
NEEDED: Final = {"bug", "promises", "seeds", "processor_seconds"}
NEEDED_OF_ESCAPED: Final = {"spent_seeds", "spent_seconds"}


def read_rows(path: Path = RESULTS) -> list[dict[str, Any]]:
    """What a zoo found, a row for each bug. Raises `HarnessError` for a file that no zoo printed."""
    try:
        rows = json.loads(jsonfields.read_text(path))
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise UsageError(f"{path}: not the rows that `upheaval zoo --json` prints")
    return rows


def _is_row(row: object) -> bool:
    if not isinstance(row, dict) or not row.keys() >= NEEDED:
        return False
    return row["seeds"] is not None or row.keys() >= NEEDED_OF_ESCAPED


def joined(known: Sequence[dict[str, Any]], newer: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each bug, the newer one where there are two, in the order of the catalogue."""
    by_name = {row["bug"]: row for row in (*known, *newer)}
    return [by_name[bug.name] for area in AREAS for bug in area.bugs if bug.name in by_name]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each bug, in the order of the areas; without figures where no zoo measured them."""
    by_name = {row["bug"]: row for row in rows}
    lines = [_line(bug, by_name.get(bug.name)) for area in AREAS for bug in area.bugs]
    return "\n".join(
        [
            "| area | bug | what is wrong | caught by | seeds | processor s | shrunk to | other seeds fail alike |",
            "|---|---|---|---|---|---|---|---|",
            *lines,
        ]
    )


def _line(bug: PlantedBug, row: dict[str, Any] | None) -> str:
    cells = [bug.area, f"`{bug.name}`", bug.breaks.rstrip(".")]
    if row is None:
        cells += [_named(bug.caught_by), "not measured", ""]
    elif row["seeds"] is None:
        fate = "**escaped**" if row["spent_seconds"] >= BUDGET_S else "nothing yet"
        cells += [fate, f"> {row['spent_seeds']}{_search_of(row)}", f"> {row['spent_seconds']}"]
    else:
        cells += [_named(row["promises"]), f"{row['seeds']}{_search_of(row)}", str(row["processor_seconds"])]
    cells += _shrunk_cells(None if row is None else row.get("shrunk"))
    return f"| {' | '.join(cells)} |"


def _search_of(row: dict[str, Any]) -> str:
    search = row.get("search", UNIFORM)
    return "" if search == UNIFORM else f" of `--search {search}`"


def _shrunk_cells(shrunk: dict[str, Any] | None) -> list[str]:
    if shrunk is None:
        return ["", ""]
    sizes = ((shrunk[name], name.removesuffix("s")) for name in ("members", "faults", "operations"))
    size = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in sizes)
    return [size, f"{shrunk['fresh']} of {shrunk['fresh_runs']}" if shrunk["fresh_runs"] else "no text"]


def _named(promises: Sequence[str]) -> str:
    return ", ".join(f"`{promise}`" for promise in promises)


def page_with_table(text: str, rows: Sequence[dict[str, Any]]) -> str:
    """The page with the table of these rows."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no marks for the table")
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    try:
        rows = read_rows(RESULTS)
        for argument in arguments:
            rows = joined(rows, read_rows(Path(argument)))
    except HarnessError as problem:
        print(f"zoo_table: {problem}", file=sys.stderr)
        return problem.exit_status
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
