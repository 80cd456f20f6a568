"""`upheaval scenarios`: what there is to run."""

import json

from upheaval.cli.parsing import JsonOptions
from upheaval.cli.tables import table
from upheaval.runtime_names import SIMULATED
from upheaval.scenario import exact_names, find_exact, load_scenario, scenario_names


def scenarios(options: JsonOptions) -> int:
    """Print all scenarios, the exact ones among them, as a table or as JSON."""
    found = [(each.name, each.title, list(each.runtimes)) for each in map(load_scenario, scenario_names())]
    exact = [find_exact(name) for name in exact_names()]
    found += [(each.name, each.title, [SIMULATED]) for each in exact if each is not None]
    found.sort()
    if options.json:
        rows = [{"name": name, "title": title, "runtimes": runtimes} for name, title, runtimes in found]
        print(json.dumps(rows, indent=2))
    else:
        lines = [[name, ", ".join(runtimes), title] for name, title, runtimes in found]
        print(table([["scenario", "runs on", "what happens"], *lines]))
    return 0
