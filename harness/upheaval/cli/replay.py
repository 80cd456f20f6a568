"""`upheaval replay`: runs again what a run folder was made by. A simulated run has to come out the same to the byte."""

import sys
from pathlib import Path

from upheaval.cli.run import perform, show
from upheaval.scenario_run import read_origin

DIFFERENT_STATUS = 3


def replay(folder: Path, *, target: Path | None, as_json: bool) -> int:
    """The verdict of the new run; unknown when it should have been the same execution and was not."""
    origin = read_origin(folder)
    result = perform(origin.scenario, origin.runtime, origin.seed, target, origin.planted)
    show(result, as_json=as_json)
    if origin.digest != result.digest:
        print(
            f"upheaval: the digest was {origin.digest}: the node or the simulation has changed since", file=sys.stderr
        )
        return max(result.verdict.exit_status, DIFFERENT_STATUS) if result.verdict.exit_status != 1 else 1
    if origin.digest is not None:
        print("the digest is the same: this was the same execution", file=sys.stderr)
    return result.verdict.exit_status
