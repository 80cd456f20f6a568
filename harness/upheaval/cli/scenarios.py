"""`upheaval scenarios`: what there is to run."""

import json

from upheaval.cli.tables import table
from upheaval.scenario_text import load_scenario, scenario_names


def scenarios(*, as_json: bool) -> int:
    found = [load_scenario(name) for name in scenario_names()]
    if as_json:
        rows = [{"name": s.name, "title": s.title, "runtimes": list(s.runtimes)} for s in found]
        print(json.dumps(rows, indent=2))
    else:
        print(
            table([["scenario", "runs on", "what happens"]] + [[s.name, ", ".join(s.runtimes), s.title] for s in found])
        )
    return 0
