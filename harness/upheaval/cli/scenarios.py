"""`upheaval scenarios`: what there is to run."""

import json

from upheaval.cli.parsing import JsonOptions
from upheaval.cli.tables import table
from upheaval.runtime_names import SIMULATED
from upheaval.scenario import exact_names, find_exact, load_scenario, scenario_names


def scenarios(options: JsonOptions) -> int:
    """Print all scenarios, the exact ones among them, as a table or as JSON."""
    entries = [
        (scenario.name, scenario.title, list(scenario.runtimes)) for scenario in map(load_scenario, scenario_names())
    ]
    exact = [find_exact(name) for name in exact_names()]
    entries += [(script.name, script.title, [SIMULATED]) for script in exact if script is not None]
    entries.sort()
    if options.json:
        rows = [{"name": name, "title": title, "runtimes": runtimes} for name, title, runtimes in entries]
        print(json.dumps(rows, indent=2))
    else:
        lines = [[name, ", ".join(runtimes), title] for name, title, runtimes in entries]
        print(table([["scenario", "runs on", "what happens"], *lines]))
    return 0
