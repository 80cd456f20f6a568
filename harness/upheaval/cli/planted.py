"""`upheaval planted`: the bugs that a test build of the node can have."""

import json

from upheaval.checkers.promises import Promise
from upheaval.cli.parsing import JsonOptions
from upheaval.cli.tables import table
from upheaval_chaos.planted.bug import CATALOGUE


def planted(options: JsonOptions) -> int:
    """Print the catalogue as a table or as JSON."""
    if options.json:
        rows = [
            {"name": bug.name, "breaks": bug.breaks, "caught_by": bug.caught_by, "scenario": bug.scenario}
            for bug in CATALOGUE
        ]
        print(json.dumps(rows, indent=2))
    else:
        rows_of_text = [
            [bug.name, bug.breaks, Promise(bug.caught_by).sentence, bug.scenario or "campaign"] for bug in CATALOGUE
        ]
        print(table([["bug", "what goes wrong", "promise that finds it", "in scenario"], *rows_of_text]))
    return 0
