"""`upheaval planted`: the bugs that a test build of the node can have."""

import json

from upheaval.cli.parsing import JsonOptions
from upheaval.cli.tables import table
from upheaval_chaos.planted.catalogue import CATALOGUE


def planted(options: JsonOptions) -> int:
    """Print the catalogue as a table or as JSON."""
    if options.json:
        rows = [
            {
                "name": bug.name,
                "area": bug.area,
                "breaks": bug.breaks,
                "caught_by": list(bug.caught_by),
                "scenario": bug.scenario,
            }
            for bug in CATALOGUE
        ]
        print(json.dumps(rows, indent=2))
    else:
        rows_of_text = [
            [bug.area, bug.name, bug.breaks, ", ".join(bug.caught_by), bug.scenario or "campaign"] for bug in CATALOGUE
        ]
        print(table([["area", "bug", "what goes wrong", "promises that find it", "in scenario"], *rows_of_text]))
    return 0
