"""`upheaval replay`: runs again what a run folder was made by.

A simulated run is one execution, and has to come out the same to the byte. What really happened elsewhere is replayed
as its recorded schedule: the same faults of the same members, at the same moments.
"""

import sys
from pathlib import Path

from upheaval.cli.run import perform, run_exact_script, show
from upheaval.errors import UsageError
from upheaval.execution.exact_run import exact_of_run
from upheaval.execution.run import read_origin, read_result
from upheaval.records import RunFolder
from upheaval.scenario import SIMULATED, recorded_scenario

DIFFERENT_STATUS = 3


def replay(folder: Path, *, runtime: str | None, target: Path | None, as_json: bool) -> int:
    """The verdict of the new run; unknown when it should have been the same execution and was not."""
    script = exact_of_run(folder)
    if script is not None:
        if runtime not in (None, SIMULATED):
            raise UsageError(f"{script.name} is an exact script: it runs on the simulated runtime")
        return run_exact_script(script, read_result(folder).seed, target, as_json=as_json)
    scenario, told = read_origin(folder)
    wanted = runtime or told.runtime
    is_same_execution = told.runtime == SIMULATED == wanted
    if not is_same_execution:
        scenario = recorded_scenario(scenario, RunFolder(folder))
    result = perform(scenario, wanted, told.seed, target, told.planted)
    show(result, as_json=as_json)
    if not is_same_execution:
        return result.verdict.exit_status
    if told.digest != result.digest:
        print(f"upheaval: the digest was {told.digest}: the node or the simulation has changed since", file=sys.stderr)
        return max(result.verdict.exit_status, DIFFERENT_STATUS) if result.verdict.exit_status != 1 else 1
    print("the digest is the same: this was the same execution", file=sys.stderr)
    return result.verdict.exit_status
