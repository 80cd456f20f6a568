"""`upheaval replay`: runs again what a run folder was made by.

A simulated run is one execution, and has to come out the same to the byte. What really happened elsewhere is replayed
as its recorded schedule: the same faults of the same members, at the same moments.
"""

import sys
from pathlib import Path

from upheaval.campaign.seed import SeedOrigin, keep_seed, seed_of_run
from upheaval.checkers.verdict import Verdict
from upheaval.cli import verify
from upheaval.cli.fault_commands import ReplayOptions
from upheaval.cli.moments import show_moment
from upheaval.cli.output import note
from upheaval.cli.run import new_run, perform, run_exact_script, show
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.execution.exact_run import exact_of_run
from upheaval.execution.run import read_origin, read_result
from upheaval.records import RunFolder
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes import cluster_file
from upheaval.scenario import recorded_scenario


def replay(options: ReplayOptions) -> int:
    """The verdict of the new run; unknown when it should have been the same execution and was not."""
    if options.until is not None:
        return show_moment(options, options.until)
    folder, runtime, target, as_json = options.run, options.runtime, options.dir, options.json
    script = exact_of_run(folder)
    if script is not None:
        if runtime not in (None, SIMULATED):
            raise UsageError(f"{script.name} is an exact script: it runs on the simulated runtime")
        return run_exact_script(script, read_result(folder).seed, target, as_json=as_json)
    origin = seed_of_run(folder)
    if origin is not None:
        if runtime not in (None, SIMULATED):
            raise UsageError(f"{folder} is a seed of a campaign: it runs on the simulated runtime")
        return _replay_seed(origin, target, as_json=as_json)
    scenario, recorded = read_origin(folder)
    wanted = runtime or recorded.runtime
    is_same_execution = recorded.runtime == SIMULATED == wanted
    if not is_same_execution:
        scenario = recorded_scenario(scenario, RunFolder(folder))
    scenario = scenario.on_system(RunFolder(folder).read_manifest().system).launched(*cluster_file.start_of(folder))
    result = perform(scenario, wanted, recorded.seed, target, recorded.planted, recorded.own)
    show(result, as_json=as_json)
    return (
        _compared(recorded.digest, result.digest, result.verdict) if is_same_execution else result.verdict.exit_status
    )


def _replay_seed(origin: SeedOrigin, target: Path | None, *, as_json: bool) -> int:
    with new_run(target, f"seed-{origin.seed}") as path:
        run = keep_seed(origin, path)
    if run.report is None:
        raise UnknownOutcome(run.outcome.detail)
    verify.show(run.report, as_json=as_json)
    return _compared(origin.digest, run.stage.digest(), run.report.verdict)


def _compared(then: str | None, now: str | None, verdict: Verdict) -> int:
    """The exit status of an execution that should have been the same."""
    if then != now:
        print(f"upheaval: the digest was {then}: the node or the simulation has changed since", file=sys.stderr)
        return max(verdict, Verdict.UNKNOWN).exit_status
    note("the digest is the same: this was the same execution")
    return verdict.exit_status
