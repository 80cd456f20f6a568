"""Write the table of goals into docs/goals.md.

python tools/goals_table.py [SUMMARY.json] takes the summary of `upheaval campaign --out`, and keeps its counts in
docs/goals.json; without a file it makes the table of what is there. Also the record that tools/goals_watch.py reads.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from upheaval.campaign.goals.table import AREAS
from upheaval.errors import HarnessError, UsageError
from upheaval.records import jsonfields

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = DOCS / "goals.md"
RECORD: Final = DOCS / "goals.json"
BEGIN: Final = "<!-- written by tools/goals_table.py -->"
END: Final = "<!-- end of the table -->"


@dataclass(frozen=True)
class Reached:
    """How many seeds a campaign ran, and how many of them reached each goal."""

    seeds: int
    goals: Mapping[str, int]

    @classmethod
    def read(cls, path: Path) -> "Reached":
        """From a record, or from the summary of a campaign. Raises `HarnessError` for any other file."""
        reached = jsonfields.read_file(cls, path)
        if reached.seeds < 1 or not all(type(count) is int for count in reached.goals.values()):
            raise UsageError(f"{path}: field 'goals' must have the counts of at least one seed")
        return reached


def table(reached: Reached) -> str:
    """A line for each goal, in the order of the areas."""
    lines = [
        f"| {area.name} | `{goal.name}` | {goal.meaning} | {_share(reached, goal.name)} |"
        for area in AREAS
        for goal in area.goals
    ]
    return "\n".join([f"| area | goal | reached when | of {reached.seeds} seeds |", "|---|---|---|---|", *lines])


def _share(reached: Reached, name: str) -> str:
    count = reached.goals.get(name)
    if count is None:
        return "not measured"
    return f"{count / reached.seeds:.0%}" if count else "none"


def page_with_table(text: str, reached: Reached) -> str:
    """The page with the table."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no marks for the table")
    return f"{before}{BEGIN}\n\n{table(reached)}\n\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    try:
        record = Reached.read(Path(arguments[0]) if arguments else RECORD)
    except HarnessError as problem:
        print(f"goals_table: {problem}", file=sys.stderr)
        return problem.exit_status
    RECORD.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
